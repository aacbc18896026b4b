#include "graph/passes/arithmetic.h"

#include <algorithm>
#include <cmath>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/passes/rewriter.h"
#include "graph/passes/splat.h"
#include "graph/reference/evaluate_error.h"

namespace stitch::graph {
namespace {

/// The rules see the rewriter, one node and the options.
struct Rules {
  Rewriter& graph;
  const Node& node;
  bool reassociate;
  bool reciprocals;  ///< a quotient may become a product

  [[nodiscard]] Value x() const { return node.operands[0]; }
  [[nodiscard]] Value y() const { return node.operands[1]; }
  [[nodiscard]] DType dtype() const { return node.type().dtype; }
  [[nodiscard]] bool floating() const { return is_floating(dtype()); }
  /// Whether another rounding or two of a quotient does not matter much.
  [[nodiscard]] bool wide() const { return dtype() == DType::f32 || dtype() == DType::f64; }
  [[nodiscard]] bool is_constant(Value v) const { return splat_constant(graph, v) != nullptr; }
  [[nodiscard]] bool single(Value v) const { return graph.uses(v) == 1; }
  /// Whether a chain of two operators on constants may become one.
  [[nodiscard]] bool may_combine(Value inner) const { return !floating() || (reassociate && single(inner)); }
};

/// A splat of `op` applied to two splat constants, as wide as `node`'s result. None when a floating result is not a
/// finite normal number (or an exact zero).
std::optional<Value> combine(const Rules& r, Op op, Value a, Value b) {
  const TensorType& type = r.node.type();
  if (!r.floating()) {
    // Wrapping arithmetic on the low 64 bits is right for every narrower integer.
    const std::uint64_t left = *splat_integer(r.graph, a);
    const std::uint64_t right = *splat_integer(r.graph, b);
    const std::uint64_t value = op == Op::add ? left + right : op == Op::subtract ? left - right : left * right;
    const Value scalar = r.graph.scalar_integer(type.dtype, value);
    return r.graph.broadcast(scalar, type.dims, {});
  }
  const double left = *splat_number(r.graph, a), right = *splat_number(r.graph, b);
  const double value = op == Op::add ? left + right : op == Op::subtract ? left - right : left * right;
  const double rounded = round_to(type.dtype, value);
  if (!std::isfinite(rounded) || (value != 0 && std::fabs(rounded) < smallest_normal(type.dtype))) return std::nullopt;
  return r.graph.filled(type, rounded);
}

std::optional<Value> negated_constant(const Rules& r, Value constant) {
  const TensorType& type = r.node.type();
  if (r.floating()) return r.graph.filled(type, -*splat_number(r.graph, constant));
  const std::uint64_t value = *splat_integer(r.graph, constant);
  return r.graph.broadcast(r.graph.scalar_integer(type.dtype, 0 - value), type.dims, {});
}

Replacement add(const Rules& r) {
  auto& g = r.graph;
  if (is_identity(g, r.y(), ReduceKind::sum)) return r.x();
  if (r.is_constant(r.x()) && !r.is_constant(r.y())) return g.binary(Op::add, r.y(), r.x());
  if (g.is(r.y(), Op::negate)) return g.binary(Op::subtract, r.x(), g.operand(r.y()));
  if (g.is(r.x(), Op::negate)) return g.binary(Op::subtract, r.y(), g.operand(r.x()));
  for (const auto& [x, y] : {std::pair(r.x(), r.y()), std::pair(r.y(), r.x())}) {
    if (!g.is(y, Op::broadcast) || !g.is(g.operand(y), Op::negate) || g.uses(y) != 1) continue;
    const auto& a = g.node(y).as<BroadcastAttributes>();
    return g.binary(Op::subtract, x, g.broadcast(g.operand(g.operand(y)), a.dims, a.mapping));
  }
  if (r.x() == r.y() && r.floating()) return g.binary(Op::multiply, r.x(), g.filled(r.node.type(), 2));
  if (!r.is_constant(r.y()) || !r.may_combine(r.x())) return {};
  if (g.is(r.x(), Op::add) && r.is_constant(g.operand(r.x(), 1))) {
    if (const auto sum = combine(r, Op::add, g.operand(r.x(), 1), r.y())) {
      return g.binary(Op::add, g.operand(r.x()), *sum);
    }
  }
  if (g.is(r.x(), Op::subtract) && r.is_constant(g.operand(r.x(), 0))) {
    if (const auto sum = combine(r, Op::add, g.operand(r.x(), 0), r.y())) {
      return g.binary(Op::subtract, *sum, g.operand(r.x(), 1));
    }
  }
  return {};
}

Replacement subtract(const Rules& r) {
  auto& g = r.graph;
  if (is_identity(g, r.y(), ReduceKind::sum)) return r.x();
  if (r.x() == r.y() && !r.floating()) return g.filled(r.node.type(), 0);
  if (is_identity(g, r.x(), ReduceKind::sum)) return g.unary(Op::negate, r.y());
  if (r.is_constant(r.y())) return g.binary(Op::add, r.x(), *negated_constant(r, r.y()));
  if (g.is(r.y(), Op::negate)) return g.binary(Op::add, r.x(), g.operand(r.y()));
  if (g.is(r.x(), Op::negate)) return g.unary(Op::negate, g.binary(Op::add, g.operand(r.x()), r.y()));
  if (!r.is_constant(r.x()) || !r.may_combine(r.y())) return {};
  if (g.is(r.y(), Op::add) && r.is_constant(g.operand(r.y(), 1))) {  // c1 - (x + c2)
    if (const auto rest = combine(r, Op::subtract, r.x(), g.operand(r.y(), 1))) {
      return g.binary(Op::subtract, *rest, g.operand(r.y()));
    }
  }
  if (g.is(r.y(), Op::subtract) && r.is_constant(g.operand(r.y(), 0))) {  // c1 - (c2 - x)
    if (const auto rest = combine(r, Op::subtract, r.x(), g.operand(r.y(), 0))) {
      return g.binary(Op::add, g.operand(r.y(), 1), *rest);
    }
  }
  return {};
}

Replacement negate(const Rules& r) {
  auto& g = r.graph;
  if (r.is_constant(r.x())) return *negated_constant(r, r.x());
  if (g.is(r.x(), Op::negate)) return g.operand(r.x());
  if (!r.single(r.x())) return {};
  const Value a = g.is(r.x(), Op::subtract) || g.is(r.x(), Op::multiply) ? g.operand(r.x(), 0) : Value{};
  if (g.is(r.x(), Op::subtract)) return g.binary(Op::subtract, g.operand(r.x(), 1), a);
  if (g.is(r.x(), Op::multiply) && r.is_constant(g.operand(r.x(), 1))) {
    return g.binary(Op::multiply, a, *negated_constant(r, g.operand(r.x(), 1)));
  }
  return {};
}

/// A factor that lives on fewer dimensions than the product: the source and mapping of a broadcast.
const BroadcastAttributes* small_factor(const Rewriter& graph, Value v) {
  return graph.is(v, Op::broadcast) ? &graph.node(v).as<BroadcastAttributes>() : nullptr;
}

bool covers(const Dims& mapping, const Dims& other) {
  return std::includes(mapping.begin(), mapping.end(), other.begin(), other.end());
}

/// (x · b1) · b2 → x · (b1 · b2), the new product being on the small side.
Replacement gather_small_factors(const Rules& r) {
  auto& g = r.graph;
  if (!r.reassociate || !r.floating()) return {};
  for (const auto& [product, factor] : {std::pair(r.x(), r.y()), std::pair(r.y(), r.x())}) {
    const BroadcastAttributes* outer = small_factor(g, factor);
    if (outer == nullptr || !g.is(product, Op::multiply) || !r.single(product)) continue;
    for (const std::size_t side : {0, 1}) {
      const Value inner_factor = g.operand(product, side), rest = g.operand(product, 1 - side);
      const BroadcastAttributes* inner = small_factor(g, inner_factor);
      if (inner == nullptr || small_factor(g, rest) != nullptr) continue;
      if (!covers(inner->mapping, outer->mapping) && !covers(outer->mapping, inner->mapping)) continue;
      if (r.is_constant(factor) && r.is_constant(inner_factor)) continue;  // `combine` looks at the values
      return g.binary(Op::multiply, rest, g.binary(Op::multiply, inner_factor, factor));
    }
  }
  return {};
}

Replacement multiply(const Rules& r) {
  auto& g = r.graph;
  if (is_identity(g, r.y(), ReduceKind::product)) return r.x();
  if (!r.floating() && is_splat_of(g, r.y(), 0)) return r.y();
  if (r.is_constant(r.x()) && !r.is_constant(r.y())) return g.binary(Op::multiply, r.y(), r.x());
  if (is_splat_of(g, r.y(), -1)) return g.unary(Op::negate, r.x());
  const bool negative_x = g.is(r.x(), Op::negate), negative_y = g.is(r.y(), Op::negate);
  if (negative_x && negative_y) return g.binary(Op::multiply, g.operand(r.x()), g.operand(r.y()));
  if (negative_x && r.is_constant(r.y())) {
    return g.binary(Op::multiply, g.operand(r.x()), *negated_constant(r, r.y()));
  }
  if (negative_x && r.single(r.x())) return g.unary(Op::negate, g.binary(Op::multiply, g.operand(r.x()), r.y()));
  if (negative_y && r.single(r.y())) return g.unary(Op::negate, g.binary(Op::multiply, r.x(), g.operand(r.y())));
  if (r.is_constant(r.y()) && g.is(r.x(), Op::multiply) && r.is_constant(g.operand(r.x(), 1)) && r.may_combine(r.x())) {
    if (const auto product = combine(r, Op::multiply, g.operand(r.x(), 1), r.y())) {
      return g.binary(Op::multiply, g.operand(r.x()), *product);
    }
  }
  return gather_small_factors(r);
}

/// 1/c when multiplying by it may stand for dividing by c.
std::optional<double> reciprocal(const Rules& r, double c) {
  if (c == 0 || !std::isfinite(c)) return std::nullopt;
  int exponent = 0;
  const bool exact = std::fabs(std::frexp(c, &exponent)) == 0.5;
  if (!exact && !(r.wide() && r.reciprocals)) return std::nullopt;
  const double value = round_to(r.dtype(), 1 / c);
  if (!std::isfinite(value) || std::fabs(value) < smallest_normal(r.dtype())) return std::nullopt;
  return value;
}

Replacement divide(const Rules& r) {
  auto& g = r.graph;
  if (is_splat_of(g, r.y(), 1)) return r.x();
  if (is_splat_of(g, r.y(), -1)) return g.unary(Op::negate, r.x());
  if (!r.floating()) return {};
  if (const auto c = splat_number(g, r.y())) {
    if (const auto inverse = reciprocal(r, *c)) return g.binary(Op::multiply, r.x(), g.filled(r.node.type(), *inverse));
  }
  const BroadcastAttributes* divisor = r.is_constant(r.y()) ? nullptr : small_factor(g, r.y());
  if (divisor != nullptr && r.reciprocals && r.wide()) {
    const Value d = g.operand(r.y());
    const Value inverse = g.binary(Op::divide, g.filled(g.type(d), 1), d);
    return g.binary(Op::multiply, r.x(), g.broadcast(inverse, divisor->dims, divisor->mapping));
  }
  const bool negative_x = g.is(r.x(), Op::negate), negative_y = g.is(r.y(), Op::negate);
  if (negative_x && negative_y) return g.binary(Op::divide, g.operand(r.x()), g.operand(r.y()));
  if (negative_x && r.single(r.x())) return g.unary(Op::negate, g.binary(Op::divide, g.operand(r.x()), r.y()));
  if (negative_y && r.single(r.y())) return g.unary(Op::negate, g.binary(Op::divide, r.x(), g.operand(r.y())));
  return {};
}

Replacement arithmetic_rule(const Rules& r) {
  auto& g = r.graph;
  switch (r.node.op) {
    case Op::add: return add(r);
    case Op::subtract: return subtract(r);
    case Op::negate: return negate(r);
    case Op::multiply: return multiply(r);
    case Op::divide: return divide(r);
    case Op::remainder:
      if (!r.floating() && (is_splat_of(g, r.y(), 1) || is_splat_of(g, r.y(), -1))) return g.filled(r.node.type(), 0);
      return {};
    case Op::abs:
      if (g.is(r.x(), Op::negate)) return g.unary(Op::abs, g.operand(r.x()));
      if (g.is(r.x(), Op::abs) || is_unsigned_integer(r.dtype())) return r.x();
      return {};
    default: return {};
  }
}

/// Whether some quotient is on its way to being rounded to an integer: quantisation meets exact halves, and the error
/// of a reciprocal decides where they go.
bool rounds_quotients(const Graph& graph) {
  std::vector<bool> from_quotient(graph.size(), false);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const bool reached = std::any_of(node.operands.begin(), node.operands.end(),
                                     [&](Value operand) { return from_quotient[operand.node]; });
    if (reached && rounds_to_integer(node.op, node.type().dtype)) return true;
    const bool quotient = node.op == Op::divide && is_floating(node.type().dtype);
    from_quotient[id] = quotient || reached;
  }
  return false;
}

}  // namespace

Result<int> simplify_arithmetic(Graph& graph, const PassContext& context) {
  const bool reciprocals = context.reassociate && !rounds_quotients(graph);
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) {
    return arithmetic_rule({rewriter, node, context.reassociate, reciprocals});
  });
}

}  // namespace stitch::graph
