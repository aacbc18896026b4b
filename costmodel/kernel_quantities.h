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
  launch,      ///< The launch of the kernel: this is its first phase.
  barrier,     ///< All blocks wait for each other, and all go on.
  last_block,  ///< The block that arrives last goes on by itself; the others end.
  same_block,  ///< The block that was last at an earlier phase goes on by itself.
  each_block,  ///< Every block goes on by itself, without waiting for any other.
  gate,        ///< The block that arrives last goes on by itself while the others wait for it.
  open,        ///< The others, which waited at a gate, go on together with the block that did not.
};

/// What one phase of a kernel does: all groups that run side by side in it.
struct PhaseQuantities {
  std::vector<GroupFeatures> groups;
  std::int64_t tiles = 0;  ///< The tiles of all groups; the blocks of a cluster share one.
  PhaseEntry entry = PhaseEntry::launch;

  /// A tensor that the phase loads and that an earlier phase has loaded or stored. Whether L2 still has it depends on
  /// how much went through L2 since: what lies between the two phases and, where they walk through the tensor in
  /// opposite directions, the parts of these two phases themselves.
  struct Reread {
    double bytes = 0;    ///< Bytes that are loaded again, without those that blocks have retained in shared memory.
    double between = 0;  ///< Bytes that the phases between the two move.
    /// Bytes that the two phases move: what both of them load counts once, what is retained does not count.
    double around = 0;
    double front = 0;       ///< Bytes that all blocks are at together, in whichever of the two phases that is more.
    bool opposite = false;  ///< Whether the two phases go through the tensor in opposite directions.
  };
  std::vector<Reread> rereads;

  /// Bytes that go to and from device memory if L2 holds nothing of what came before.
  [[nodiscard]] double bytes() const;
  /// Bytes of `rereads` that an L2 which keeps the last `kept` bytes has: all, if it keeps all that lies between. If
  /// not, then of what one phase asks for near its end, if the other walks the other way round and asks for it as near
  /// its beginning. Blocks that have a long part of the tensor each are everywhere in it at the same time.
  [[nodiscard]] double found_in_l2(double kept) const;

  /// Whether one block runs the phase while the others have ended or wait.
  [[nodiscard]] bool alone() const {
    return entry == PhaseEntry::last_block || entry == PhaseEntry::same_block || entry == PhaseEntry::gate;
  }
};

/// All that the analytical model and the feature vector count of a kernel, once: neither looks at the program again.
/// Nothing in it depends on a constant of a model, so that constants can be fitted to quantities that are kept. A
/// softmax in one phase has one group; a column sum in two phases has two, the second one behind a barrier or run by
/// the last block. kernel_quantities makes it, analytical_us, kernel_features and compiled_estimate read it.
struct KernelQuantities {
  std::vector<PhaseQuantities> phases;
  std::int64_t blocks = 0;
  int cluster = 1;
  int threads = 0;  ///< Threads of a block.
  /// How often the phases run: the turns of a recurrent kernel. The amounts above are those of all turns.
  double turns = 1;
  /// How often the phases run one after the other, each time for one slab. The amounts above are those of one slab.
  double slabs = 1;
  /// Bytes of a slab that lie side by side in memory, where the bytes beside them belong to another slab.
  double run_bytes = 0;
  /// Blocks that fit on one SM together, by the estimate of registers; at least 1.
  int resident = 1;
};

/// Counts a scheduled kernel of `graph` for a device.
KernelQuantities kernel_quantities(const graph::Graph& graph, const kernel::KernelProgram& program,
                                   const DeviceSpec& device);

}  // namespace stitch::costmodel
