#include <algorithm>
#include <numeric>

#include "graph/reference/evaluate_run.h"

// The backward half of an evaluation: which boxes of every value are needed.

namespace stitch::graph::reference {
namespace {

bool has_index_operands(Op op) {
  return op == Op::gather || op == Op::scatter || op == Op::dynamic_slice || op == Op::dynamic_update_slice;
}

/// Results of one shape that are always computed together.
bool results_together(Op op) { return makes_random_bits(op) || op == Op::arg_reduce || op == Op::max_exp_sum; }

}  // namespace

Status Evaluation::demand_all() {
  for (NodeId id = graph_.size(); id-- > 0;) {
    const Node& node = graph_.node(id);
    if (results_together(node.op)) {
      std::vector<Box> wanted;
      for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
        const std::span<const Box> boxes = slot({id, r}).region.boxes();
        wanted.insert(wanted.end(), boxes.begin(), boxes.end());
      }
      for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
        for (const Box& box : wanted) slot({id, r}).region.add(box);
      }
    }
    bool live = false;
    for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
      slot({id, r}).region.normalise();
      live = live || !slot({id, r}).region.empty();
    }
    if (!live) continue;
    state(id).live = true;
    state(id).reads.assign(node.operands.size(), false);
    STITCH_TRY(demand_node(id));
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (state(id).reads[i]) ++slot(node.operands[i]).pending;
    }
  }
  return {};
}

Status Evaluation::demand_node(NodeId id) {
  const Node& node = graph_.node(id);
  if (node.op == Op::opaque) return {};
  if (info(node.op).category == OpCategory::control) return demand_control(id);
  if (node.op == Op::associative_scan) {
    demand_associative_scan(id);
    return {};
  }
  if (node.op == Op::sort) {
    demand_sort(id);
    return {};
  }
  NodeState& s = state(id);
  s.in_parts = node.op == Op::reduce && reads_too_much(id);
  if (s.in_parts) return {};  // each part demands what it needs when it is computed
  std::vector<Region> regions(node.operands.size());
  const std::span<const Box> boxes = slot({id, 0}).region.boxes();
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (has_index_operands(node.op)) {
      STITCH_TRY(find_indices(id, boxes[i], s.indices.emplace_back()));
    }
    demand(context(id, i), boxes[i], regions);
  }
  for (std::size_t i = 0; i < regions.size(); ++i) {
    s.reads[i] = !regions[i].empty();
    for (const Box& box : regions[i].boxes()) slot(node.operands[i]).region.add(box);
  }
  return {};
}

/// Of its operand for one element of a reduction.
std::int64_t Evaluation::elements_read(NodeId id) const {
  const Node& node = graph_.node(id);
  const auto of = [&](const Dims& size) {
    std::int64_t count = 1;
    for (const std::int64_t d : node.as<ReduceAttributes>().dimensions) count *= size[d];
    return count;
  };
  const std::span<const Box> kept = states_[id].kept;
  if (kept.empty()) return of(graph_.type(node.operands[0]).dims);
  return std::accumulate(kept.begin(), kept.end(), std::int64_t{0},
                         [&](std::int64_t sum, const Box& box) { return sum + of(box.size); });
}

/// Whether a reduction reads more than it may at once, and much more than it leaves.
bool Evaluation::reads_too_much(NodeId id) {
  std::int64_t results = 0;
  for (const Box& box : slot({id, 0}).region.boxes()) results += box.elements();
  const std::int64_t each = elements_read(id);
  return results > 1 && each >= 8 && results > options_.most_reduced / each;
}

Status Evaluation::find_indices(NodeId id, const Box& out, std::vector<Block>& indices) {
  const Node& node = graph_.node(id);
  const auto add = [&](std::size_t operand, const Box& box) -> Status {
    STITCH_ASSIGN(Block block, evaluate_ahead(node.operands[operand], box));
    indices.push_back(std::move(block));
    return {};
  };
  if (node.op == Op::gather) return add(1, gather_index_box(node, graph_.type(node.operands[1]), out));
  if (node.op == Op::scatter) return add(1, Box::whole(graph_.type(node.operands[1]).dims));
  for (std::size_t i = node.op == Op::dynamic_slice ? 1 : 2; i < node.operands.size(); ++i) STITCH_TRY(add(i, Box{}));
  return {};
}

Result<Block> Evaluation::evaluate_ahead(Value value, const Box& box) {
  const auto known = ahead_->find({value, box});
  if (known != ahead_->end()) return known->second;
  if (graph_.node(value.node).op == Op::constant && !box.empty()) {
    return evaluate_source(OpContext{graph_, value.node, options_, memory_, {}, {}, {}}, box);
  }
  Evaluation before(graph_, sources_, options_, memory_, restricted_, ahead_);
  STITCH_ASSIGN(std::vector<std::vector<Block>> blocks, before.run({{value, {box}}}));
  return ahead_->emplace(std::pair{value, box}, std::move(blocks[0][0])).first->second;
}

void Evaluation::restrict_reductions() {
  for (const ReduceRestriction& restriction : options_.restrictions) state(restriction.node).kept = restriction.boxes;
}

std::vector<bool> used_parameters(const Graph& graph, std::span<const Value> values) {
  std::vector<bool> used(graph.size(), false);
  for (const Value& value : values) used[value.node] = true;
  for (NodeId id = graph.size(); id-- > 0;) {
    if (!used[id]) continue;
    for (const Value& operand : graph.node(id).operands) used[operand.node] = true;
  }
  std::vector<bool> parameters;
  for (const NodeId parameter : graph.parameters()) parameters.push_back(used[parameter]);
  return parameters;
}

std::vector<bool> needed_carried(const Node& loop, std::vector<bool> wanted) {
  const Graph& body = *loop.regions[0];
  const std::vector<bool> decide = used_parameters(*loop.regions[1], loop.regions[1]->results());
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] || decide[i];
  for (bool changed = true; changed;) {
    std::vector<Value> values;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) values.push_back(body.results()[i]);
    }
    const std::vector<bool> used = used_parameters(body, values);
    changed = false;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      changed = changed || (used[i] && !wanted[i]);
      wanted[i] = wanted[i] || used[i];
    }
  }
  return wanted;
}

}  // namespace stitch::graph::reference
