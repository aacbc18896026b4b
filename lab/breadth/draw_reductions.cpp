#include <algorithm>

#include "graph/sorting.h"
#include "lab/breadth/draw_steps.h"

namespace stitch::lab {
namespace {

using graph::Dims;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

std::optional<Value> reducible(GraphDraft& draft) {
  return draft.find([&](Value v) { return draft.rank(v) >= 1; });
}

std::optional<Value> numbers(GraphDraft& draft) {
  return draft.find([&](Value v) { return draft.rank(v) >= 1 && !draft.is_pred(v); });
}

ReduceKind kind_for(GraphDraft& draft, DType dtype) {
  std::vector<ReduceKind> kinds = {ReduceKind::max, ReduceKind::min};
  if (dtype != DType::pred) kinds.insert(kinds.end(), {ReduceKind::sum, ReduceKind::sum, ReduceKind::sum});
  if (dtype != DType::pred) kinds.push_back(ReduceKind::product);
  if (!graph::is_floating(dtype))
    kinds.insert(kinds.end(), {ReduceKind::bit_and, ReduceKind::bit_or, ReduceKind::bit_xor});
  return draft.of(kinds);
}

/// Rows, columns or some dimensions.
Dims reduced_dimensions(GraphDraft& draft, std::int64_t rank) {
  switch (draft.below(3)) {
    case 0: return {rank - 1};
    case 1: return {draft.below(rank)};
    default: return draft.some_of(rank);
  }
}

Dims others(std::int64_t rank, const Dims& dimensions) {
  Dims rest;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (std::ranges::count(dimensions, d) == 0) rest.push_back(d);
  }
  return rest;
}

/// Whether what is left when `dimensions` are reduced is small enough: of an empty tensor it may be larger than that.
bool leaves_little(const GraphDraft& draft, Value x, const Dims& dimensions) {
  std::int64_t elements = 1;
  for (const std::int64_t d : others(draft.rank(x), dimensions)) elements *= draft.type(x).dims[d];
  return draft.fits(elements);
}

}  // namespace

void draw_reduce(GraphDraft& draft) {
  const auto x = reducible(draft);
  if (!x) return;
  const Dims dimensions = reduced_dimensions(draft, draft.rank(*x));
  if (!leaves_little(draft, *x, dimensions)) return;
  draft.note(draft.builder().reduce(kind_for(draft, draft.type(*x).dtype), *x, dimensions));
}

void draw_normalisation(GraphDraft& draft) {
  const auto x = draft.find([&](Value v) { return draft.rank(v) >= 1 && graph::is_floating(draft.type(v).dtype); });
  if (!x) return;
  graph::Builder& b = draft.builder();
  const graph::TensorType type = draft.type(*x);
  const Dims dimensions = reduced_dimensions(draft, type.rank());
  if (!leaves_little(draft, *x, dimensions)) return;
  const auto spread = [&](Value rows) { return b.broadcast(rows, type.dims, others(type.rank(), dimensions)); };
  const Value centred = b.binary(Op::subtract, *x, spread(b.reduce(ReduceKind::max, *x, dimensions)));
  const Value weights = draft.one_in(2) ? b.unary(Op::exp, centred) : b.binary(Op::multiply, centred, centred);
  const Value sum = b.reduce(ReduceKind::sum, weights, dimensions);
  const Value one = b.filled(type.dtype, draft.type(sum).dims, 1);
  const Value scale = draft.one_in(2) ? sum : b.unary(Op::sqrt, b.binary(Op::add, sum, one));
  if (draft.one_in(3)) draft.note(sum);
  draft.note(b.binary(Op::divide, draft.one_in(2) ? weights : centred, spread(scale)));
}

void draw_arg_reduce(GraphDraft& draft) {
  const auto x = numbers(draft);
  if (!x) return;
  graph::ArgReduceAttributes a;
  a.kind = draft.one_in(2) ? ReduceKind::max : ReduceKind::min;
  a.dimension = draft.below(draft.rank(*x));
  a.index_dtype = draft.one_in(2) ? DType::s32 : DType::s64;
  a.last = draft.one_in(2);
  if (draft.type(*x).dims[static_cast<std::size_t>(a.dimension)] == 0) return;
  const Value both = draft.builder().add(Op::arg_reduce, {*x}, a);
  if (draft.failed()) return;
  draft.note(both);
  draft.note({both.node, 1});
}

void draw_max_exp_sum(GraphDraft& draft) {
  const auto x = draft.find([&](Value v) {
    const graph::DType dtype = draft.type(v).dtype;
    return draft.rank(v) >= 1 && (dtype == DType::f32 || dtype == DType::f64);
  });
  if (!x) return;
  const graph::TensorType type = draft.type(*x);
  const Dims dimensions = reduced_dimensions(draft, type.rank());
  if (std::ranges::any_of(dimensions, [&](std::int64_t d) { return type.dims[d] == 0; })) return;
  const Value both = draft.builder().add(Op::max_exp_sum, {*x}, graph::MaxExpSumAttributes{dimensions});
  if (draft.failed()) return;
  draft.note(both);
  draft.note({both.node, 1});
}

void draw_sort(GraphDraft& draft) {
  const auto x = draft.find([&](Value v) { return draft.rank(v) >= 1; });
  if (!x) return;
  const graph::TensorType type = draft.type(*x);
  graph::SortAttributes a;
  a.dimension = draft.below(draft.rank(*x));
  a.descending = draft.one_in(2);
  const std::int64_t length = type.dims[static_cast<std::size_t>(a.dimension)];
  if (length == 0 || length > graph::longest_sorted_line(type.dtype)) return;
  a.count = draft.one_in(2) ? length : draft.between(1, std::min<std::int64_t>(length, 20));
  std::vector<Value> operands = {*x};
  if (draft.one_in(2)) operands.push_back(draft.builder().iota(DType::s32, type.dims, a.dimension));
  const auto along = draft.find([&](Value v) { return draft.type(v).dims == type.dims; });
  if (along && draft.one_in(3)) operands.push_back(*along);
  const Value sorted = draft.builder().add(Op::sort, operands, a);
  if (draft.failed()) return;
  for (std::size_t r = 0; r < operands.size(); ++r) draft.note({sorted.node, static_cast<std::int32_t>(r)});
}

void draw_scan(GraphDraft& draft) {
  const auto x = reducible(draft);
  if (!x) return;
  graph::ScanAttributes a;
  a.kind = kind_for(draft, draft.type(*x).dtype);
  a.dimension = draft.below(draft.rank(*x));
  a.reverse = draft.one_in(2);
  a.exclusive = draft.one_in(2);
  draft.note(draft.builder().add(Op::scan, {*x}, a));
}

void draw_reduce_window(GraphDraft& draft) {
  const auto x = reducible(draft);
  if (!x) return;
  graph::ReduceWindowAttributes a;
  a.kind = kind_for(draft, draft.type(*x).dtype);
  for (const std::int64_t extent : draft.type(*x).dims) {
    const bool touched = draft.one_in(2) && extent > 0;
    a.sizes.push_back(touched ? draft.between(1, std::min<std::int64_t>(extent, 4)) : 1);
    a.strides.push_back(touched ? draft.between(1, 2) : 1);
    a.low.push_back(touched ? draft.between(0, 2) : 0);
    a.high.push_back(touched ? draft.between(0, 2) : 0);
    a.base_dilation.push_back(touched && draft.one_in(4) ? 2 : 1);
    a.window_dilation.push_back(touched && draft.one_in(4) ? 2 : 1);
  }
  const Value y = draft.builder().add(Op::reduce_window, {*x}, a);
  if (!draft.failed() && draft.fits(draft.type(y).elements())) draft.note(y);
}

void draw_select_and_scatter(GraphDraft& draft) {
  const auto x =
      draft.find([&](Value v) { return draft.rank(v) >= 1 && !draft.is_pred(v) && draft.type(v).elements() > 0; });
  if (!x) return;
  graph::SelectAndScatterAttributes a;
  a.select = draft.one_in(2) ? ReduceKind::max : ReduceKind::min;
  Dims windows;
  for (const std::int64_t extent : draft.type(*x).dims) {
    const bool touched = draft.one_in(2);
    a.sizes.push_back(touched ? draft.between(1, std::min<std::int64_t>(extent, 3)) : 1);
    a.strides.push_back(touched ? draft.between(1, 3) : 1);
    a.low.push_back(touched ? draft.between(0, a.sizes.back() - 1) : 0);
    a.high.push_back(touched ? draft.between(0, a.sizes.back() - 1) : 0);
    windows.push_back((extent + a.low.back() + a.high.back() - a.sizes.back()) / a.strides.back() + 1);
  }
  const Value source = draft.of_type({draft.type(*x).dtype, windows});
  draft.note(draft.builder().add(Op::select_and_scatter, {*x, source}, a));
}

}  // namespace stitch::lab
