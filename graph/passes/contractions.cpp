#include "graph/passes/contractions.h"

#include <algorithm>
#include <numeric>

#include "graph/infer_checks.h"
#include "graph/passes/rewriter.h"

namespace stitch::graph {
namespace {

constexpr std::int64_t most_vector_product_elements = std::int64_t{1} << 20;

/// One operand of a dot: which of its dimensions are batch, contracted and free (the free ones in the order of the
/// result).
struct Side {
  Value value;
  Dims batch, contracting;

  [[nodiscard]] Dims free(const Rewriter& graph) const {
    Dims rest;
    for (std::int64_t d = 0; d < graph.type(value).rank(); ++d) {
      if (!contains(batch, d) && !contains(contracting, d)) rest.push_back(d);
    }
    return rest;
  }
};

Side left_side(const Node& node) {
  const auto& a = node.as<DotAttributes>();
  return {node.operands[0], a.lhs_batch, a.lhs_contracting};
}

Side right_side(const Node& node) {
  const auto& a = node.as<DotAttributes>();
  return {node.operands[1], a.rhs_batch, a.rhs_contracting};
}

Value dot(Rewriter& graph, const Side& left, const Side& right, DType result) {
  return graph.add(Op::dot, {left.value, right.value},
                   DotAttributes{left.batch, right.batch, left.contracting, right.contracting, result});
}

/// The side without (or with a better) transpose above it; none when it is fine as it is.
std::optional<Side> without_transpose(Rewriter& graph, const Side& side) {
  if (!graph.is(side.value, Op::transpose)) return std::nullopt;
  const Value source = graph.operand(side.value);
  const Dims& permutation = graph.node(side.value).as<TransposeAttributes>().permutation;
  // Dimensions of the source in the order in which a form lists them.
  const auto form = [&](bool contracted_last) {
    const Dims free = side.free(graph);
    Dims order = joined(side.batch, contracted_last ? joined(free, side.contracting) : joined(side.contracting, free));
    for (std::int64_t& d : order) d = permutation[d];
    return order;
  };
  const auto innermost = static_cast<std::int64_t>(permutation.size()) - 1;
  std::optional<Dims> best;
  for (const bool contracted_last : {true, false}) {
    const Dims order = form(contracted_last);
    if (std::is_sorted(order.begin(), order.end())) {
      best = order;
      break;
    }
    if (!best && permutation.back() != innermost && order.back() == innermost) best = order;
  }
  if (!best || *best == permutation) return std::nullopt;
  const auto place = [&](std::int64_t d) {  // of a dimension of the transposed operand, in the new one
    return std::find(best->begin(), best->end(), permutation[d]) - best->begin();
  };
  Side result{graph.transpose(source, *best), {}, {}};
  for (const std::int64_t d : side.batch) result.batch.push_back(place(d));
  for (const std::int64_t d : side.contracting) result.contracting.push_back(place(d));
  return result;
}

/// Spreads one side over the shape [batch, left free, right free] followed by the contracted dimensions.
Value spread(Rewriter& graph, const Side& side, const Dims& shape, std::size_t free_begin, DType dtype) {
  const Dims free = side.free(graph);
  const std::size_t contracted_begin = shape.size() - side.contracting.size();
  Dims order = joined(joined(side.batch, free), side.contracting), mapping;
  for (std::size_t i = 0; i < side.batch.size(); ++i) mapping.push_back(i);
  for (std::size_t i = 0; i < free.size(); ++i) mapping.push_back(free_begin + i);
  for (std::size_t i = 0; i < side.contracting.size(); ++i) {
    mapping.push_back(contracted_begin + i);
  }
  return graph.broadcast(graph.transpose(graph.convert(side.value, dtype), order), shape, mapping);
}

/// The dot written out as a product of broadcasts, summed over what is contracted.
Value written_out(Rewriter& graph, const Node& node) {
  const Side left = left_side(node), right = right_side(node);
  const DType result = node.type().dtype;
  // Products and sums are as precise as the dot's: in the accumulator of its result.
  const DType dtype = info(result).accumulator;
  Dims shape = node.type().dims;
  for (const std::int64_t d : left.contracting) shape.push_back(graph.dims(left.value)[d]);
  const std::size_t left_free = left.batch.size();
  const Value product = graph.binary(Op::multiply, spread(graph, left, shape, left_free, dtype),
                                     spread(graph, right, shape, left_free + left.free(graph).size(), dtype));
  Dims contracted(left.contracting.size());
  std::iota(contracted.begin(), contracted.end(), node.type().rank());
  return graph.convert(graph.reduce(ReduceKind::sum, product, contracted), result);
}

Replacement of_dot(Rewriter& graph, const Node& node) {
  const Side left = left_side(node), right = right_side(node);
  const std::int64_t elements = std::max(graph.type(left.value).elements(), graph.type(right.value).elements());
  const bool vector = left.free(graph).empty() || right.free(graph).empty();
  const auto accumulator = [&](Value v) { return info(graph.dtype(v)).accumulator; };
  const bool same = accumulator(left.value) == info(node.type().dtype).accumulator &&
                    accumulator(right.value) == info(node.type().dtype).accumulator;
  if (same && (left.contracting.empty() || (vector && elements <= most_vector_product_elements))) {
    return written_out(graph, node);
  }
  const auto new_left = without_transpose(graph, left), new_right = without_transpose(graph, right);
  if (!new_left && !new_right) return {};
  return dot(graph, new_left.value_or(left), new_right.value_or(right), node.type().dtype);
}

Replacement of_transpose(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  if (!graph.is(x, Op::dot) || graph.uses(x) != 1 || graph.type(x).rank() == 0) return {};
  const Node& product = graph.node(x);
  const Side left = left_side(product), right = right_side(product);
  const std::int64_t batch = left.batch.size();
  const std::int64_t left_free = left.free(graph).size();
  const std::int64_t rank = product.type().rank();
  // Where a dimension of the result lies once the operands are exchanged.
  const auto exchanged = [&](std::int64_t d) {
    if (d < batch) return d;
    return d < batch + left_free ? d + (rank - batch - left_free) : d - left_free;
  };
  Dims permutation = node.as<TransposeAttributes>().permutation;
  const bool keeps_innermost = permutation.back() == rank - 1;
  for (std::int64_t& d : permutation) d = exchanged(d);
  const bool vanishes = std::is_sorted(permutation.begin(), permutation.end());
  if (!vanishes && (keeps_innermost || permutation.back() != rank - 1)) return {};
  return graph.transpose(dot(graph, right, left, product.type().dtype), permutation);
}

Replacement contractions_rule(Rewriter& graph, const Node& node) {
  if (node.op == Op::dot) return of_dot(graph, node);
  if (node.op == Op::transpose) return of_transpose(graph, node);
  return {};
}

}  // namespace

Result<int> simplify_contractions(Graph& graph, const PassContext&) { return rewrite(graph, contractions_rule); }

}  // namespace stitch::graph
