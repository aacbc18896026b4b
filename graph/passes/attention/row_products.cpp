#include "graph/passes/attention/row_products.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/fill.h"

namespace stitch::graph {
namespace {

/// Factors of either kind at most, and leaves: a softmax's gradient has a handful.
constexpr std::size_t most_factors = 16;

bool converts_floats(const Graph& graph, const Node& node) {
  return node.op == Op::convert && is_floating(node.type().dtype) && is_floating(graph.type(node.operands[0]).dtype);
}

/// `along` of the operand of a node that only moves: a transpose, a broadcast, or a reshape that adds or drops extents
/// of 1; nothing of another.
std::optional<Dims> along_operand(const Graph& graph, const Node& node, const Dims& along) {
  const Dims& from = graph.type(node.operands[0]).dims;
  Dims moved;
  if (node.op == Op::transpose) {
    const Dims& permutation = node.as<TransposeAttributes>().permutation;
    moved.resize(from.size());
    for (std::size_t d = 0; d < permutation.size(); ++d) moved[permutation[d]] = along[d];
    return moved;
  }
  if (node.op == Op::broadcast) {
    for (const std::int64_t d : node.as<BroadcastAttributes>().mapping) moved.push_back(along[d]);
    return moved;
  }
  if (node.op != Op::reshape) return std::nullopt;
  const Dims& to = node.type().dims;
  std::size_t next = 0;
  for (const std::int64_t extent : from) {
    if (extent == 1) {
      moved.push_back(-1);
      continue;
    }
    while (next < to.size() && to[next] == 1) ++next;
    if (next == to.size() || to[next] != extent) return std::nullopt;
    moved.push_back(along[next++]);
  }
  return moved;
}

class FactorTaker {
 public:
  FactorTaker(const Graph& graph, std::int64_t dimension) : graph_(graph), dimension_(dimension) {}

  /// Of a value as wide as the tensor, each of whose dimensions is one of it. False: cannot be said.
  bool take(Value value, const Dims& along, bool inverse) {
    const Node& node = graph_.node(value.node);
    if (const auto number = fill_number(graph_, value)) return take_number(*number, inverse);
    if (node.op == Op::broadcast) {
      const std::optional<Dims> small = along_operand(graph_, node, along);
      if (std::ranges::count(*small, dimension_) == 0) return take_row(node.operands[0], without(*small), inverse);
    }
    if (node.op == Op::transpose) return take(node.operands[0], *along_operand(graph_, node, along), inverse);
    if (is_arithmetic(node)) {
      return take_arithmetic(node, inverse, [&](Value of, bool inverted) { return take(of, along, inverted); });
    }
    if (inverse || found.leaves.size() == most_factors) return false;
    if (node.op == Op::select && fill_number(graph_, node.operands[2]) == 0.0) {
      found.leaves.push_back({node.operands[0], along});
      return take(node.operands[1], along, inverse);
    }
    const bool is_truth = node.op == Op::convert && graph_.type(node.operands[0]).dtype == DType::pred;
    found.leaves.push_back({is_truth ? node.operands[0] : value, along});
    return true;
  }

  RowProduct found;

 private:
  /// The same of a value without the dimension.
  bool take_row(Value value, const Dims& along, bool inverse) {
    const Node& node = graph_.node(value.node);
    if (const auto number = fill_number(graph_, value)) return take_number(*number, inverse);
    if (is_arithmetic(node)) {
      return take_arithmetic(node, inverse, [&](Value of, bool inverted) { return take_row(of, along, inverted); });
    }
    if (const auto moved = node.operands.size() == 1 ? along_operand(graph_, node, along) : std::nullopt)
      return take_row(node.operands[0], *moved, inverse);
    std::vector<RowFactor>& factors = inverse ? found.denominators : found.numerators;
    factors.push_back({value, along});
    return factors.size() <= most_factors;
  }

  [[nodiscard]] bool is_arithmetic(const Node& node) const {
    return is_floating(node.type().dtype) &&
           (node.op == Op::multiply || node.op == Op::divide || node.op == Op::negate || converts_floats(graph_, node));
  }

  template <class Take>
  bool take_arithmetic(const Node& node, bool inverse, const Take& take) {
    if (node.op == Op::negate) found.scale = -found.scale;
    if (node.operands.size() == 1) return take(node.operands[0], inverse);
    return take(node.operands[0], inverse) && take(node.operands[1], inverse != (node.op == Op::divide));
  }

  bool take_number(double number, bool inverse) {
    found.scale = inverse ? found.scale / number : found.scale * number;
    return std::isfinite(found.scale) && found.scale != 0;
  }

  /// Places in the tensor without the dimension, of places in the whole.
  [[nodiscard]] Dims without(Dims along) const {
    for (std::int64_t& d : along) d -= d > dimension_ ? 1 : 0;
    return along;
  }

  const Graph& graph_;
  const std::int64_t dimension_;
};

}  // namespace

std::optional<RowProduct> row_product(const Graph& graph, Value value, std::int64_t dimension) {
  Dims along(graph.type(value).dims.size());
  std::iota(along.begin(), along.end(), 0);
  FactorTaker taker(graph, dimension);
  if (!taker.take(value, along, false)) return std::nullopt;
  return std::move(taker.found);
}

void cancel(RowProduct& product) {
  std::erase_if(product.numerators, [&](const RowFactor& factor) {
    const auto same = std::ranges::find(product.denominators, factor);
    if (same == product.denominators.end()) return false;
    product.denominators.erase(same);
    return true;
  });
}

}  // namespace stitch::graph
