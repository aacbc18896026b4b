#pragma once

#include <cstdint>
#include <vector>

#include "base/device_spec.h"
#include "costmodel/features.h"
#include "graph/graph.h"
#include "kernel/program/program.h"

namespace stitch::costmodel {

/// What stands before a phase of a kernel.
enum class PhaseEntry : std::uint8_t {
  launch,      ///< the first one
  barrier,     ///< all blocks wait for each other and go on
  last_block,  ///< the block that arrives last goes on by itself
  same_block,  ///< it goes on by itself since an earlier phase
  each_block,  ///< every block goes on by itself
  gate,        ///< the block that arrives last goes on by itself while the others wait
  open,        ///< and they go on with it
};

struct PhaseQuantities {
  std::vector<GroupFeatures> groups;
  std::int64_t tiles = 0;  ///< of all groups; a cluster's blocks count once
  PhaseEntry entry = PhaseEntry::launch;

  /// What it loads that an earlier phase has loaded or stored.
  struct Reread {
    double bytes = 0;       ///< beyond what blocks have retained
    double between = 0;     ///< bytes of the phases in between
    double around = 0;      ///< of that phase and of this one, what is read again once and what is retained not at all
    double front = 0;       ///< of the one or the other: what all blocks are at together
    bool opposite = false;  ///< the two go through it in opposite directions
  };
  std::vector<Reread> rereads;

  /// Bytes that go to and from device memory if L2 holds nothing of what came before.
  [[nodiscard]] double bytes() const;
  /// Bytes of `rereads` that an L2 which keeps the last `kept` bytes has: all, if it keeps all that lies between. If
  /// not, then of what one phase asks for near its end, if the other walks the other way round and asks for it as near
  /// its beginning. Blocks that have a long part of the tensor each are everywhere in it at the same time.
  [[nodiscard]] double found_in_l2(double kept) const;

  [[nodiscard]] bool alone() const {
    return entry == PhaseEntry::last_block || entry == PhaseEntry::same_block || entry == PhaseEntry::gate;
  }
};

/// All that the analytical model and the feature vector count of a kernel, once: neither looks at the program again.
/// Nothing in it depends on a constant of a model.
struct KernelQuantities {
  std::vector<PhaseQuantities> phases;
  std::int64_t blocks = 0;
  int cluster = 1;
  int threads = 0;   ///< of a block
  double turns = 1;  ///< how often the phases run: of a recurrent kernel; all amounts are those of all turns
  double slabs = 1;  ///< how often the phases run one after the other, each time for a slab: amounts are those of one
  double run_bytes = 0;  ///< of a slab that lie side by side in memory, while what is beside them is not asked for
  int resident = 1;      ///< blocks that fit on one SM together, by the estimate of registers; at least 1
};

KernelQuantities kernel_quantities(const graph::Graph& graph, const kernel::KernelProgram& program,
                                   const DeviceSpec& device);

}  // namespace stitch::costmodel
