#include <algorithm>

#include "lab/breadth/draw_steps.h"

namespace stitch::lab {
namespace {

using graph::Dims;
using graph::Op;
using graph::ReduceKind;
using graph::TensorType;
using graph::Value;

std::optional<Value> indexable(GraphDraft& draft) {
  return draft.find([&](Value v) { return draft.rank(v) >= 1 && draft.type(v).elements() > 0; });
}

/// Starts for a window of these sizes.
void add_starts(GraphDraft& draft, const Dims& dims, const Dims& sizes, std::vector<Value>& operands) {
  for (std::size_t d = 0; d < dims.size(); ++d) operands.push_back(draft.place(dims[d] - sizes[d]));
}

Dims window_of(GraphDraft& draft, const Dims& dims) {
  Dims sizes;
  for (const std::int64_t extent : dims) sizes.push_back(draft.one_in(2) ? extent : draft.between(1, extent));
  return sizes;
}

/// Where windows are placed: the dimensions that indices tell the start of, in any order, and the indices' shape
/// without the dimension of their components.
struct Placement {
  Dims indexed;  ///< dimensions of the tensor
  Dims batch;    ///< shape of the indices
  std::int64_t component_dimension = 0;
  Value indices;
};

Placement place_windows(GraphDraft& draft, const Dims& dims) {
  Placement placement;
  const Dims order = draft.permutation(std::ssize(dims));
  const std::int64_t count = draft.one_in(2) ? 1 : draft.between(1, std::min<std::int64_t>(2, std::ssize(dims)));
  placement.indexed.assign(order.begin(), order.begin() + count);
  for (std::int64_t d = draft.between(0, 2); d > 0; --d)
    placement.batch.push_back(draft.one_in(2) ? draft.between(1, 5) : std::min<std::int64_t>(draft.extent(), 40));
  Dims shape = placement.batch;
  placement.component_dimension = std::ssize(shape);
  if (count > 1 || draft.one_in(3)) {
    placement.component_dimension = draft.between(0, std::ssize(shape));
    shape.insert(shape.begin() + placement.component_dimension, count);
  }
  std::int64_t most = 0;
  for (const std::int64_t d : placement.indexed) most = std::max(most, dims[static_cast<std::size_t>(d)]);
  placement.indices = draft.places(shape, most);
  return placement;
}

ReduceKind combiner(GraphDraft& draft, graph::DType dtype) {
  std::vector<ReduceKind> kinds = {ReduceKind::max, ReduceKind::min, ReduceKind::replace, ReduceKind::replace};
  if (dtype != graph::DType::pred) kinds.insert(kinds.end(), {ReduceKind::sum, ReduceKind::sum, ReduceKind::product});
  if (!graph::is_floating(dtype))
    kinds.insert(kinds.end(), {ReduceKind::bit_and, ReduceKind::bit_or, ReduceKind::bit_xor});
  return draft.of(kinds);
}

}  // namespace

void draw_dynamic_slice(GraphDraft& draft) {
  const auto x = indexable(draft);
  if (!x) return;
  const Dims dims = draft.type(*x).dims, sizes = window_of(draft, dims);
  std::vector<Value> operands = {*x};
  add_starts(draft, dims, sizes, operands);
  draft.note(draft.builder().add(Op::dynamic_slice, operands, graph::DynamicSliceAttributes{sizes}));
}

void draw_dynamic_update_slice(GraphDraft& draft) {
  const auto x = indexable(draft);
  if (!x) return;
  const Dims dims = draft.type(*x).dims, sizes = window_of(draft, dims);
  std::vector<Value> operands = {*x, draft.of_type({draft.type(*x).dtype, sizes})};
  add_starts(draft, dims, sizes, operands);
  draft.note(draft.builder().add(Op::dynamic_update_slice, operands, graph::UpdateAttributes{}));
}

void draw_gather(GraphDraft& draft) {
  const auto x = indexable(draft);
  if (!x) return;
  const Dims dims = draft.type(*x).dims;
  const Placement placement = place_windows(draft, dims);
  graph::GatherAttributes a;
  a.slice_sizes = dims;
  for (const std::int64_t d : placement.indexed) {
    const std::int64_t extent = dims[static_cast<std::size_t>(d)];
    const bool collapsed = !draft.one_in(3);
    a.slice_sizes[static_cast<std::size_t>(d)] = collapsed ? 1 : draft.between(1, extent);
    if (collapsed) a.collapsed_slice_dims.push_back(d);
  }
  std::ranges::sort(a.collapsed_slice_dims);
  a.start_index_map = placement.indexed;
  a.index_vector_dim = placement.component_dimension;
  if (!draft.fits(graph::element_count(a.slice_sizes) * graph::element_count(placement.batch))) return;
  // Window dimensions stand behind, before or between those of the indices.
  const std::int64_t windows = std::ssize(dims) - std::ssize(a.collapsed_slice_dims);
  const std::int64_t shift = draft.one_in(2) ? 0 : draft.between(0, std::ssize(placement.batch));
  for (std::int64_t d = 0; d < windows; ++d) a.offset_dims.push_back(d + shift);
  draft.note(draft.builder().add(Op::gather, {*x, placement.indices}, a));
}

void draw_scatter(GraphDraft& draft) {
  const auto x = indexable(draft);
  if (!x) return;
  const TensorType type = draft.type(*x);
  const Placement placement = place_windows(draft, type.dims);
  graph::ScatterAttributes a;
  Dims window;
  for (std::int64_t d = 0; d < type.rank(); ++d) {
    const std::int64_t extent = type.dims[static_cast<std::size_t>(d)];
    const bool indexed = std::ranges::count(placement.indexed, d) != 0;
    if (indexed && !draft.one_in(3)) {
      a.inserted_window_dims.push_back(d);
    } else {
      window.push_back(indexed ? draft.between(1, extent) : draft.one_in(6) ? draft.between(1, extent) : extent);
    }
  }
  a.scatter_dims_to_operand_dims = placement.indexed;
  a.index_vector_dim = placement.component_dimension;
  a.combiner = combiner(draft, type.dtype);
  // Window dimensions stand behind or before those of the indices.
  const bool behind = draft.one_in(2);
  TensorType updates{type.dtype, behind ? placement.batch : window};
  const Dims& rest = behind ? window : placement.batch;
  updates.dims.insert(updates.dims.end(), rest.begin(), rest.end());
  const std::int64_t first = behind ? std::ssize(placement.batch) : 0;
  for (std::int64_t d = 0; d < std::ssize(window); ++d) a.update_window_dims.push_back(first + d);
  if (!draft.fits(updates.elements())) return;
  draft.note(draft.builder().add(Op::scatter, {*x, placement.indices, draft.of_type(updates)}, a));
}

}  // namespace stitch::lab
