#include "graph/passes/loops/loops.h"

#include <algorithm>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/passes/loops/loop_invariants.h"
#include "graph/passes/loops/trip_count.h"
#include "graph/passes/range_analysis.h"
#include "graph/passes/regions.h"
#include "graph/passes/splat.h"

namespace stitch::graph {
namespace {

/// What becomes of one carried value.
enum class Fate : std::uint8_t {
  carried,
  closed,  ///< invariant, and made again inside
  shared,  ///< another carried value is the same
  dead,
};

struct Plan {
  std::vector<Fate> fate;
  std::vector<bool> invariant;
  std::vector<std::size_t> same_as;  ///< for `shared`
  std::vector<Value> hoisted;        ///< values of the body, in its order

  [[nodiscard]] bool changes() const {
    return !hoisted.empty() || std::any_of(fate.begin(), fate.end(), [](Fate f) { return f != Fate::carried; });
  }
};

struct Loop {
  Rewriter& graph;
  const Node& node;
  const Graph& body;
  const Graph& condition;

  [[nodiscard]] std::size_t count() const { return node.operands.size(); }
};

/// Whether two carried values start equal and are counted up by the same constant.
bool equal_counters(const Loop& loop, std::size_t i, std::size_t j) {
  const auto a = counter_step(loop.body, i), b = counter_step(loop.body, j);
  if (!a || !b || *a != *b || loop.node.type(i) != loop.node.type(j)) {
    return false;
  }
  const auto start = splat_integer(loop.graph, loop.node.operands[i]);
  return loop.node.operands[i] == loop.node.operands[j] ||
         (start && start == splat_integer(loop.graph, loop.node.operands[j]));
}

/// Marks what the values `from` of `region` depend on; returns the positions of the parameters among it.
std::vector<std::size_t> reach(const Graph& region, const std::vector<Value>& from, std::vector<bool>& seen) {
  std::vector<NodeId> stack;
  for (const Value& value : from) stack.push_back(value.node);
  std::vector<std::size_t> parameters;
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (seen[id]) continue;
    seen[id] = true;
    const auto& list = region.parameters();
    if (region.node(id).op == Op::parameter) {
      parameters.push_back(std::find(list.begin(), list.end(), id) - list.begin());
    }
    for (const Value& operand : region.node(id).operands) stack.push_back(operand.node);
  }
  return parameters;
}

/// Carried values on which the condition or a used result depends.
std::vector<bool> needed(const Loop& loop, const Plan& plan, const std::vector<bool>& used) {
  std::vector<bool> needed(loop.count(), false), seen(loop.body.size(), false),
      seen_condition(loop.condition.size(), false);
  std::vector<std::size_t> fresh = reach(loop.condition, {loop.condition.results()[0]}, seen_condition);
  for (std::size_t i = 0; i < loop.count(); ++i) {
    if (used[i] && !plan.invariant[i]) fresh.push_back(i);
  }
  while (!fresh.empty()) {
    std::size_t i = fresh.back();
    fresh.pop_back();
    if (plan.fate[i] == Fate::shared) i = plan.same_as[i];
    if (needed[i] || plan.fate[i] == Fate::closed) continue;
    needed[i] = true;
    for (const std::size_t j : reach(loop.body, {loop.body.results()[i]}, seen)) fresh.push_back(j);
    // A parameter met before was pushed then; an invariant's own result leads to itself only.
  }
  return needed;
}

Plan planned(const Loop& loop, const std::vector<bool>& used) {
  Plan plan;
  plan.fate.assign(loop.count(), Fate::carried);
  plan.same_as.assign(loop.count(), 0);
  for (std::size_t i = 0; i < loop.count(); ++i) {
    plan.invariant.push_back(loop.body.results()[i] == Value{loop.body.parameters()[i], 0});
    if (plan.invariant[i] && is_closed(loop.graph, loop.node.operands[i])) plan.fate[i] = Fate::closed;
    for (std::size_t j = 0; j < i && plan.fate[i] == Fate::carried; ++j) {
      if (plan.fate[j] != Fate::carried) continue;
      const bool same_invariant =
          plan.invariant[i] && plan.invariant[j] && loop.node.operands[i] == loop.node.operands[j];
      if (!same_invariant && !equal_counters(loop, i, j)) continue;
      plan.fate[i] = Fate::shared;
      plan.same_as[i] = j;
    }
  }
  const std::vector<bool> live = needed(loop, plan, used);
  for (std::size_t i = 0; i < loop.count(); ++i) {
    if (plan.fate[i] == Fate::carried && !live[i]) plan.fate[i] = Fate::dead;
    if (plan.fate[i] == Fate::shared && plan.fate[plan.same_as[i]] == Fate::dead) plan.fate[i] = Fate::dead;
  }
  // What closed values lead to is folded first, inside.
  const bool forwards = std::find(plan.fate.begin(), plan.fate.end(), Fate::closed) != plan.fate.end();
  if (!forwards) plan.hoisted = hoistable_values(loop.body, plan.invariant);
  return plan;
}

/// The loop's body (or its condition) with the parameters that the plan leaves, then one for each hoisted value.
std::shared_ptr<const Graph> revised(const Loop& loop, const Plan& plan, const Graph& region, bool is_body) {
  RegionCopy copy(region);
  std::vector<std::optional<Value>> parameters(loop.count());
  std::vector<Value> results, handed_on;
  for (std::size_t i = 0; i < loop.count(); ++i) {
    const NodeId old = region.parameters()[i];
    if (plan.fate[i] != Fate::carried) continue;
    parameters[i] = copy.add_parameter(region.node(old).type(), region.node(old).name);
    if (is_body) results.push_back(region.results()[i]);
  }
  for (const Value& value : plan.hoisted) {
    const Value parameter = copy.add_parameter(loop.body.type(value), loop.body.node(value.node).name);
    if (is_body) copy.bind(value.node, parameter);
    if (is_body) handed_on.push_back(parameter);
  }
  for (std::size_t i = 0; i < loop.count(); ++i) {
    const NodeId old = region.parameters()[i];
    switch (plan.fate[i]) {
      case Fate::carried: copy.bind(old, *parameters[i]); break;
      case Fate::shared: copy.bind(old, *parameters[plan.same_as[i]]); break;
      case Fate::closed: copy.bind(old, copy.add_closed(loop.graph, loop.node.operands[i])); break;
      case Fate::dead: {
        // Nothing that stays depends on it; zeros keep the copy well-formed until dead code goes.
        const TensorType& type = region.node(old).type();
        copy.bind(old, copy.add_zeros(type));
        break;
      }
    }
  }
  if (!is_body) results.assign(region.results().begin(), region.results().end());
  return copy.finish(results, handed_on);
}

Replacement rebuilt(const Loop& loop, const Plan& plan, std::int64_t trips) {
  std::vector<Value> operands;
  std::vector<std::int32_t> position(loop.count(), -1);
  for (std::size_t i = 0; i < loop.count(); ++i) {
    if (plan.fate[i] != Fate::carried) continue;
    position[i] = operands.size();
    operands.push_back(loop.node.operands[i]);
  }
  for (const Value& value : hoisted_outside(loop.graph, loop.body, loop.node.operands, plan.hoisted)) {
    operands.push_back(value);
  }
  const Value made = loop.graph.add(Op::loop, operands, LoopAttributes{trips},
                                    {revised(loop, plan, loop.body, true), revised(loop, plan, loop.condition, false)});
  std::vector<Value> results;
  for (std::size_t i = 0; i < loop.count(); ++i) {
    const std::size_t from = plan.fate[i] == Fate::shared ? plan.same_as[i] : i;
    const bool outside = plan.invariant[i] || plan.fate[from] != Fate::carried;
    results.push_back(outside ? loop.node.operands[i] : Value{made.node, made.result + position[from]});
  }
  return results;
}

Replacement loops_rule(Rewriter& graph, const Node& node) {
  if (node.op != Op::loop || node.operands.empty()) return {};
  const Loop loop{graph, node, *node.regions[0], *node.regions[1]};
  const auto start = [&](std::size_t i) { return splat_integer(graph, node.operands[i]); };
  const std::int64_t given = node.as<LoopAttributes>().trip_count;
  const std::int64_t trips = given >= 0 ? given : trip_count(loop.body, loop.condition, start).value_or(-1);
  if (trips == 0) return node.operands;
  if (trips == 1) return inline_region(graph, loop.body, node.operands);
  const Plan plan = planned(loop, graph.used_results(node));
  const bool empty = std::all_of(plan.fate.begin(), plan.fate.end(), [](Fate f) { return f != Fate::carried; });
  if (empty && trips > 0) return node.operands;  // nothing that is used ever changes
  if (empty || (!plan.changes() && trips == given)) return {};
  return rebuilt(loop, plan, trips);
}

}  // namespace

Result<int> simplify_loops(Graph& graph, const PassContext&) { return rewrite(graph, loops_rule); }

std::vector<ValueRange> carried_ranges(const Graph& graph, const Node& loop) {
  std::vector<ValueRange> ranges;
  const Graph& body = *loop.regions[0];
  const std::int64_t trips = loop.as<LoopAttributes>().trip_count;
  for (std::size_t i = 0; i < loop.operands.size(); ++i) {
    const TensorType& type = graph.type(loop.operands[i]);
    ranges.push_back(range_of(type.dtype));
    const auto step = counter_step(body, i);
    const Node& start = graph.node(loop.operands[i].node);
    if (!step || trips < 1 || start.op != Op::constant || type.rank() != 0) continue;
    const double first = load_integer(type.dtype, start.as<ConstantAttributes>().data.data());
    const double last = first + *step * static_cast<double>(trips - 1);
    const ValueRange all = ranges.back();
    const ValueRange visited{std::min(first, last), std::max(first, last), false};
    if (visited.low < all.low || visited.high > all.high || !is_exact(visited)) continue;
    ranges.back() = visited;
  }
  return ranges;
}

}  // namespace stitch::graph
