#include "graph/passes/loops/loop_stacks.h"

#include <algorithm>
#include <numeric>

#include "graph/infer_checks.h"
#include "graph/passes/loops/loop_invariants.h"

namespace stitch::graph {
namespace {

// A loop over micro-batches is a loop because its activations do not fit into memory at once, and its products keep a
// GPU busy turn by turn. The small products of recurrent cells do not; their values of all turns are no burden.
constexpr std::int64_t most_bytes_of_turn = std::int64_t{1} << 20;
constexpr std::int64_t most_bytes_of_stack = std::int64_t{1} << 30;

bool is_layout(const Node& node) { return node.op == Op::reshape || node.op == Op::transpose; }

}  // namespace

bool may_keep_turns(const TensorType& type, std::int64_t turns) {
  const std::int64_t bytes = type.bytes();
  return bytes > 0 && bytes <= most_bytes_of_turn && turns <= most_bytes_of_stack / bytes &&
         type.rank() < most_dimensions;
}

LoopStacks::LoopStacks(const LoopTurns& turns) : turns_(turns), body_(turns.body()) {
  for (std::size_t i = 0; i < turns.writes().size(); ++i) {
    const TurnWrite& write = turns.writes()[i];
    for (Value v = write.update;; v = body_.node(v.node).operands[0]) {
      held_.emplace(v, Place{Place::Kind::written, v, write.axis.backward, i});
      if (body_.node(v.node).op != Op::reshape) break;
    }
  }
}

Value LoopStacks::root(Value value) const {
  while (is_layout(body_.node(value.node))) value = body_.node(value.node).operands[0];
  return value;
}

std::optional<LoopStacks::Place> LoopStacks::find(Value value) const {
  // First what needs no loop: a tensor that is written may be taken out of it.
  const Value last = root(value);
  if (const auto axis = turns_.read(last)) return Place{Place::Kind::sliced, last, axis->backward};
  for (Value v = value;; v = body_.node(v.node).operands[0]) {
    if (const auto held = held_.find(v); held != held_.end()) {
      Place place = held->second;
      place.at = v;
      return place;
    }
    if (const auto part = find_part(v)) return part;
    if (v == last) return std::nullopt;
  }
}

std::optional<LoopStacks::Place> LoopStacks::find_part(Value value) const {
  for (const auto& [whole, held] : held_) {
    const Node& node = body_.node(whole.node);
    if (node.op != Op::concatenate) continue;
    const auto part = std::find(node.operands.begin(), node.operands.end(), value);
    if (part == node.operands.end()) continue;
    return Place{Place::Kind::part, value, held.backward, static_cast<std::size_t>(part - node.operands.begin()),
                 whole};
  }
  return std::nullopt;
}

bool LoopStacks::possible(Value value) const {
  if (find(value)) return true;
  const Value from = root(value);
  const Node& node = body_.node(from.node);
  const bool slice_of_invariant = node.op == Op::dynamic_slice && turns_.is_invariant(node.operands[0]);
  return !turns_.is_invariant(from) && !slice_of_invariant && may_keep_turns(body_.type(from), turns_.count());
}

bool LoopStacks::sliced(Value value) const { return turns_.read(root(value)).has_value(); }

std::optional<bool> LoopStacks::backward(Value value) const {
  const auto place = find(value);
  return place ? std::optional(place->backward) : std::nullopt;
}

void LoopStacks::require(Value value, bool backward) {
  if (find(value)) return;
  const Value from = root(value);
  held_.emplace(from, Place{Place::Kind::added, from, backward, added_.size()});
  added_.push_back({from, backward});
}

Dims LoopStacks::stacked(const Dims& dims) const { return joined({turns_.count()}, dims); }

Value LoopStacks::outside(Rewriter& graph, const RebuiltLoop* loop, Value value, bool backward) const {
  const Place place = *find(value);
  Value x = at_place(graph, loop, place);
  if (place.backward != backward) x = graph.add(Op::reverse, {x}, ReverseAttributes{{0}});
  std::vector<NodeId> layouts;
  for (Value v = value; v != place.at; v = body_.node(v.node).operands[0]) layouts.push_back(v.node);
  std::reverse(layouts.begin(), layouts.end());
  for (const NodeId id : layouts) {
    const Node& node = body_.node(id);
    if (node.op == Op::reshape) {
      x = graph.reshape(x, stacked(node.type().dims));
      continue;
    }
    Dims permutation = {0};
    for (const std::int64_t d : node.as<TransposeAttributes>().permutation) permutation.push_back(d + 1);
    x = graph.transpose(x, permutation);
  }
  return x;
}

Value LoopStacks::at_place(Rewriter& graph, const RebuiltLoop* loop, const Place& place) const {
  const Dims to = stacked(body_.type(place.at).dims);
  switch (place.kind) {
    case Place::Kind::sliced: {
      const Value x = around(graph, turns_, body_.node(place.at.node).operands[0]);
      return graph.reshape(moved(graph, x, turns_.read(place.at)->dimension, 0), to);
    }
    case Place::Kind::written: {
      const TurnWrite& write = turns_.writes()[place.index];
      const Value x = graph.reshape(loop->result(write.carried), body_.node(write.node).type().dims);
      return graph.reshape(moved(graph, x, write.axis.dimension, 0), to);
    }
    case Place::Kind::added: return graph.reshape(loop->stack(place.index), to);
    case Place::Kind::part: break;
  }
  return part(graph, loop, place);
}

Value LoopStacks::part(Rewriter& graph, const RebuiltLoop* loop, const Place& place) const {
  const Node& whole = body_.node(place.whole.node);
  const std::int64_t dimension = whole.as<ConcatenateAttributes>().dimension;
  const Value x = outside(graph, loop, place.whole, place.backward);
  Dims starts(graph.dims(x).size(), 0), limits = graph.dims(x), strides(graph.dims(x).size(), 1);
  for (std::size_t i = 0; i < place.index; ++i) {
    starts[dimension + 1] += body_.type(whole.operands[i]).dims[dimension];
  }
  limits[dimension + 1] = starts[dimension + 1] + body_.type(place.at).dims[dimension];
  return graph.slice(x, starts, limits, strides);
}

Value around(Rewriter& graph, const LoopTurns& turns, Value invariant) {
  const Value first{invariant.node, 0};
  const Value made = hoisted_outside(graph, turns.body(), turns.loop().operands, std::span(&first, 1))[0];
  return {made.node, made.result + invariant.result};
}

std::pair<Value, std::int64_t> dot_over_turns(Rewriter& graph, const Node& dot, std::size_t side, Value stack,
                                              Value other) {
  DotAttributes a = dot.as<DotAttributes>();
  const bool left = side == 0;
  for (Dims* list : {left ? &a.lhs_batch : &a.rhs_batch, left ? &a.lhs_contracting : &a.rhs_contracting}) {
    for (std::int64_t& d : *list) ++d;
  }
  // The turns are the first free dimension of their side.
  const std::int64_t batch = a.lhs_batch.size();
  const auto left_free = graph.type(other).rank() - batch - static_cast<std::int64_t>(a.lhs_contracting.size());
  const std::vector<Value> operands = left ? std::vector{stack, other} : std::vector{other, stack};
  return {graph.add(Op::dot, operands, a), left ? batch : batch + left_free};
}

Value moved(Rewriter& graph, Value x, std::int64_t from, std::int64_t to) {
  Dims permutation(graph.dims(x).size());
  std::iota(permutation.begin(), permutation.end(), 0);
  permutation.erase(permutation.begin() + from);
  permutation.insert(permutation.begin() + to, from);
  return graph.transpose(x, permutation);
}

}  // namespace stitch::graph
