#include "graph/passes/slices.h"

#include <algorithm>

#include "graph/infer_checks.h"
#include "graph/passes/concatenations.h"
#include "graph/passes/dim_groups.h"
#include "graph/passes/rewriter.h"
#include "graph/passes/splat.h"

namespace stitch::graph {
namespace {

/// One slice, with the extents of its result.
struct Slicing {
  Rewriter& graph;
  const Node& node;

  [[nodiscard]] Value x() const { return node.operands[0]; }
  [[nodiscard]] const SliceAttributes& a() const { return node.as<SliceAttributes>(); }
  [[nodiscard]] const Dims& result() const { return node.type().dims; }
  [[nodiscard]] std::size_t rank() const { return result().size(); }
  /// One past the last element taken along d.
  [[nodiscard]] std::int64_t end(std::size_t d) const {
    return result()[d] == 0 ? a().starts[d] : a().starts[d] + (result()[d] - 1) * a().strides[d] + 1;
  }
  [[nodiscard]] bool whole(std::size_t d) const {
    return a().starts[d] == 0 && a().strides[d] == 1 && result()[d] == graph.dims(x())[d];
  }
};

Replacement of_slice(const Slicing& s) {
  const auto& inner = s.graph.node(s.x()).as<SliceAttributes>();
  SliceAttributes both;
  for (std::size_t d = 0; d < s.rank(); ++d) {
    const std::int64_t taken = s.result()[d];
    const std::int64_t stride = taken > 1 ? inner.strides[d] * s.a().strides[d] : 1;
    const std::int64_t start = taken > 0 ? inner.starts[d] + s.a().starts[d] * inner.strides[d] : 0;
    both.starts.push_back(start);
    both.strides.push_back(stride);
    both.limits.push_back(taken > 0 ? start + (taken - 1) * stride + 1 : start);
  }
  return s.graph.slice(s.graph.operand(s.x()), both.starts, both.limits, both.strides);
}

Replacement of_broadcast(const Slicing& s) {
  const auto& a = s.graph.node(s.x()).as<BroadcastAttributes>();
  SliceAttributes inner;
  for (const std::int64_t d : a.mapping) {
    inner.starts.push_back(s.a().starts[d]);
    inner.limits.push_back(s.a().limits[d]);
    inner.strides.push_back(s.a().strides[d]);
  }
  const Value part = s.graph.slice(s.graph.operand(s.x()), inner.starts, inner.limits, inner.strides);
  return s.graph.broadcast(part, s.result(), a.mapping);
}

Replacement of_concatenate(const Slicing& s) {
  const Node& joined = s.graph.node(s.x());
  const std::size_t along = joined.as<ConcatenateAttributes>().dimension;
  std::vector<Value> parts;
  bool cuts = false;
  for (std::size_t d = 0; d < s.rank(); ++d) cuts = cuts || (d != along && !s.whole(d));
  std::int64_t offset = 0;
  for (const Value& part : joined.operands) {
    const std::int64_t extent = s.graph.dims(part)[along];
    const std::int64_t from = std::max(s.a().starts[along], offset), to = std::min(s.end(along), offset + extent);
    const bool inside = from == s.a().starts[along] && to == s.end(along);
    if (from < to && s.a().strides[along] != 1 && !inside) return {};
    if (from < to) {
      SliceAttributes inner = s.a();
      inner.starts[along] = from - offset;
      inner.limits[along] = to - offset;
      cuts = cuts || to - from < extent;
      parts.push_back(s.graph.slice(part, inner.starts, inner.limits, inner.strides));
    }
    offset += extent;
  }
  // Cutting through several parts takes more slices and a concatenation of its own.
  if (parts.empty() || (parts.size() > 1 && cuts && s.graph.uses(s.x()) > 1)) return {};
  return s.graph.concatenate(std::move(parts), along);
}

Replacement of_pad(const Slicing& s) {
  const Value source = s.graph.operand(s.x()), fill = s.graph.operand(s.x(), 1);
  const auto& pad = s.graph.node(s.x()).as<PadAttributes>();
  const Dims& extents = s.graph.dims(source);
  SliceAttributes inner = s.a();
  for (std::size_t d = 0; d < s.rank(); ++d) {
    if (s.result()[d] > 0 && (s.end(d) <= pad.low[d] || s.a().starts[d] >= pad.low[d] + extents[d]) &&
        pad.interior[d] == 0 && extents[d] > 0) {
      return s.graph.broadcast(fill, s.result(), {});
    }
  }
  for (std::size_t d = 0; d < s.rank(); ++d) {
    if (s.whole(d) && pad.low[d] == 0 && pad.high[d] == 0 && pad.interior[d] == 0) continue;
    if (pad.interior[d] != 0 || s.a().starts[d] < pad.low[d] || s.end(d) > pad.low[d] + extents[d]) return {};
    inner.starts[d] -= pad.low[d];
    inner.limits[d] = s.end(d) - pad.low[d];
  }
  return s.graph.slice(source, inner.starts, inner.limits, inner.strides);
}

/// A slice below a reshape is one above it when every sliced dimension is untouched by the reshape, or the outermost of
/// those that one dimension was split into.
Replacement of_reshape(const Slicing& s) {
  const Value source = s.graph.operand(s.x());
  const Dims above = without_units(s.graph.dims(source));
  const Dims& below = s.graph.dims(s.x());
  if (above == below) return {};  // a reshape that takes extents of 1 out stays above
  const auto groups = dim_groups(above, below);
  if (!groups) return {};
  SliceAttributes inner{Dims(above.size(), 0), above, Dims(above.size(), 1)};
  for (const DimGroup& group : *groups) {
    std::int64_t width = 1;  // elements of the source dimension per element of the outermost one below
    for (int d = group.to_begin; d < group.to_end; ++d) {
      if (d > group.to_begin && !s.whole(d)) return {};
      if (d > group.to_begin) width *= below[d];
    }
    if (group.to_begin == group.to_end || s.whole(group.to_begin)) continue;
    const std::size_t outer = group.to_begin;
    const std::size_t d = group.from_begin;
    if (group.from_end - group.from_begin != 1 || (width > 1 && s.a().strides[outer] != 1)) return {};
    inner.starts[d] = s.a().starts[outer] * width;
    inner.limits[d] = s.end(outer) * width;
    inner.strides[d] = width > 1 ? 1 : s.a().strides[outer];
  }
  const Value part = s.graph.slice(s.graph.reshape(source, above), inner.starts, inner.limits, inner.strides);
  return s.graph.reshape(part, s.result());
}

Replacement of_transpose(const Slicing& s) {
  const Dims& permutation = s.graph.node(s.x()).as<TransposeAttributes>().permutation;
  SliceAttributes inner{Dims(s.rank()), Dims(s.rank()), Dims(s.rank())};
  for (std::size_t d = 0; d < s.rank(); ++d) {
    inner.starts[permutation[d]] = s.a().starts[d];
    inner.limits[permutation[d]] = s.a().limits[d];
    inner.strides[permutation[d]] = s.a().strides[d];
  }
  const Value part = s.graph.slice(s.graph.operand(s.x()), inner.starts, inner.limits, inner.strides);
  return s.graph.transpose(part, permutation);
}

Replacement of_iota(const Slicing& s) {
  const TensorType& type = s.node.type();
  if (s.rank() != 1) return {};
  // Beyond, indices are rounded, and a rounded start added to a rounded distance is another number.
  if (is_floating(type.dtype) && s.end(0) > std::int64_t{2} << info(type.dtype).mantissa_bits) return {};
  const auto splat = [&](std::int64_t value) {
    if (is_floating(type.dtype)) return s.graph.filled(type, value);
    return s.graph.broadcast(s.graph.scalar_integer(type.dtype, value), type.dims, {});
  };
  const Value index = s.graph.add(Op::iota, {}, IotaAttributes{type, 0});
  const Value scaled = s.a().strides[0] == 1 ? index : s.graph.binary(Op::multiply, index, splat(s.a().strides[0]));
  return s.a().starts[0] == 0 ? scaled : s.graph.binary(Op::add, scaled, splat(s.a().starts[0]));
}

Replacement of_elementwise(const Slicing& s) {
  const Node& inner = s.graph.node(s.x());
  if (s.graph.uses(s.x()) != 1 || inner.results.size() != 1) return {};
  std::vector<Value> operands;
  for (const Value& operand : inner.operands) {
    operands.push_back(s.graph.slice(operand, s.a().starts, s.a().limits, s.a().strides));
  }
  return s.graph.add(inner.op, operands, inner.attributes);
}

/// A limit right behind the last element that is taken, so that equal slices look equal.
Replacement tight(const Slicing& s) {
  Dims limits;
  for (std::size_t d = 0; d < s.rank(); ++d) limits.push_back(s.end(d));
  if (limits == s.a().limits) return {};
  return s.graph.slice(s.x(), s.a().starts, std::move(limits), s.a().strides);
}

Replacement slice(Rewriter& graph, const Node& node) {
  const Slicing s{graph, node};
  const Op op = graph.node(s.x()).op;
  if (s.result() == graph.dims(s.x())) return s.x();
  if (const Replacement tightened = tight(s)) return tightened;
  if (is_elementwise(op)) return of_elementwise(s);
  switch (op) {
    case Op::slice: return of_slice(s);
    case Op::broadcast: return of_broadcast(s);
    case Op::concatenate: return of_concatenate(s);
    case Op::pad: return of_pad(s);
    case Op::reshape: return of_reshape(s);
    case Op::transpose: return of_transpose(s);
    case Op::iota: return of_iota(s);
    default: return {};
  }
}

Replacement pad(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0], fill = node.operands[1];
  const auto& a = node.as<PadAttributes>();
  const Dims& extents = graph.dims(x);
  if (node.type().elements() == 0) return {};
  if (graph.type(x).elements() == 0) return graph.broadcast(fill, node.type().dims, {});
  const auto none = [](const Dims& widths) {
    return std::all_of(widths.begin(), widths.end(), [](auto w) { return w == 0; });
  };
  if (none(a.interior)) {
    if (none(a.low) && none(a.high)) return x;
    SliceAttributes crop{Dims(extents.size(), 0), extents, Dims(extents.size(), 1)};
    PadAttributes rest = a;
    bool crops = false;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      if (-a.low[d] > extents[d] || -a.high[d] > extents[d]) return {};
      crop.starts[d] = std::max<std::int64_t>(-a.low[d], 0);
      crop.limits[d] = extents[d] - std::max<std::int64_t>(-a.high[d], 0);
      if (crop.starts[d] > crop.limits[d]) return {};
      crops = crops || a.low[d] < 0 || a.high[d] < 0;
      rest.low[d] = std::max<std::int64_t>(a.low[d], 0);
      rest.high[d] = std::max<std::int64_t>(a.high[d], 0);
    }
    const Value inner = graph.slice(x, crop.starts, crop.limits, crop.strides);
    if (crops && none(rest.low) && none(rest.high)) return inner;
    if (crops) return graph.add(Op::pad, {inner, fill}, rest);
  }
  const auto *filling = splat_constant(graph, fill), *filled = splat_constant(graph, x);
  if (filling != nullptr && filled != nullptr && filling->data == filled->data) {
    return graph.broadcast(fill, node.type().dims, {});
  }
  if (!graph.is(x, Op::pad) || graph.operand(x, 1) != fill || !none(a.interior)) return {};
  PadAttributes both = graph.node(x).as<PadAttributes>();
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (a.low[d] < 0 || a.high[d] < 0 || both.low[d] < 0 || both.high[d] < 0) return {};
    both.low[d] += a.low[d];
    both.high[d] += a.high[d];
  }
  return graph.add(Op::pad, {graph.operand(x), fill}, both);
}

Replacement reverse(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  const Dims& dimensions = node.as<ReverseAttributes>().dimensions;
  if (dimensions.empty()) return x;
  Dims rest;
  if (graph.is(x, Op::reverse)) {
    const Dims& inner = graph.node(x).as<ReverseAttributes>().dimensions;
    std::set_symmetric_difference(dimensions.begin(), dimensions.end(), inner.begin(), inner.end(),
                                  std::back_inserter(rest));
    if (!std::is_sorted(dimensions.begin(), dimensions.end()) || !std::is_sorted(inner.begin(), inner.end())) return {};
    return rest.empty() ? graph.operand(x) : graph.add(Op::reverse, {graph.operand(x)}, ReverseAttributes{rest});
  }
  if (!graph.is(x, Op::broadcast)) return {};
  const auto& a = graph.node(x).as<BroadcastAttributes>();
  for (std::size_t i = 0; i < a.mapping.size(); ++i) {
    if (contains(dimensions, a.mapping[i])) rest.push_back(i);
  }
  const Value source = graph.operand(x);
  const Value turned = rest.empty() ? source : graph.add(Op::reverse, {source}, ReverseAttributes{rest});
  return graph.broadcast(turned, a.dims, a.mapping);
}

Replacement slices_rule(Rewriter& graph, const Node& node) {
  switch (node.op) {
    case Op::slice: return slice(graph, node);
    case Op::pad: return pad(graph, node);
    case Op::reverse: return reverse(graph, node);
    case Op::concatenate: return concatenation(graph, node);
    case Op::add: return sum_of_pads(graph, node);
    default: return {};
  }
}

}  // namespace

Result<int> simplify_slices(Graph& graph, const PassContext&) { return rewrite(graph, slices_rule); }

}  // namespace stitch::graph
