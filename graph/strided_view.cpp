#include "graph/strided_view.h"

#include <algorithm>

namespace stitch::graph {
namespace {

using Digit = StridedView::Digit;
using Digits = std::vector<Digit>;

Digits without_ones(const Digits& digits) {
  Digits kept;
  for (const Digit& digit : digits) {
    if (digit.extent != 1) kept.push_back(digit);
  }
  return kept;
}

/// Regroups the digits of a row-major index into dimensions of the given extents, splitting digits where needed.
std::optional<std::vector<Digits>> regroup(const std::vector<Digits>& from, const Dims& to) {
  Digits all;
  for (const Digits& dimension : from) {
    const Digits kept = without_ones(dimension);
    all.insert(all.end(), kept.begin(), kept.end());
  }
  std::vector<Digits> out(to.size());
  for (std::size_t d = to.size(); d-- > 0;) {
    std::int64_t left = to[d];
    while (left > 1) {
      if (all.empty()) return std::nullopt;
      Digit& last = all.back();
      if (last.extent <= left) {
        if (left % last.extent != 0) return std::nullopt;
        out[d].insert(out[d].begin(), last);
        left /= last.extent;
        all.pop_back();
      } else {
        if (last.extent % left != 0) return std::nullopt;
        out[d].insert(out[d].begin(), {left, last.stride});
        last = {last.extent / left, last.stride * left};
        left = 1;
      }
    }
  }
  return all.empty() ? std::optional(out) : std::nullopt;
}

}  // namespace

StridedView StridedView::of(const Graph& graph, Value source) {
  StridedView view{source, 0, {}};
  const Dims& dims = graph.type(source).dims;
  const Dims strides = row_major_strides(dims);
  for (std::size_t d = 0; d < dims.size(); ++d) view.dims.push_back({{dims[d], strides[d]}});
  return view;
}

std::optional<StridedView> apply_layout(const StridedView& view, const Node& node) {
  StridedView out = view;
  switch (node.op) {
    case Op::transpose: {
      const auto& permutation = node.as<TransposeAttributes>().permutation;
      for (std::size_t d = 0; d < permutation.size(); ++d) out.dims[d] = view.dims[permutation[d]];
      return out;
    }
    case Op::reshape: {
      auto dims = regroup(view.dims, node.as<ReshapeAttributes>().dims);
      if (!dims) return std::nullopt;
      out.dims = std::move(*dims);
      return out;
    }
    case Op::broadcast: {
      const auto& a = node.as<BroadcastAttributes>();
      out.dims.assign(a.dims.size(), {});
      for (std::size_t d = 0; d < a.dims.size(); ++d) out.dims[d] = {{a.dims[d], 0}};
      for (std::size_t i = 0; i < a.mapping.size(); ++i) out.dims[a.mapping[i]] = view.dims[i];
      return out;
    }
    case Op::slice: {
      const auto& a = node.as<SliceAttributes>();
      for (std::size_t d = 0; d < a.starts.size(); ++d) {
        std::int64_t extent = 1;
        for (const Digit& digit : view.dims[d]) extent *= digit.extent;
        if (a.starts[d] == 0 && a.limits[d] == extent && a.strides[d] == 1) continue;
        const Digits digits = without_ones(view.dims[d]);
        if (digits.size() != 1 || a.strides[d] != 1) return std::nullopt;
        out.offset += a.starts[d] * digits[0].stride;
        out.dims[d] = {{a.limits[d] - a.starts[d], digits[0].stride}};
      }
      return out;
    }
    default: return std::nullopt;
  }
}

Value without_reshapes(const Graph& graph, Value value) {
  while (graph.node(value.node).op == Op::reshape) value = graph.node(value.node).operands[0];
  return value;
}

StridedView view_of(const Graph& graph, Value value) {
  std::vector<NodeId> chain;
  Value source = value;
  while (true) {
    const Op op = graph.node(source.node).op;
    if (op != Op::transpose && op != Op::reshape && op != Op::broadcast && op != Op::slice) break;
    chain.push_back(source.node);
    source = graph.node(source.node).operands[0];
  }
  // The longest tail of the chain that strides describe: try from the source, else start further along.
  for (std::size_t skip = 0; skip <= chain.size(); ++skip) {
    const std::size_t start = chain.size() - skip;
    StridedView view = StridedView::of(graph, start == chain.size() ? source : Value{chain[start], 0});
    bool described = true;
    for (std::size_t i = start; i-- > 0 && described;) {
      std::optional<StridedView> next = apply_layout(view, graph.node(chain[i]));
      described = next.has_value();
      if (described) view = std::move(*next);
    }
    if (described) return view;
  }
  return StridedView::of(graph, value);
}

Digits collapsed(const Digits& digits) {
  Digits out;
  for (const Digit& digit : without_ones(digits)) {
    if (!out.empty() && out.back().stride == digit.stride * digit.extent) {
      out.back() = {out.back().extent * digit.extent, digit.stride};
    } else {
      out.push_back(digit);
    }
  }
  return out;
}

}  // namespace stitch::graph
