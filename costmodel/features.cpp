#include "costmodel/features.h"

#include <algorithm>

#include "costmodel/contraction/state_product_count.h"
#include "costmodel/counted_group.h"
#include "costmodel/exchange_count.h"
#include "costmodel/load_traffic.h"
#include "costmodel/scan_count.h"
#include "costmodel/store_traffic.h"
#include "costmodel/sweep_count.h"

namespace stitch::costmodel {
namespace {

/// What the mapping alone says.
GroupFeatures mapping_features(const CountedGroup& counted) {
  const kernel::GroupProgram& group = counted.group;
  GroupFeatures features;
  features.tiles = group.tiles;
  features.threads = group.threads;
  features.sweeps = group.sweeps.size();
  double useful = 1;
  double mapped = 1;
  for (int a = 0; a < std::ssize(group.extents); ++a) {
    const bool contracted =
        std::ranges::find(group.products, a, &kernel::StateProducts::depth_axis) != group.products.end();
    if (contracted) continue;  // by tensor cores
    useful *= group.extents[a];
    mapped *= group.mapping.axes[a].covered();
    features.thread_elements *= group.mapping.axes[a].per_thread();
    features.iterations *= group.extent(a, kernel::Level::loop);
  }
  features.lane_efficiency = useful / std::max(mapped, 1.0) * group.threads / counted.schedule.threads;
  return features;
}

}  // namespace

GroupFeatures group_features(const graph::Graph& graph, const kernel::GroupProgram& group,
                             const kernel::KernelProgram& kernel, const DeviceSpec& device) {
  const CountedGroup counted(graph, group, kernel, device);
  GroupFeatures features = mapping_features(counted);
  LoadTraffic loads(counted, features);
  loads.count_reads();
  count_stores(counted, features);
  if (group.structure.anchors[0].kind == kernel::Anchor::Kind::scatter) {
    count_scatter(counted, features);
    return features;
  }
  for (int sweep = 0; sweep < features.sweeps; ++sweep) count_sweep(counted, sweep, loads, features);
  if (group.structure.anchors[0].kind == kernel::Anchor::Kind::scan) count_scan(counted, features);
  if (group.structure.anchors[0].kind == kernel::Anchor::Kind::sort) count_sort(counted, features);
  count_state_products(counted, features);
  count_reductions(counted, features);
  return features;
}

}  // namespace stitch::costmodel
