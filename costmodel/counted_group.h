#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/device_spec.h"
#include "kernel/index/axis_set.h"
#include "kernel/program/program.h"
#include "kernel/program/residence.h"

namespace stitch::costmodel {

using kernel::AxisSet;

inline constexpr int warp_lanes = 32;
/// What L1 and L2 move at once (CUDA C++ Programming Guide, "Device Memory Accesses").
inline constexpr int sector_bytes = 32;

/// A group of a scheduled kernel on a device, with the products of extents that everything counted in it needs. Of a
/// softmax over 1000 columns with eight elements a lane, `elements` of all axes is rows × 1000, `per_thread` how often
/// one thread executes an item in a tile, `per_tile` how many different elements a tile touches.
///
/// group_features makes one and hands it to what counts: load_traffic, store_traffic, sweep_count, reduction_count,
/// scatter_count. It refers to all that it was made of, and lives no longer.
struct CountedGroup {
  CountedGroup(const graph::Graph& whole, const kernel::GroupProgram& counted, const kernel::KernelProgram& of,
               const DeviceSpec& on);

  const graph::Graph& graph;  ///< that the kernel computes
  const kernel::GroupProgram& group;
  const kernel::KernelProgram& kernel;
  const kernel::ScalarProgram& program;
  const kernel::Schedule& schedule;
  const DeviceSpec& device;
  const kernel::Residence residence;
  const kernel::LoadPlaces places;
  const double warps;  ///< of all tiles and all blocks of their clusters

  /// Elements with these axes in the whole group.
  [[nodiscard]] double elements(AxisSet axes) const;
  /// Executions of an item with these axes by one thread in one tile.
  [[nodiscard]] double per_thread(AxisSet axes) const;
  /// Executions within one iteration of all loops: what is requested before the first use.
  [[nodiscard]] double per_iteration(AxisSet axes) const;
  /// Distinct elements with these axes that the blocks of a tile touch: in all, or between two turns of its loops.
  [[nodiscard]] double per_tile(AxisSet axes, bool one_turn = false) const;
  /// Lanes of a warp that ask for different elements.
  [[nodiscard]] double distinct_lanes(AxisSet axes) const;
  /// Iterations of the loops around all sweeps.
  [[nodiscard]] double outer_iterations() const;

  /// Bytes of a buffer; infinity where it is not a tensor of the graph.
  [[nodiscard]] double buffer_bytes(const kernel::Buffer& buffer) const;
  /// Which part of the loads of an item is made: of what is guarded (a part of a concatenation) no more than there is.
  [[nodiscard]] double made_share(const kernel::Item& load) const;
  /// Whether an address depends on what was loaded (gather, dynamic-slice).
  [[nodiscard]] bool is_dynamic(kernel::Index address) const;
};

/// Something of each of a few buffers, which are found one by one.
template <class Amount>
class PerBuffer {
 public:
  Amount& operator[](const kernel::Buffer& buffer) {
    for (auto& [known, amount] : amounts_) {
      if (known == buffer) return amount;
    }
    return amounts_.emplace_back(buffer, Amount{}).second;
  }
  [[nodiscard]] auto begin() const { return amounts_.begin(); }
  [[nodiscard]] auto end() const { return amounts_.end(); }
  void clear() { amounts_.clear(); }

 private:
  std::vector<std::pair<kernel::Buffer, Amount>> amounts_;
};

}  // namespace stitch::costmodel
