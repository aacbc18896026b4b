#include "costmodel/counted_group.h"

#include <algorithm>
#include <limits>

#include "kernel/program/legality.h"
#include "kernel/structure/items.h"

namespace stitch::costmodel {

using kernel::Level;

CountedGroup::CountedGroup(const graph::Graph& whole, const kernel::GroupProgram& counted,
                           const kernel::KernelProgram& of, const DeviceSpec& on)
    : graph(of.computes(whole)),
      group(counted),
      kernel(of),
      program(*counted.structure.program),
      schedule(of.schedule),
      device(on),
      residence(of),
      places(residence, counted, on.shared_per_sm - of.shared_bytes),
      warps(counted.tiles * of.schedule.cluster * kernel::warps_of(of.schedule.threads)) {}

double CountedGroup::elements(AxisSet axes) const {
  double count = 1;
  for (const int a : axes) count *= group.extents[a];
  return count;
}

double CountedGroup::per_thread(AxisSet axes) const {
  double count = 1;
  for (const int a : axes | group.outer_loops) {
    count *= group.mapping.axes[a].at(Level::loop);
    if (axes.contains(a)) count *= group.extent(a, Level::vector) * group.extent(a, Level::reg);
  }
  return count;
}

double CountedGroup::per_iteration(AxisSet axes) const {
  double count = 1;
  for (const int a : axes) count *= group.extent(a, Level::vector) * group.extent(a, Level::reg);
  return count;
}

double CountedGroup::per_tile(AxisSet axes, bool one_turn) const {
  double count = 1;
  for (const int a : axes) {
    const kernel::AxisMapping& mapping = group.mapping.axes[a];
    const std::int64_t each = mapping.per_block() * mapping.at(Level::cluster);
    count *= std::min(one_turn ? each / mapping.at(Level::loop) : each, group.extents[a]);
  }
  return count;
}

double CountedGroup::distinct_lanes(AxisSet axes) const {
  double distinct = 1;
  double lanes = 1;
  for (const int a : group.thread_order) {
    lanes *= group.extent(a, Level::lane);
    if (axes.contains(a)) distinct *= group.extent(a, Level::lane);
  }
  // With fewer than 32 lanes the rest of the warp lies on the warp level.
  for (const int a : group.thread_order) {
    const double more = std::min<double>(group.extent(a, Level::warp), std::max(1.0, warp_lanes / lanes));
    if (lanes < warp_lanes && axes.contains(a)) distinct *= more;
    lanes *= more;
  }
  return std::min<double>(distinct, warp_lanes);
}

double CountedGroup::outer_iterations() const {
  double count = 1;
  for (const int a : group.outer_loops) count *= group.extent(a, Level::loop);
  return count;
}

double CountedGroup::buffer_bytes(const kernel::Buffer& buffer) const {
  const std::optional<std::int64_t> bytes = kernel::tensor_bytes(graph, buffer);
  return bytes ? *bytes : std::numeric_limits<double>::infinity();
}

double CountedGroup::made_share(const kernel::Item& load) const {
  if (load.guard < 0) return 1;
  return std::min(1.0, buffer_bytes(load.buffer) / (elements(load.axes) * graph::byte_size(load.dtype)));
}

bool CountedGroup::is_dynamic(kernel::Index address) const {
  bool dynamic = false;
  program.pool().for_each_variable(
      address, [&](kernel::Index variable) { dynamic = dynamic || program.dynamic_item(variable) >= 0; });
  return dynamic;
}

}  // namespace stitch::costmodel
