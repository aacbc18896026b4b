#include "graph/passes/functions.h"

#include "graph/passes/rewriter.h"
#include "graph/passes/splat.h"

namespace stitch::graph {
namespace {

Replacement power(Rewriter& graph, const Node& node, bool reassociate) {
  const Value x = node.operands[0];
  const std::optional<double> exponent = splat_number(graph, node.operands[1]);
  if (!exponent) return {};
  const double c = *exponent;
  const auto times = [&](Value a, Value b) { return graph.binary(Op::multiply, a, b); };
  const auto inverse = [&](Value a) { return graph.binary(Op::divide, graph.filled(node.type(), 1), a); };
  if (c == 0) return graph.filled(node.type(), 1);
  if (c == 1) return x;
  if (c == 2) return times(x, x);
  if (c == 3) return times(times(x, x), x);
  if (c == 4 && reassociate) return times(times(x, x), times(x, x));
  if (!is_floating(node.type().dtype)) return {};
  if (c == 0.5) return graph.unary(Op::sqrt, x);
  if (c == -0.5) return graph.unary(Op::rsqrt, x);
  if (c == -1) return inverse(x);
  if (c == -2) return inverse(times(x, x));
  return {};
}

/// x where `value` is 1 + exp(-x).
std::optional<Value> logistic_argument(Rewriter& graph, Value value) {
  if (!graph.is(value, Op::add)) return std::nullopt;
  for (const std::size_t side : {0, 1}) {
    const Value exponential = graph.operand(value, side);
    if (!graph.is(exponential, Op::exp) || !is_splat_of(graph, graph.operand(value, 1 - side), 1)) continue;
    const Value argument = graph.operand(exponential);
    if (graph.is(argument, Op::negate)) return graph.operand(argument);
    // A product with a constant has swallowed the negation.
    if (graph.is(argument, Op::multiply) || graph.is(argument, Op::subtract)) return graph.unary(Op::negate, argument);
  }
  return std::nullopt;
}

Replacement divide(Rewriter& graph, const Node& node) {
  if (!is_floating(node.type().dtype)) return {};
  const Value x = node.operands[0], y = node.operands[1];
  const bool one = is_splat_of(graph, x, 1);
  const auto scaled = [&](Value factor) { return one ? factor : graph.binary(Op::multiply, x, factor); };
  if (graph.is(y, Op::sqrt)) return scaled(graph.unary(Op::rsqrt, graph.operand(y)));
  if (graph.is(y, Op::rsqrt) && one) return graph.unary(Op::sqrt, graph.operand(y));
  if (const auto argument = logistic_argument(graph, y)) return scaled(graph.unary(Op::logistic, *argument));
  if (graph.is(y, Op::broadcast)) {  // x / broadcast(sqrt(y)): the root is taken on the small side
    const Value inner = graph.operand(y);
    if (!graph.is(inner, Op::sqrt)) return {};
    const auto& a = graph.node(y).as<BroadcastAttributes>();
    return scaled(graph.broadcast(graph.unary(Op::rsqrt, graph.operand(inner)), a.dims, a.mapping));
  }
  return {};
}

Replacement square_root(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  if (!graph.is(x, Op::divide) || !is_splat_of(graph, graph.operand(x), 1)) return {};
  return graph.unary(node.op == Op::sqrt ? Op::rsqrt : Op::sqrt, graph.operand(x, 1));
}

Replacement functions_rule(Rewriter& graph, const Node& node, bool reassociate) {
  switch (node.op) {
    case Op::power: return power(graph, node, reassociate);
    case Op::divide: return reassociate ? divide(graph, node) : Replacement();
    case Op::sqrt:
    case Op::rsqrt: return reassociate ? square_root(graph, node) : Replacement();
    default: return {};
  }
}

}  // namespace

Result<int> simplify_functions(Graph& graph, const PassContext& context) {
  return rewrite(graph, [&](Rewriter& to, const Node& node) { return functions_rule(to, node, context.reassociate); });
}

}  // namespace stitch::graph
