#include "graph/passes/choices.h"

#include <cmath>

#include "graph/literal.h"
#include "graph/passes/rewriter.h"
#include "graph/passes/splat.h"

namespace stitch::graph {
namespace {

bool is_constant(const Rewriter& graph, Value v) { return splat_constant(graph, v) != nullptr; }

Comparison swapped(Comparison direction) {
  switch (direction) {
    case Comparison::lt: return Comparison::gt;
    case Comparison::le: return Comparison::ge;
    case Comparison::gt: return Comparison::lt;
    case Comparison::ge: return Comparison::le;
    default: return direction;
  }
}

Comparison opposite(Comparison direction) {
  switch (direction) {
    case Comparison::eq: return Comparison::ne;
    case Comparison::ne: return Comparison::eq;
    case Comparison::lt: return Comparison::ge;
    case Comparison::le: return Comparison::gt;
    case Comparison::gt: return Comparison::le;
    case Comparison::ge: return Comparison::lt;
  }
  return direction;
}

Replacement select_of_preds(Rewriter& graph, Value condition, Value yes, Value no) {
  const auto negation = [&] { return graph.unary(Op::bit_not, condition); };
  if (is_splat_of(graph, yes, 1)) return graph.binary(Op::bit_or, condition, no);
  if (is_splat_of(graph, no, 0)) return graph.binary(Op::bit_and, condition, yes);
  if (is_splat_of(graph, yes, 0)) return graph.binary(Op::bit_and, negation(), no);
  if (is_splat_of(graph, no, 1)) return graph.binary(Op::bit_or, negation(), yes);
  return {};
}

Replacement select(Rewriter& graph, const Node& node) {
  const Value condition = node.operands[0], yes = node.operands[1], no = node.operands[2];
  if (const auto known = splat_integer(graph, condition)) return *known != 0 ? yes : no;
  if (yes == no) return yes;
  if (const auto* a = splat_constant(graph, yes), *b = splat_constant(graph, no);
      a != nullptr && b != nullptr && a->data == b->data) {
    return yes;
  }
  if (graph.is(condition, Op::bit_not)) return graph.select(graph.operand(condition), no, yes);
  if (graph.is(yes, Op::select) && graph.operand(yes) == condition) {
    return graph.select(condition, graph.operand(yes, 1), no);
  }
  if (graph.is(no, Op::select) && graph.operand(no) == condition) {
    return graph.select(condition, yes, graph.operand(no, 2));
  }
  if (node.type().dtype == DType::pred) return select_of_preds(graph, condition, yes, no);
  return {};
}

/// Comparison of a pred with a constant: the pred itself, its negation, or a constant.
Replacement compare_pred(Rewriter& graph, const Node& node, Value x, double c) {
  const auto holds = [&](double value) {
    switch (node.as<CompareAttributes>().direction) {
      case Comparison::eq: return value == c;
      case Comparison::ne: return value != c;
      case Comparison::lt: return value < c;
      case Comparison::le: return value <= c;
      case Comparison::gt: return value > c;
      case Comparison::ge: return value >= c;
    }
    return false;
  };
  const bool if_false = holds(0), if_true = holds(1);
  if (if_false == if_true) return graph.filled(node.type(), if_true ? 1 : 0);
  return if_true ? x : graph.unary(Op::bit_not, x);
}

Replacement compare(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0], y = node.operands[1];
  const Comparison direction = node.as<CompareAttributes>().direction;
  if (is_constant(graph, x) && !is_constant(graph, y)) return graph.compare(swapped(direction), y, x);
  const bool reflexive = direction == Comparison::eq || direction == Comparison::le || direction == Comparison::ge;
  if (x == y && !is_floating(graph.dtype(x))) return graph.filled(node.type(), reflexive ? 1 : 0);
  const auto c = splat_number(graph, y);
  if (!c) return {};
  if (is_integer(graph.dtype(x)) && (direction == Comparison::le || direction == Comparison::gt)) {
    // One form each way: x <= c is x < c + 1, x > c is x >= c + 1.
    const TensorType& type = graph.type(y);
    if (round_to(type.dtype, *c + 1) != *c + 1 || std::fabs(*c) >= 0x1p52) return {};
    const Value next =
        graph.broadcast(graph.scalar_integer(type.dtype, static_cast<std::int64_t>(*c) + 1), type.dims, {});
    return graph.compare(direction == Comparison::le ? Comparison::lt : Comparison::ge, x, next);
  }
  if (graph.dtype(x) == DType::pred) return compare_pred(graph, node, x, *c);
  if (graph.is(x, Op::convert) && graph.dtype(graph.operand(x)) == DType::pred && !std::isnan(*c)) {
    return compare_pred(graph, node, graph.operand(x), *c);
  }
  return {};
}

/// maximum (minimum) of a value with a constant, by the constant's numbers.
Replacement extreme(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0], y = node.operands[1];
  const ReduceKind kind = node.op == Op::maximum ? ReduceKind::max : ReduceKind::min;
  if (x == y || is_identity(graph, y, kind)) return x;
  if (is_constant(graph, x) && !is_constant(graph, y)) return graph.binary(node.op, y, x);
  const auto outer = splat_number(graph, y);
  if (!outer || std::isnan(*outer) || !graph.is(x, node.op)) return {};
  const auto inner = splat_number(graph, graph.operand(x, 1));
  if (!inner || std::isnan(*inner)) return {};
  const bool inner_wins = node.op == Op::maximum ? *inner >= *outer : *inner <= *outer;
  return inner_wins ? x : graph.binary(node.op, graph.operand(x), y);
}

Replacement clamp(Rewriter& graph, const Node& node) {
  const Value low = node.operands[0], x = node.operands[1], high = node.operands[2];
  if (is_identity(graph, low, ReduceKind::max)) return graph.binary(Op::minimum, x, high);
  if (is_identity(graph, high, ReduceKind::min)) return graph.binary(Op::maximum, x, low);
  if (graph.is(x, Op::clamp) && graph.operand(x, 0) == low && graph.operand(x, 2) == high) return x;
  return {};
}

bool all_ones(const Rewriter& graph, Value v) { return is_identity(graph, v, ReduceKind::bit_and); }

bool opposed(const Rewriter& graph, Value x, Value y) {
  return (graph.is(x, Op::bit_not) && graph.operand(x) == y) || (graph.is(y, Op::bit_not) && graph.operand(y) == x);
}

Replacement bits(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0], y = node.operands[1];
  if (is_constant(graph, x) && !is_constant(graph, y)) return graph.binary(node.op, y, x);
  const bool zero = splat_integer(graph, y) == 0, ones = all_ones(graph, y);
  const auto fill = [&](bool set) {
    const TensorType& type = node.type();
    return graph.broadcast(graph.scalar_integer(type.dtype, set ? -1 : 0), type.dims, {});
  };
  switch (node.op) {
    case Op::bit_and:
      if (x == y || ones) return x;
      if (zero || opposed(graph, x, y)) return fill(false);
      break;
    case Op::bit_or:
      if (x == y || zero) return x;
      if (ones || opposed(graph, x, y)) return fill(true);
      break;
    default:
      if (zero) return x;
      if (x == y) return fill(false);
      if (ones) return graph.unary(Op::bit_not, x);
      break;
  }
  return {};
}

Replacement bit_not(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  if (graph.is(x, Op::bit_not)) return graph.operand(x);
  if (!graph.is(x, Op::compare) || graph.uses(x) != 1) return {};
  const Comparison direction = graph.node(x).as<CompareAttributes>().direction;
  const bool equality = direction == Comparison::eq || direction == Comparison::ne;
  if (is_floating(graph.dtype(graph.operand(x))) && !equality) return {};
  return graph.compare(opposite(direction), graph.operand(x), graph.operand(x, 1));
}

Replacement choices_rule(Rewriter& graph, const Node& node) {
  switch (node.op) {
    case Op::select: return select(graph, node);
    case Op::compare: return compare(graph, node);
    case Op::maximum:
    case Op::minimum: return extreme(graph, node);
    case Op::clamp: return clamp(graph, node);
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor: return bits(graph, node);
    case Op::bit_not: return bit_not(graph, node);
    case Op::shift_left:
    case Op::shift_right_logical:
    case Op::shift_right_arithmetic:
      if (splat_integer(graph, node.operands[1]) == 0) return node.operands[0];
      return {};
    default: return {};
  }
}

}  // namespace

Result<int> simplify_choices(Graph& graph, const PassContext&) { return rewrite(graph, choices_rule); }

}  // namespace stitch::graph
