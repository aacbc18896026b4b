#include "graph/passes/reductions.h"

#include <algorithm>
#include <cmath>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/passes/conversions.h"
#include "graph/passes/dim_groups.h"
#include "graph/passes/rewriter.h"
#include "graph/passes/splat.h"
#include "graph/passes/sum_factors.h"
#include "graph/reduce_kind.h"

namespace stitch::graph {
namespace {

/// One application of reduce: to which the rules below apply in turn.
struct Reduction {
  Rewriter& graph;
  const Node& node;

  [[nodiscard]] Value x() const { return node.operands[0]; }
  [[nodiscard]] ReduceKind kind() const { return node.as<ReduceAttributes>().kind; }
  [[nodiscard]] const Dims& reduced() const { return node.as<ReduceAttributes>().dimensions; }
  [[nodiscard]] bool is_reduced(std::int64_t d) const { return contains(reduced(), d); }
  /// Number of a kept dimension in the result.
  [[nodiscard]] std::int64_t position(std::int64_t d) const {
    return d - std::count_if(reduced().begin(), reduced().end(), [&](std::int64_t r) { return r < d; });
  }
};

Value identity(Rewriter& graph, const TensorType& type, ReduceKind kind) {
  return graph.broadcast(graph.constant(scalar_of(type.dtype, identity_bits(kind, type.dtype))), type.dims, {});
}

/// `count` equal elements combined.
std::optional<Value> repeated(Rewriter& graph, ReduceKind kind, Value x, std::int64_t count) {
  const TensorType type = graph.type(x);
  switch (kind) {
    case ReduceKind::sum: {
      const double factor = count;
      if (!is_floating(type.dtype)) {
        const Value scalar = graph.scalar_integer(type.dtype, count);
        return graph.binary(Op::multiply, x, graph.broadcast(scalar, type.dims, {}));
      }
      if (round_to(type.dtype, factor) == factor) return graph.binary(Op::multiply, x, graph.filled(type, factor));
      const DType wide = info(type.dtype).accumulator;
      if (wide == type.dtype) return std::nullopt;
      const Value product = graph.binary(Op::multiply, graph.convert(x, wide), graph.filled({wide, type.dims}, factor));
      return graph.convert(product, type.dtype);
    }
    case ReduceKind::product: return std::nullopt;
    case ReduceKind::bit_xor:
      if (count % 2 == 0) return identity(graph, type, kind);
      return x;
    default: return x;
  }
}

Replacement of_broadcast(const Reduction& r) {
  const auto& a = r.graph.node(r.x()).as<BroadcastAttributes>();
  Dims inner_reduced, mapping;
  for (std::size_t i = 0; i < a.mapping.size(); ++i) {
    if (r.is_reduced(a.mapping[i])) {
      inner_reduced.push_back(i);
    } else {
      mapping.push_back(r.position(a.mapping[i]));
    }
  }
  std::int64_t count = 1;
  for (const std::int64_t d : r.reduced()) {
    if (!contains(a.mapping, d)) count *= a.dims[d];
  }
  // Nothing is repeated along a reduced dimension: still worth it, the broadcast moves below.
  const DType dtype = r.node.type().dtype;
  const bool rounds = r.kind() == ReduceKind::sum && is_floating(dtype) && count != 1 && !inner_reduced.empty();
  // A sum and a product are rounded once, together.
  const DType wide = rounds ? info(dtype).accumulator : dtype;
  const Value inner = r.graph.reduce(r.kind(), r.graph.convert(r.graph.operand(r.x()), wide), inner_reduced);
  if (count == 1) return r.graph.broadcast(inner, r.node.type().dims, mapping);
  const auto value = repeated(r.graph, r.kind(), inner, count);
  if (!value) return {};
  return r.graph.broadcast(r.graph.convert(*value, dtype), r.node.type().dims, mapping);
}

Replacement of_reduce(const Reduction& r) {
  const auto& inner = r.graph.node(r.x()).as<ReduceAttributes>();
  if (inner.kind != r.kind()) return {};
  const Value source = r.graph.operand(r.x());
  Dims all = inner.dimensions;
  std::int64_t kept = 0;
  for (std::int64_t d = 0; d < r.graph.type(source).rank(); ++d) {
    if (contains(inner.dimensions, d)) continue;
    if (r.is_reduced(kept++)) all.push_back(d);
  }
  std::sort(all.begin(), all.end());
  return r.graph.reduce(r.kind(), source, all);
}

Replacement of_reshape(const Reduction& r) {
  const Value source = r.graph.operand(r.x());
  const Dims& below = r.graph.dims(r.x());
  const Dims from = without_units(r.graph.dims(source));
  if (from == below) return {};  // a reshape that takes extents of 1 out stays above
  const auto groups = dim_groups(from, below);
  if (!groups) return {};
  Dims above;
  for (const DimGroup& group : *groups) {
    int reduced = 0, kept = 0;
    for (int d = group.to_begin; d < group.to_end; ++d) {
      if (below[d] != 1) ++(r.is_reduced(d) ? reduced : kept);
    }
    if (reduced > 0 && kept > 0) return {};
    for (int d = group.from_begin; d < group.from_end && reduced > 0; ++d) above.push_back(d);
  }
  return r.graph.reshape(r.graph.reduce(r.kind(), r.graph.reshape(source, from), above), r.node.type().dims);
}

Replacement of_transpose(const Reduction& r) {
  const Dims& permutation = r.graph.node(r.x()).as<TransposeAttributes>().permutation;
  Dims above, kept;
  for (std::size_t d = 0; d < permutation.size(); ++d) {
    (r.is_reduced(d) ? above : kept).push_back(permutation[d]);
  }
  std::sort(above.begin(), above.end());
  for (std::int64_t& d : kept) {
    d -= std::count_if(above.begin(), above.end(), [&](std::int64_t a) { return a < d; });
  }
  return r.graph.transpose(r.graph.reduce(r.kind(), r.graph.operand(r.x()), above), kept);
}

Replacement of_concatenate(const Reduction& r) {
  const std::int64_t dimension = r.graph.node(r.x()).as<ConcatenateAttributes>().dimension;
  const bool along = r.is_reduced(dimension);
  const auto computed = [&](const Value& part) {
    return !r.graph.is(part, Op::parameter) && !r.graph.is(part, Op::constant);
  };
  const std::vector<Value>& operands = r.graph.node(r.x()).operands;
  // One that is also stored is stored part by part, and a reduction of a part that is computed beside that part costs
  // nothing; of what lies in memory already one reduction is better than one per part.
  if (r.graph.uses(r.x()) > 1 && (along || !std::all_of(operands.begin(), operands.end(), computed))) return {};
  const DType dtype = r.node.type().dtype;
  // The parts of a sum are rounded once, together.
  const bool rounds = is_floating(dtype) && (r.kind() == ReduceKind::sum || r.kind() == ReduceKind::product);
  const DType wide = along && rounds ? info(dtype).accumulator : dtype;
  std::vector<Value> parts;
  for (const Value& part : r.graph.node(r.x()).operands) {
    parts.push_back(r.graph.reduce(r.kind(), r.graph.convert(part, wide), r.reduced()));
  }
  if (!along) return r.graph.concatenate(std::move(parts), r.position(dimension));
  Value all = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) all = r.graph.binary(combining_op(r.kind()), all, parts[i]);
  return r.graph.convert(all, dtype);
}

Replacement of_pad(const Reduction& r) {
  const auto& a = r.graph.node(r.x()).as<PadAttributes>();
  const Value fill = r.graph.operand(r.x(), 1);
  const auto negative = [](std::int64_t width) { return width < 0; };
  if (!is_identity(r.graph, fill, r.kind()) || std::any_of(a.low.begin(), a.low.end(), negative) ||
      std::any_of(a.high.begin(), a.high.end(), negative)) {
    return {};
  }
  PadAttributes rest;
  for (std::size_t d = 0; d < a.low.size(); ++d) {
    if (r.is_reduced(d)) continue;
    rest.low.push_back(a.low[d]);
    rest.high.push_back(a.high[d]);
    rest.interior.push_back(a.interior[d]);
  }
  const Value inner = r.graph.reduce(r.kind(), r.graph.operand(r.x()), r.reduced());
  const auto zero = [](std::int64_t width) { return width == 0; };
  const bool done = std::all_of(rest.low.begin(), rest.low.end(), zero) &&
                    std::all_of(rest.high.begin(), rest.high.end(), zero) &&
                    std::all_of(rest.interior.begin(), rest.interior.end(), zero);
  return done ? inner : r.graph.add(Op::pad, {inner, fill}, rest);
}

/// Σ_j select(j == i, v, 0) with i and v constant along j.
Replacement of_one_hot(const Reduction& r) {
  auto& g = r.graph;
  const Value condition = g.operand(r.x(), 0), yes = g.operand(r.x(), 1);
  if (r.reduced().size() != 1 || !is_splat_of(g, g.operand(r.x(), 2), 0)) return {};
  if (!g.is(condition, Op::compare) || g.node(condition).as<CompareAttributes>().direction != Comparison::eq) return {};
  const std::int64_t axis = r.reduced()[0];
  for (const std::size_t side : {0, 1}) {
    const Value position = g.operand(condition, side), index = g.operand(condition, 1 - side);
    if (!g.is(position, Op::broadcast) || !g.is(g.operand(position), Op::iota)) continue;
    if (g.node(position).as<BroadcastAttributes>().mapping != Dims{axis}) continue;
    const auto small_index = along_kept(g, index, r.reduced()), small_yes = along_kept(g, yes, r.reduced());
    if (!small_index || !small_yes) continue;
    const TensorType type = g.type(*small_index);
    if (!is_integer(type.dtype)) continue;
    const auto bound = [&](std::int64_t value) {
      return g.broadcast(g.scalar_integer(type.dtype, value), type.dims, {});
    };
    const std::int64_t length = g.dims(r.x())[axis];
    if (!counts_exactly(type.dtype, length + 1)) continue;  // the bound below is the length
    Value inside = g.compare(Comparison::lt, *small_index, bound(length));
    if (is_signed_integer(type.dtype)) {
      inside = g.binary(Op::bit_and, g.compare(Comparison::ge, *small_index, bound(0)), inside);
    }
    return g.select(inside, *small_yes, g.filled(r.node.type(), 0));
  }
  return {};
}

Replacement structural(const Reduction& r) {
  switch (r.graph.node(r.x()).op) {
    case Op::broadcast: return of_broadcast(r);
    case Op::reduce: return of_reduce(r);
    case Op::reshape: return of_reshape(r);
    case Op::transpose: return of_transpose(r);
    case Op::concatenate: return of_concatenate(r);
    case Op::pad: return of_pad(r);
    case Op::select: return r.kind() == ReduceKind::sum ? of_one_hot(r) : Replacement();
    default: return {};
  }
}

Replacement reductions_rule(Rewriter& graph, const Node& node, bool reassociate) {
  if (node.op != Op::reduce) return {};
  const Reduction r{graph, node};
  if (r.reduced().empty()) return r.x();
  if (graph.type(r.x()).elements() == 0) return identity(graph, node.type(), r.kind());
  const Dims& dims = graph.dims(r.x());
  if (std::all_of(r.reduced().begin(), r.reduced().end(), [&](std::int64_t d) { return dims[d] == 1; })) {
    return graph.reshape(r.x(), node.type().dims);
  }
  if (Replacement replacement = structural(r)) return replacement;
  const bool roomy = node.type().dtype != DType::f16 && byte_size(node.type().dtype) > 1;
  if (r.kind() == ReduceKind::sum && reassociate && roomy) return factored_sum(graph, node);
  return {};
}

}  // namespace

Result<int> simplify_reductions(Graph& graph, const PassContext& context) {
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) {
    return reductions_rule(rewriter, node, context.reassociate);
  });
}

}  // namespace stitch::graph
