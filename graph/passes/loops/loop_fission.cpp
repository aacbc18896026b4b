#include "graph/passes/loops/loop_fission.h"

#include <algorithm>
#include <set>

#include "graph/infer_checks.h"
#include "graph/passes/loops/loop_stacks.h"

namespace stitch::graph {
namespace {

/// Which operand of a dot is invariant, if one is.
std::optional<std::size_t> invariant_side(const LoopTurns& turns, const Node& dot) {
  for (const std::size_t side : {0, 1}) {
    if (turns.is_invariant(dot.operands[side])) return side;
  }
  return std::nullopt;
}

/// The loop with the dots of slices and invariants computed before it.
std::optional<RebuiltLoop> with_dots_before(Rewriter& graph, const Node& loop) {
  const LoopTurns turns(graph, loop);
  if (!turns.known()) return std::nullopt;
  const LoopStacks stacks(turns);
  LoopEdit edit;
  edit.removed.assign(turns.carried(), false);
  for (NodeId id = 0; id < turns.body().size(); ++id) {
    const Node& dot = turns.body().node(id);
    const auto fixed = dot.op == Op::dot ? invariant_side(turns, dot) : std::nullopt;
    if (!fixed || !stacks.sliced(dot.operands[1 - *fixed]) || !may_keep_turns(dot.type(), turns.count())) continue;
    const Value per_turn = dot.operands[1 - *fixed];
    const bool backward = *stacks.backward(per_turn);
    const auto [all, dimension] =
        dot_over_turns(graph, dot, 1 - *fixed, stacks.outside(graph, nullptr, per_turn, backward),
                       around(graph, turns, dot.operands[*fixed]));
    edit.slices.push_back({id, all, {dimension, backward}});
  }
  if (edit.slices.empty()) return std::nullopt;
  return rebuild(graph, turns, edit);
}

/// What leaves a loop to be computed after it.
class Departures {
 public:
  Departures(const LoopTurns& turns, bool reassociate)
      : turns_(turns), body_(turns.body()), reassociate_(reassociate), stacks_(turns) {
    edit_.removed.assign(turns.carried(), false);
    for (const TurnWrite& write : turns.writes()) plan_tensor(write);
    for (std::size_t i = 0; i < turns.carried(); ++i) plan_sum(i);
    // Dots first: their operands may be concatenations of which others reduce a part.
    for (const NodeId id : dots_) plan_dot(body_.node(id));
    for (const Value& value : others_) stacks_.require(value, turns_.usually_backward());
    edit_.stacks = stacks_.added();
  }

  [[nodiscard]] bool any() const { return !tensors_.empty() || !sums_.empty(); }

  /// The results of the old loop.
  std::vector<Value> results(Rewriter& graph) {
    const RebuiltLoop loop = rebuild(graph, turns_, edit_);
    loop_ = &loop;
    std::vector<Value> results;
    for (std::size_t i = 0; i < turns_.carried(); ++i) results.push_back(edit_.removed[i] ? Value{} : loop.result(i));
    for (const TurnWrite& write : tensors_) results[write.carried] = tensor(graph, write);
    for (const Sum& sum : sums_) {
      const Value initial = turns_.loop().operands[sum.carried];
      const Value total = summed(graph, sum.term);
      const Value end = graph.binary(sum.op, graph.reshape(initial, graph.dims(total)), total);
      results[sum.carried] = graph.reshape(end, graph.dims(initial));
    }
    return results;
  }

 private:
  /// carried = carried ± term
  struct Sum {
    std::size_t carried = 0;
    Op op = Op::add;
    Value term;
  };

  /// Through reshapes that nothing else reads.
  [[nodiscard]] Value own(Value value) const {
    while (turns_.uses(value) == 1 && body_.node(value.node).op == Op::reshape) {
      value = body_.node(value.node).operands[0];
    }
    return value;
  }

  /// Whether `value` is a carried value's parameter but for reshapes, and nothing else reads it.
  [[nodiscard]] bool is_only_reader(Value value, std::size_t carried) const {
    value = own(value);
    return value == Value{body_.parameters()[carried], 0} && turns_.uses(value) == 1 && !turns_.decides(carried);
  }

  void plan_tensor(const TurnWrite& write) {
    const Value result = own(body_.results()[write.carried]);
    const bool alone = result.node == write.node && turns_.uses(result) == 1 &&
                       is_only_reader(body_.node(write.node).operands[0], write.carried);
    if (!alone) return;
    if (!stacks_.sliced(write.update)) {
      const Value product = own(write.update);
      const Node& dot = body_.node(product.node);
      const auto fixed = dot.op == Op::dot ? invariant_side(turns_, dot) : std::nullopt;
      if (!fixed || turns_.uses(product) != 1 || !stacks_.possible(dot.operands[1 - *fixed])) return;
      stacks_.require(dot.operands[1 - *fixed], write.axis.backward);
    }
    edit_.removed[write.carried] = true;
    tensors_.push_back(write);
  }

  void plan_sum(std::size_t carried) {
    const Value result = own(body_.results()[carried]);
    const Node& node = body_.node(result.node);
    if ((node.op != Op::add && node.op != Op::subtract) || turns_.uses(result) != 1) return;
    const DType dtype = node.type().dtype;
    if (!is_integer(dtype) && !(reassociate_ && (dtype == DType::f32 || dtype == DType::f64))) return;
    for (const std::size_t side : {0, 1}) {
      if (side == 1 && node.op == Op::subtract) continue;
      Terms terms;
      const Value term = node.operands[1 - side];
      if (!is_only_reader(node.operands[side], carried) || !is_summable(term, false, terms) || !terms.gain) continue;
      split_.insert(terms.split.begin(), terms.split.end());
      dots_.insert(dots_.end(), terms.dots.begin(), terms.dots.end());
      others_.insert(others_.end(), terms.others.begin(), terms.others.end());
      sums_.push_back({carried, node.op, term});
      edit_.removed[carried] = true;
      return;
    }
  }

  /// What one sum consists of.
  struct Terms {
    std::vector<NodeId> split;  ///< nodes of which each operand is summed, or which are computed over all turns
    std::vector<NodeId> dots;
    std::vector<Value> others;  ///< operands of reductions, and what is summed as it is
    bool gain = false;          ///< a dot or a reduction leaves the body
  };

  bool is_summable(Value term, bool is_part, Terms& terms) const {
    Terms split = terms;
    if (turns_.uses(term) == 1 && is_split(term, is_part, split)) {
      terms = std::move(split);
      terms.split.push_back(term.node);
      return true;
    }
    // Beside a dot or a reduction in one concatenation.
    if (!is_part || !stacks_.possible(term)) return false;
    terms.others.push_back(term);
    return true;
  }

  bool is_split(Value term, bool is_part, Terms& terms) const {
    const Node& node = body_.node(term.node);
    const auto all_summable = [&](bool parts) {
      return std::all_of(node.operands.begin(), node.operands.end(),
                         [&](const Value& operand) { return is_summable(operand, parts, terms); });
    };
    const auto all_possible = [&] {
      return std::all_of(node.operands.begin(), node.operands.end(),
                         [&](const Value& operand) { return stacks_.possible(operand); });
    };
    switch (node.op) {
      case Op::concatenate: return all_summable(true);
      case Op::add:
      case Op::subtract: return all_summable(false);
      case Op::reshape:
      case Op::transpose: return all_summable(is_part);
      case Op::dot:
        terms.dots.push_back(term.node);
        terms.gain = true;
        return all_possible();
      case Op::reduce:
        terms.others.push_back(node.operands[0]);
        terms.gain = true;
        return node.as<ReduceAttributes>().kind == ReduceKind::sum && all_possible();
      default: return false;
    }
  }

  void plan_dot(const Node& dot) {
    const Value left = dot.operands[0], right = dot.operands[1];
    const bool backward = stacks_.backward(left).value_or(stacks_.backward(right).value_or(turns_.usually_backward()));
    stacks_.require(left, backward);
    stacks_.require(right, backward);
  }

  [[nodiscard]] Value stack(Rewriter& graph, Value value, bool backward) const {
    return stacks_.outside(graph, loop_, value, backward);
  }

  /// A carried tensor that left the loop, as the loop would leave it.
  Value tensor(Rewriter& graph, const TurnWrite& write) const {
    const bool backward = write.axis.backward;
    Value all;
    if (stacks_.sliced(write.update)) {
      all = stack(graph, write.update, backward);
    } else {
      const Node& dot = body_.node(own(write.update).node);
      const std::size_t fixed = *invariant_side(turns_, dot);
      const auto [product, dimension] =
          dot_over_turns(graph, dot, 1 - fixed, stack(graph, dot.operands[1 - fixed], backward),
                         around(graph, turns_, dot.operands[fixed]));
      all = moved(graph, product, dimension, 0);
    }
    const TensorType& whole = body_.node(write.node).type();
    const Dims rest = joined({turns_.count()}, without(whole.dims, {write.axis.dimension}));
    all = moved(graph, graph.reshape(all, rest), 0, write.axis.dimension);
    return graph.reshape(all, body_.type(body_.results()[write.carried]).dims);
  }

  /// The sum of a term over the turns.
  Value summed(Rewriter& graph, Value term) const {
    const Node& node = body_.node(term.node);
    if (!split_.contains(term.node)) return sum_over_turns(graph, term, {});
    if (node.op == Op::reduce) {
      return sum_over_turns(graph, node.operands[0], node.as<ReduceAttributes>().dimensions);
    }
    if (node.op == Op::dot) return contracted(graph, node);
    std::vector<Value> operands;
    for (const Value& operand : node.operands) operands.push_back(summed(graph, operand));
    return graph.add(node.op, std::move(operands), node.attributes);
  }

  Value sum_over_turns(Rewriter& graph, Value value, const Dims& dimensions) const {
    Dims all = {0};
    for (const std::int64_t d : dimensions) all.push_back(d + 1);
    return graph.reduce(ReduceKind::sum, stack(graph, value, *stacks_.backward(value)), all);
  }

  /// The dot with the turns among the contracted dimensions.
  Value contracted(Rewriter& graph, const Node& dot) const {
    const bool backward = *stacks_.backward(dot.operands[0]);
    DotAttributes a = dot.as<DotAttributes>();
    for (Dims* list : {&a.lhs_batch, &a.rhs_batch, &a.lhs_contracting, &a.rhs_contracting}) {
      for (std::int64_t& d : *list) ++d;
    }
    for (Dims* list : {&a.lhs_contracting, &a.rhs_contracting}) list->insert(list->begin(), 0);
    const Value left = stack(graph, dot.operands[0], backward), right = stack(graph, dot.operands[1], backward);
    return graph.add(Op::dot, {left, right}, a);
  }

  const LoopTurns& turns_;
  const Graph& body_;
  bool reassociate_;
  LoopStacks stacks_;
  LoopEdit edit_;
  std::vector<TurnWrite> tensors_;
  std::vector<Sum> sums_;
  std::set<NodeId> split_;
  std::vector<NodeId> dots_;
  std::vector<Value> others_;
  const RebuiltLoop* loop_ = nullptr;
};

Replacement without_departures(Rewriter& graph, const Node& loop, bool reassociate) {
  const LoopTurns turns(graph, loop);
  if (!turns.known()) return {};
  Departures leaving(turns, reassociate);
  if (!leaving.any()) return {};
  return leaving.results(graph);
}

Replacement loop_fission_rule(Rewriter& graph, const Node& node, bool reassociate) {
  if (node.op != Op::loop) return {};
  const auto before = with_dots_before(graph, node);
  Replacement after = without_departures(graph, before ? graph.node(before->first) : node, reassociate);
  if (!before) return after;
  std::vector<Value> results = after.values();
  if (!after) {
    for (std::size_t i = 0; i < node.operands.size(); ++i) results.push_back(before->result(i));
  }
  results.resize(node.operands.size());  // without what it carries for its slices
  return results;
}

}  // namespace

Result<int> split_loops(Graph& graph, const PassContext& context) {
  return rewrite(graph,
                 [&](Rewriter& to, const Node& node) { return loop_fission_rule(to, node, context.reassociate); });
}

}  // namespace stitch::graph
