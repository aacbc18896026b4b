#include "kernel/structure/window_items.h"

#include <algorithm>

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;

/// A window's elements are each an item: with more, a kernel is code that takes minutes to compile.
constexpr std::int64_t max_unrolled_window = 128;

/// Whether `x` is more extreme than `than`; NaN is, except than NaN.
ItemId more_extreme(OperandItems& program, ItemId x, ItemId than, graph::ReduceKind kind) {
  const bool largest = kind == graph::ReduceKind::max;
  if (!graph::is_floating(program.at(x).dtype))
    return program.compare(largest ? graph::Comparison::gt : graph::Comparison::lt, x, than);
  const ItemId holds = program.compare(largest ? graph::Comparison::ge : graph::Comparison::le, than, x);
  return program.both(program.compute(Op::bit_not, {}, DType::pred, {holds}),
                      program.compare(graph::Comparison::eq, than, than));
}

}  // namespace

Result<ItemId> window_item(OperandItems& program, const Node& node, Value value, const std::vector<Index>& indices,
                           ItemId guard) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const auto& a = node.as<graph::ReduceWindowAttributes>();
  const Dims& extents = graph.type(node.operands[0]).dims;
  if (graph::element_count(a.sizes) > max_unrolled_window) {
    return make_error(ErrorKind::constraint, "window of {} elements in '{}' is too large to unroll",
                      graph::element_count(a.sizes), node.name);
  }
  const DType dtype = node.type().dtype;
  ItemId total = -1;
  for (std::int64_t w = 0; w < graph::element_count(a.sizes); ++w) {
    std::vector<Index> inner;
    ItemId inside = -1;
    std::int64_t rest = w;
    for (std::size_t d = indices.size(); d-- > 0;) {
      const std::int64_t offset = rest % a.sizes[d] * a.window_dilation[d] - a.low[d];
      rest /= a.sizes[d];
      Index index = pool.offset(pool.scale(indices[d], a.strides[d]), offset);
      const std::int64_t step = a.base_dilation[d], end = (extents[d] - 1) * step + 1;
      if (pool.low(index) < 0 || pool.high(index) >= end)
        inside = program.both(inside, program.in_range(index, 0, end));
      if (step > 1) {
        const std::int64_t lift = (a.low[d] + step - 1) / step;
        const Index shifted = pool.offset(index, lift * step);
        inside = program.both(inside, program.in_range(pool.remainder(shifted, step), 0, 1));
        index = pool.offset(pool.divide(shifted, step), -lift);
      }
      inner.insert(inner.begin(), index);
    }
    STITCH_ASSIGN(ItemId element, program.item(node.operands[0], inner, program.both(guard, inside)));
    if (inside >= 0)
      element = program.compute(Op::select, value, dtype, {inside, element, program.identity(a.kind, value, dtype)});
    if (total < 0) {
      total = element;
      continue;
    }
    total = program.combine(a.kind, value, dtype, total, element);
  }
  return total;
}

/// Gather form: the element at `indices` collects from every window that covers it the source whose selected element
/// it is. A window selects the first of its extreme elements in row-major order, NaN being more extreme than any
/// number, so this element is selected when it is more extreme than all earlier ones and no later one is more extreme.
Result<ItemId> selected_item(OperandItems& program, const Node& node, Value value, const std::vector<Index>& indices,
                             ItemId guard) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const auto& a = node.as<graph::SelectAndScatterAttributes>();
  const Dims& extents = graph.type(node.operands[0]).dims;
  const Dims& windows = graph.type(node.operands[1]).dims;
  const std::int64_t size = graph::element_count(a.sizes);
  if (size * size > 4 * max_unrolled_window) {
    return make_error(ErrorKind::constraint, "window of {} elements in '{}' is too large to unroll", size, node.name);
  }
  const DType dtype = node.type().dtype;
  STITCH_ASSIGN(const ItemId own, program.item(node.operands[0], indices, guard));
  ItemId total = -1;
  for (std::int64_t place = 0; place < size; ++place) {  // where this element stands in the window
    std::vector<Index> window(indices.size()), first(indices.size());
    ItemId covered = -1;
    std::int64_t rest = place;
    for (std::size_t d = indices.size(); d-- > 0;) {
      const std::int64_t offset = rest % a.sizes[d];
      rest /= a.sizes[d];
      // The window starts at stride·w - low and this element is `offset` further: w = (index + low - offset)/stride.
      const Index start = pool.offset(indices[d], a.low[d] - offset);
      const std::int64_t lift = (a.sizes[d] + a.strides[d] - 1) / a.strides[d];
      const Index lifted = pool.offset(start, lift * a.strides[d]);
      if (a.strides[d] > 1)
        covered = program.both(covered, program.in_range(pool.remainder(lifted, a.strides[d]), 0, 1));
      window[d] = pool.offset(pool.divide(lifted, a.strides[d]), -lift);
      if (pool.low(window[d]) < 0 || pool.high(window[d]) >= windows[d])
        covered = program.both(covered, program.in_range(window[d], 0, windows[d]));
      first[d] = pool.offset(indices[d], -offset);
    }
    ItemId selected = covered;
    for (std::int64_t other = 0; other < size; ++other) {
      if (other == place) continue;
      std::vector<Index> inner(indices.size());
      ItemId inside = -1;
      rest = other;
      for (std::size_t d = indices.size(); d-- > 0;) {
        inner[d] = pool.offset(first[d], rest % a.sizes[d]);
        rest /= a.sizes[d];
        if (pool.low(inner[d]) < 0 || pool.high(inner[d]) >= extents[d])
          inside = program.both(inside, program.in_range(inner[d], 0, extents[d]));
      }
      STITCH_ASSIGN(const ItemId rival,
                    program.item(node.operands[0], inner, program.both(guard, program.both(covered, inside))));
      ItemId better =
          other < place ? more_extreme(program, own, rival, a.select)
                        : program.compute(Op::bit_not, {}, DType::pred, {more_extreme(program, rival, own, a.select)});
      if (inside >= 0) {
        const ItemId outside = program.compute(Op::bit_not, {}, DType::pred, {inside});
        better = program.compute(Op::bit_or, {}, DType::pred, {better, outside});
      }
      selected = program.both(selected, better);
    }
    STITCH_ASSIGN(const ItemId source, program.item(node.operands[1], window, program.both(guard, covered)));
    const ItemId zero = program.literal(value, dtype, 0);
    const ItemId part = selected < 0 ? source : program.compute(Op::select, value, dtype, {selected, source, zero});
    total = total < 0 ? part : program.compute(Op::add, value, dtype, {total, part});
  }
  return total;
}

}  // namespace stitch::kernel
