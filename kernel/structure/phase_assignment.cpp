#include "kernel/structure/phase_assignment.h"

#include <algorithm>

#include "kernel/index/searched_updates.h"
#include "kernel/index/sorted_indices.h"

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Updates that the elements of a scatter's result may look for themselves, in tests: fewer are not worth a phase.
constexpr std::int64_t max_scatter_tests = std::int64_t{1} << 20;
// An element that tests them all waits for each in turn, some 150 ns: so many take as long as the grid barrier between
// the operand's copy and the updates.
constexpr std::int64_t max_serial_updates = 64;

/// Whether a reduction is over more than the axes that lie within one tile.
bool leaves_tile(const AxisAnalysis& analysis, NodeId id, const std::set<int>& tile_axes) {
  return std::ranges::any_of(analysis.reduced(id), [&](int axis) { return !tile_axes.contains(axis); });
}

/// Whether each node is a reduction that StructureOptions::gathered makes end in one tile.
IdVector<NodeId, bool> gathered_reductions(const Graph& graph, const AxisAnalysis& analysis,
                                           const StructureOptions& options) {
  IdVector<NodeId, bool> gathered(graph.size(), false), of_many_tiles = gathered;
  if (options.gathered == 0) return gathered;
  for (const NodeId id : gathered.ids()) {
    const Node& node = graph.node(id);
    of_many_tiles[id] = std::ranges::any_of(node.operands, [&](Value operand) { return of_many_tiles[operand.node]; });
    if (!is_reduction(node.op)) continue;
    const bool few = graph.type(node.operands[0]).elements() <= options.gathered;
    gathered[id] = few && of_many_tiles[id] && leaves_tile(analysis, id, options.tile_axes);
    of_many_tiles[id] = of_many_tiles[id] || !few;
  }
  return gathered;
}

}  // namespace

bool is_reduction(Op op) { return op == Op::reduce || op == Op::arg_reduce || op == Op::max_exp_sum; }

bool is_scan(Op op) { return op == Op::scan || op == Op::associative_scan; }

bool walks_lines(Op op) { return is_scan(op) || op == Op::sort; }

bool is_stored_only(Op op) { return walks_lines(op) || op == Op::scatter; }

std::int64_t update_count(const Graph& graph, NodeId scatter) {
  const Node& node = graph.node(scatter);
  const graph::Dims& dims = graph.type(node.operands[2]).dims;
  std::int64_t count = graph::element_count(dims);
  for (const std::int64_t d : node.as<graph::ScatterAttributes>().update_window_dims)
    count /= std::max<std::int64_t>(dims[d], 1);
  return count;
}

bool adds_atomically(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != Op::scatter || sorted_line(graph, id) > 0 || searched_by_block(graph, id)) return false;
  const graph::ReduceKind kind = node.as<graph::ScatterAttributes>().combiner;
  const graph::DType dtype = node.type().dtype;
  const bool integer = dtype == graph::DType::s32 || dtype == graph::DType::u32 || dtype == graph::DType::s64;
  const bool sum = kind == graph::ReduceKind::sum && (integer || graph::is_floating(dtype));
  const bool extreme =
      (kind == graph::ReduceKind::max || kind == graph::ReduceKind::min) && (integer || graph::is_floating(dtype));
  if (!sum && !extreme) return false;
  // Sums of floats depend on the order of their terms, which is that of arrival here.
  if (sum && graph::is_floating(dtype) && graph.constraints.fixes_order()) return false;
  std::int64_t rows = node.type().elements();
  const graph::Dims& update = graph.type(node.operands[2]).dims;
  for (const std::int64_t d : node.as<graph::ScatterAttributes>().update_window_dims)
    rows /= std::max<std::int64_t>(update[d], 1);
  const std::int64_t updates = update_count(graph, id);
  return updates > max_serial_updates || rows * updates > max_scatter_tests;
}

Value stored_of_scatter(const Graph& graph, NodeId scatter) {
  const Value whole{scatter, 0};
  if (adds_atomically(graph, scatter) || std::ranges::count(graph.results(), whole) > 0) return whole;
  NodeId user = -1;
  for (NodeId id = scatter + 1; id < graph.size(); ++id) {
    const int uses = static_cast<int>(std::ranges::count(graph.node(id).operands, whole));
    if (uses == 0) continue;
    if (user >= 0 || graph.node(id).op != Op::convert) return whole;
    user = id;
  }
  if (user < 0) return whole;
  const graph::DType from = graph.type(whole).dtype, to = graph.node(user).type().dtype;
  const bool narrows =
      graph::is_floating(from) && graph::is_floating(to) && graph::byte_size(to) < graph::byte_size(from);
  return narrows ? Value{user, 0} : whole;
}

graph::DType accumulator_of(const Graph& graph, Value value) {
  const graph::DType dtype = graph.type(value).dtype;
  return adds_atomically(graph, value.node) ? graph::info(dtype).accumulator : dtype;
}

PhaseAssignment::PhaseAssignment(const Graph& graph, const AxisAnalysis& analysis, const StructureOptions& options)
    : graph_(graph),
      analysis_(analysis),
      options_(options),
      gathered_(gathered_reductions(graph, analysis, options)),
      phase_(graph.size(), 0) {}

bool PhaseAssignment::gathers_any() const { return std::ranges::count(gathered_, true) > 0; }

bool PhaseAssignment::is_global(NodeId id) const {
  return !gathered_[id] && leaves_tile(analysis_, id, options_.tile_axes);
}

/// Whether a node is computed by many tiles.
bool PhaseAssignment::is_large(NodeId id) const {
  const Node& node = graph_.node(id);
  const auto beyond = [&](std::int64_t elements) { return elements > options_.gathered; };
  return node.op != Op::parameter && node.op != Op::constant &&
         (std::ranges::any_of(node.results, [&](const graph::TensorType& t) { return beyond(t.elements()); }) ||
          std::ranges::any_of(node.operands, [&](Value v) { return beyond(graph_.type(v).elements()); }));
}

int PhaseAssignment::finishing_delay(NodeId id) const {
  const Op op = graph_.node(id).op;
  if (is_stored_only(op)) return adds_atomically(graph_, id) ? 2 : 1;
  return is_reduction(op) && is_global(id) ? 1 : 0;
}

void PhaseAssignment::assign(const std::map<NodeId, int>& earliest) {
  phase_.assign(graph_.size(), 0);
  const bool gathers = gathers_any();
  // The last phases in which something large and something gathered went into a node.
  IdVector<NodeId, int> large(gathers ? graph_.size() : 0, -1), small = large;
  for (const NodeId id : phase_.ids()) {
    int phase = 0;
    for (const Value operand : graph_.node(id).operands) {
      const int stored = options_.stored_first.contains(operand) ? 1 : 0;
      phase = std::max(phase, finished(operand.node) + stored);
    }
    if (const auto found = earliest.find(id); found != earliest.end()) phase = std::max(phase, found->second);
    if (gathers) {
      // One tile waits for all that it reads, and everybody for what that tile gathers.
      for (const Value operand : graph_.node(id).operands) {
        large[id] = std::max(large[id], large[operand.node]);
        small[id] = std::max(small[id], small[operand.node]);
      }
      if (gathered_[id]) small[id] = phase = std::max(phase, large[id] + 1);
      if (is_large(id)) large[id] = phase = std::max(phase, small[id] + 1);
    }
    phase_[id] = phase;
  }
}

}  // namespace stitch::kernel
