#include "search/partition/delta_evaluator.h"

#include <algorithm>
#include <map>
#include <set>

#include "kernel/structure/phase_assignment.h"

namespace stitch::search {

using graph::NodeId;
using graph::Op;
using graph::Value;

namespace {

// Fitted to what patterns of bench/models save by the full model (bench/delta/fit, bench/results/delta.md): a kernel
// costs more than its launch and its bytes, since its other limits overlap imperfectly.
constexpr double fitted_bytes = 1.03, fitted_launch = 1.2;

}  // namespace

DeltaModel DeltaModel::of(const DeviceSpec& device) {
  DeltaModel model;
  model.us_per_byte = fitted_bytes * 1e6 / device.copy_bandwidth();
  model.us_per_launch = fitted_launch * (device.launch_us + 2 * device.dram_latency / device.clock_hz * 1e6);
  model.us_per_phase = device.grid_barrier_us;
  model.us_per_operator = 0.002;
  model.on_chip_bytes = static_cast<double>(device.shared_per_block) * device.max_cluster_blocks;
  return model;
}

DeltaEvaluator::DeltaEvaluator(const VertexGraph& vertices, const kernel::AxisAnalysis& axes, DeltaModel model)
    : vertices_(vertices), axes_(axes), model_(model) {}

DeltaEvaluator::Features DeltaEvaluator::features(const VertexSet& pattern) const {
  const graph::Graph& graph = vertices_.fragment();
  Features f;
  double separate = 0, together = 0;
  std::set<Value> read;
  std::vector<std::pair<std::set<int>, std::int64_t>> reductions;  // reduced axes and operand bytes, where used again
  std::int64_t largest = 0;
  for (const int vertex : pattern.members()) {
    const graph::Node& node = graph.node(vertices_.node(vertex));
    f.operators += 1;
    for (const graph::TensorType& type : node.results) separate += type.bytes();
    for (const Value value : vertices_.reads(vertex)) {
      const double bytes = graph.type(value).bytes();
      separate += bytes;
      const int producer = vertices_.vertex_of(value.node);
      const bool inside = producer >= 0 && pattern.contains(producer);
      if (!inside && read.insert(value).second) together += bytes;
      largest = std::max(largest, graph.type(value).bytes());
    }
    const auto& consumers = vertices_.consumers(vertex);
    const bool leaves = vertices_.is_result(vertex) ||
                        std::any_of(consumers.begin(), consumers.end(), [&](int c) { return !pattern.contains(c); });
    const bool used_inside =
        std::any_of(consumers.begin(), consumers.end(), [&](int c) { return pattern.contains(c); });
    if (leaves) {
      for (const graph::TensorType& type : node.results) together += type.bytes();
    }
    if (used_inside && graph::reduced_dimensions(node)) {
      const std::vector<int> axes = axes_.reduced(vertices_.node(vertex));
      const std::set<int> own(axes.begin(), axes.end());
      const auto found =
          std::find_if(reductions.begin(), reductions.end(), [&](const auto& r) { return r.first == own; });
      if (found == reductions.end()) reductions.emplace_back(own, graph.type(node.operands[0]).bytes());
    }
    if (used_inside && kernel::is_stored_only(node.op)) f.phases += 1;
  }
  f.bytes_saved = separate - together;
  f.launches_saved = f.operators - 1;
  // All reductions that are used again fit one tile, or each kind of row beyond the first costs a phase of its own.
  if (!reductions.empty()) {
    std::set<int> all;
    for (const auto& [axes, bytes] : reductions) all.insert(axes.begin(), axes.end());
    double row = 4;
    for (const int axis : all) row *= axes_.axes()[axis].extent;
    if (row > model_.on_chip_bytes) {
      f.phases += reductions.size();
      f.bytes_again += static_cast<double>(largest) * static_cast<double>(reductions.size());
    }
  }
  return f;
}

double DeltaEvaluator::gain_us(const VertexSet& pattern) const {
  const Features f = features(pattern);
  return (f.bytes_saved - f.bytes_again) * model_.us_per_byte + f.launches_saved * model_.us_per_launch -
         f.phases * model_.us_per_phase - f.operators * model_.us_per_operator;
}

}  // namespace stitch::search
