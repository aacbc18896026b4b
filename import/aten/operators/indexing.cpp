// Gathers and scatters. PyTorch raises an error for an index outside the tensor; a kernel reads the nearest element and
// drops what it would write there.
#include <algorithm>
#include <numeric>

#include "import/aten/rules.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

using graph::GatherAttributes;
using graph::ScatterAttributes;

/// Slices of `x` along one dimension, by indices of any shape, which take the dimension's place.
Value taken(Call& c, Value x, std::int64_t axis, Value indices) {
  GatherAttributes a;
  a.collapsed_slice_dims = a.start_index_map = {axis};
  a.index_vector_dim = c.rank(indices);
  a.slice_sizes = c.b.dims(x);
  if (axis < std::ssize(a.slice_sizes)) a.slice_sizes[axis] = std::min<std::int64_t>(a.slice_sizes[axis], 1);
  for (std::int64_t d = 0; d < c.rank(x); ++d) {
    if (d != axis) a.offset_dims.push_back(d < axis ? d : d - 1 + c.rank(indices));
  }
  return c.b.add(Op::gather, {x, indices}, std::move(a));
}

/// Index vectors [..., rank]: along `axis` the indices, along the others the position itself.
Value coordinates(Call& c, Value indices, std::int64_t axis) {
  const Dims dims = c.b.dims(indices);
  Dims column = dims;
  column.push_back(1);
  Values parts;
  for (std::int64_t d = 0; d < std::ssize(dims); ++d) {
    parts.push_back(c.b.reshape(d == axis ? indices : c.b.iota(c.b.dtype(indices), dims, d), column));
  }
  return parts.size() == 1 ? parts[0] : c.b.concatenate(std::move(parts), std::ssize(dims));
}

/// What x[i, :, j] with tensors i and j means: which dimensions are indexed, by which vectors, and where the shape that
/// the tensors have together stands in the result: in place of neighbouring dimensions, else in front.
struct Indexed {
  Dims axes;      ///< sorted
  Value vectors;  ///< [shape…, number of axes], none negative
  Dims shape;
  std::int64_t place = 0;
};

std::optional<Indexed> indexed(Call& c, Value x) {
  Builder& b = c.b;
  Indexed found;
  Values parts;
  const Values tensors = c.tensors("indices");
  if (std::ssize(tensors) > c.rank(x)) c.wrong("indices", fmt::format("at most {} tensors", c.rank(x)));
  for (std::size_t d = 0; d < tensors.size() && !b.failed(); ++d) {
    if (tensors[d].node < 0) continue;
    if (!graph::is_integer(b.dtype(tensors[d]))) {
      c.unsupported("a mask as an index, whose result's shape depends on its values");
      return std::nullopt;
    }
    found.axes.push_back(d);
    parts.push_back(emit::wrap_indices(b, b.convert(tensors[d], DType::s64), b.dims(x)[d]));
    const Result<Dims> shape = graph::broadcast_shape(found.shape, b.dims(parts.back()));
    if (!shape) {
      b.fail(shape.error());
      return std::nullopt;
    }
    found.shape = *shape;
  }
  if (b.failed() || found.axes.empty()) {
    c.unsupported("no tensor among the indices");
    return std::nullopt;
  }
  Dims column = found.shape;
  column.push_back(1);
  for (Value& part : parts) part = b.reshape(b.broadcast_to(part, found.shape), column);
  found.vectors = parts.size() == 1 ? parts[0] : b.concatenate(std::move(parts), std::ssize(found.shape));
  const bool neighbours = found.axes.back() - found.axes.front() + 1 == std::ssize(found.axes);
  found.place = neighbours ? found.axes.front() : 0;
  return found;
}

/// Where the dimensions that are not indexed stand in the result.
Dims window_places(Call& c, Value x, const Indexed& by) {
  Dims places;
  const std::int64_t shape = std::ssize(by.shape), rest = c.rank(x) - std::ssize(by.axes);
  for (std::int64_t i = 0; i < rest; ++i) places.push_back(i < by.place ? i : i + shape);
  return places;
}

/// Scatter along one dimension of tensors of one rank; `index` may be smaller than `x` in the others.
Value scattered(Call& c, ReduceKind combiner, Value update) {
  Builder& b = c.b;
  const Value x = c.tensor("self");
  const Value index = c.tensor("index");
  const std::int64_t rank = c.rank(x), axis = c.dimension("dim", rank);
  if (rank == 0 || c.rank(index) != rank) {
    c.unsupported("indices of another rank than the tensor");
    return {};
  }
  for (std::int64_t d = 0; d < rank && c.rank(update) == rank; ++d)
    update = emit::slice_axis(b, update, d, 0, b.dims(index)[d]);
  update = b.broadcast_to(update, b.dims(index));
  ScatterAttributes a;
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = emit::first_axes(rank);
  a.index_vector_dim = rank;
  a.combiner = combiner;
  return b.add(Op::scatter, {x, coordinates(c, index, axis), update}, std::move(a));
}

}  // namespace

Values embedding(Call& c) { return {taken(c, c.tensor("weight"), 0, c.tensor("indices"))}; }

Values index_select(Call& c) {
  const Value x = c.tensor("self");
  if (c.b.dims(x).empty()) return c.unsupported("an index into a scalar");
  const Value rows = taken(c, x, c.dimension("dim", c.rank(x)), c.tensor("index"));
  return {c.b.reshape(rows, c.result().dims)};
}

Values gather(Call& c) {
  Builder& b = c.b;
  Value x = c.tensor("self");
  const Value index = c.tensor("index");
  const std::int64_t rank = c.rank(x), axis = c.dimension("dim", rank);
  if (rank == 0 || c.rank(index) != rank) return c.unsupported("indices of another rank than the tensor");
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != axis) x = emit::slice_axis(b, x, d, 0, b.dims(index)[d]);
  }
  GatherAttributes a;
  a.collapsed_slice_dims = a.start_index_map = {axis};
  a.operand_batching_dims = a.start_indices_batching_dims = emit::other_axes(rank, {axis});
  a.index_vector_dim = rank;
  a.slice_sizes.assign(rank, 1);
  return {b.add(Op::gather, {x, index}, std::move(a))};
}

Values index(Call& c) {
  const Value x = c.tensor("self");
  const std::optional<Indexed> by = indexed(c, x);
  if (!by) return {};
  GatherAttributes a;
  a.collapsed_slice_dims = a.start_index_map = by->axes;
  a.offset_dims = window_places(c, x, *by);
  a.index_vector_dim = std::ssize(by->shape);
  a.slice_sizes = c.b.dims(x);
  for (const std::int64_t axis : by->axes) a.slice_sizes[axis] = 1;
  return {c.b.add(Op::gather, {x, by->vectors}, std::move(a))};
}

Values index_put(Call& c) {
  const Value x = c.tensor("self");
  const std::optional<Indexed> by = indexed(c, x);
  if (!by) return {};
  ScatterAttributes a;
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = by->axes;
  a.update_window_dims = window_places(c, x, *by);
  a.index_vector_dim = std::ssize(by->shape);
  a.combiner = c.flag("accumulate", false) ? ReduceKind::sum : ReduceKind::replace;
  Dims dims;  // of what is written
  for (std::int64_t d = 0; d < c.rank(x); ++d) {
    if (!graph::contains(by->axes, d)) dims.push_back(c.b.dims(x)[d]);
  }
  dims.insert(dims.begin() + by->place, by->shape.begin(), by->shape.end());
  const Value values = c.b.broadcast_to(c.operand("values", c.result().dtype), dims);
  return {c.b.add(Op::scatter, {x, by->vectors, values}, std::move(a))};
}

Values scatter(Call& c) {
  return {scattered(c, ReduceKind::replace, c.operand(c.has("src") ? "src" : "value", c.result().dtype))};
}

Values scatter_reduce(Call& c) {
  const std::string by = c.text("reduce");
  if (by == "mean") return c.unsupported("means of what is written to an element");
  if (!c.flag("include_self", true)) return c.unsupported("what is written over without what was there");
  const ReduceKind kind = by == "prod"   ? ReduceKind::product
                          : by == "amax" ? ReduceKind::max
                          : by == "amin" ? ReduceKind::min
                                         : ReduceKind::sum;
  if (kind == ReduceKind::sum && by != "sum") c.wrong("reduce", "sum, prod, amax, amin or mean");
  return {scattered(c, kind, c.operand("src", c.result().dtype))};
}

Values scatter_add(Call& c) { return {scattered(c, ReduceKind::sum, c.operand("src", c.result().dtype))}; }

}  // namespace stitch::import::aten
