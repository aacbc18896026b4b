#include "graph/passes/sum_factors.h"

#include <algorithm>
#include <cmath>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/passes/splat.h"
#include "graph/reference/evaluate_error.h"

namespace stitch::graph {
namespace {

// Products are searched this deep for factors to take out: a norm's backward needs three.
constexpr int most_depth = 5;

/// A product seen from a sum over `reduced`: ± numerators / denominators · leaves. The first two are constant along the
/// reduced dimensions, and already narrowed to the kept ones.
struct Factors {
  std::vector<Value> numerators, denominators, leaves;
  bool negative = false;
};

class Collector {
 public:
  Collector(Rewriter& graph, const Dims& reduced) : graph_(graph), reduced_(reduced) {}

  /// Adds the factors of x; false when nothing comes out (then x itself is the only leaf added).
  bool collect(Value x, Factors& factors, int depth = 0) {
    if (const auto small = along_kept(graph_, x, reduced_)) {
      factors.numerators.push_back(*small);
      return true;
    }
    if (depth < most_depth) {
      if (graph_.is(x, Op::negate)) {
        factors.negative = !factors.negative;
        collect(graph_.operand(x), factors, depth + 1);
        return true;
      }
      if (graph_.is(x, Op::multiply)) return collect_product(x, factors, depth);
      if (graph_.is(x, Op::divide) && is_floating(graph_.dtype(x))) return collect_quotient(x, factors, depth);
    }
    factors.leaves.push_back(x);
    return false;
  }

 private:
  bool collect_product(Value x, Factors& factors, int depth) {
    Factors inner;
    const bool left = collect(graph_.operand(x, 0), inner, depth + 1);
    const bool right = collect(graph_.operand(x, 1), inner, depth + 1);
    if (!left && !right) {
      factors.leaves.push_back(x);  // the product as it stands
      return false;
    }
    append(inner, factors);
    return true;
  }

  bool collect_quotient(Value x, Factors& factors, int depth) {
    const auto divisor = along_kept(graph_, graph_.operand(x, 1), reduced_);
    if (!divisor) {
      factors.leaves.push_back(x);
      return false;
    }
    factors.denominators.push_back(*divisor);
    collect(graph_.operand(x, 0), factors, depth + 1);
    return true;
  }

  static void append(const Factors& from, Factors& to) {
    to.numerators.insert(to.numerators.end(), from.numerators.begin(), from.numerators.end());
    to.denominators.insert(to.denominators.end(), from.denominators.begin(), from.denominators.end());
    to.leaves.insert(to.leaves.end(), from.leaves.begin(), from.leaves.end());
    to.negative = to.negative != from.negative;
  }

  Rewriter& graph_;
  const Dims& reduced_;
};

std::int64_t reduced_elements(const Rewriter& graph, Value x, const Dims& reduced) {
  std::int64_t count = 1;
  for (const std::int64_t d : reduced) count *= graph.dims(x)[d];
  return count;
}

/// Whether x is y - mean(y), the mean being taken over `reduced`: the sum over the same dimensions times 1/n (or
/// divided by n), up to the rounding of the constant.
bool is_own_deviation(Rewriter& graph, Value x, const Dims& reduced) {
  if (!graph.is(x, Op::subtract)) return false;
  const Value y = graph.operand(x, 0), mean = graph.operand(x, 1);
  if (!is_floating(graph.dtype(x)) || !graph.is(mean, Op::broadcast)) return false;
  const Value quotient = graph.operand(mean);
  if (!graph.is(quotient, Op::multiply) && !graph.is(quotient, Op::divide)) return false;
  const Value sum = graph.operand(quotient, 0);
  if (!graph.is(sum, Op::reduce) || graph.operand(sum) != y) return false;
  const auto& a = graph.node(sum).as<ReduceAttributes>();
  if (a.kind != ReduceKind::sum || a.dimensions != reduced) return false;
  for (const std::int64_t d : graph.node(mean).as<BroadcastAttributes>().mapping) {
    if (contains(reduced, d)) return false;  // equal extents: the mean is spread along another dimension
  }
  const auto c = splat_number(graph, graph.operand(quotient, 1));
  if (!c) return false;
  const double n = reduced_elements(graph, y, reduced);
  const DType dtype = graph.dtype(x);
  if (graph.is(quotient, Op::divide)) return *c == round_to(dtype, n);
  return std::fabs(*c * n - 1) <= 1.5 * unit_roundoff(dtype);  // 1/n may have been rounded twice
}

}  // namespace

std::optional<Value> along_kept(Rewriter& graph, Value x, const Dims& reduced) {
  if (!graph.is(x, Op::broadcast)) return std::nullopt;
  const auto& a = graph.node(x).as<BroadcastAttributes>();
  Dims mapping;
  for (const std::int64_t d : a.mapping) {
    if (contains(reduced, d)) return std::nullopt;
    mapping.push_back(d - std::count_if(reduced.begin(), reduced.end(), [&](std::int64_t r) { return r < d; }));
  }
  return graph.broadcast(graph.operand(x), without(a.dims, reduced), mapping);
}

Replacement factored_sum(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  const Dims& reduced = node.as<ReduceAttributes>().dimensions;
  if (is_own_deviation(graph, x, reduced)) return graph.filled(node.type(), 0);
  Factors factors;
  if (!Collector(graph, reduced).collect(x, factors)) return {};
  std::sort(factors.leaves.begin(), factors.leaves.end());  // equal products get one form
  Value sum;
  if (factors.leaves.empty()) {
    const double count = reduced_elements(graph, x, reduced);
    if (round_to(node.type().dtype, count) != count) return {};  // it would be a sum of ones again
    sum = graph.reduce(ReduceKind::sum, graph.filled(graph.type(x), 1), reduced);
  } else {
    Value product = factors.leaves[0];
    for (std::size_t i = 1; i < factors.leaves.size(); ++i) {
      product = graph.binary(Op::multiply, product, factors.leaves[i]);
    }
    if (is_own_deviation(graph, product, reduced)) return graph.filled(node.type(), 0);
    sum = graph.reduce(ReduceKind::sum, product, reduced);
  }
  for (const Value& factor : factors.numerators) sum = graph.binary(Op::multiply, sum, factor);
  for (const Value& divisor : factors.denominators) sum = graph.binary(Op::divide, sum, divisor);
  return factors.negative ? graph.unary(Op::negate, sum) : sum;
}

}  // namespace stitch::graph
