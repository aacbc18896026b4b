#include "import/emit.h"

#include <algorithm>
#include <numeric>

#include "graph/literal.h"

namespace stitch::import::emit {

using graph::Dims;
using graph::DType;

namespace {

/// All values with the shape that they broadcast to.
std::vector<Value> broadcast_all(Builder& b, std::vector<Value> values) {
  if (b.failed()) return values;
  Dims shape = b.dims(values[0]);
  for (const Value value : values) {
    Result<Dims> joined = graph::broadcast_shape(shape, b.dims(value));
    if (!joined) {
      b.fail(joined.error());
      return values;
    }
    shape = std::move(*joined);
  }
  for (Value& value : values) value = b.broadcast_to(value, shape);
  return values;
}

}  // namespace

Value compare(Builder& b, Comparison direction, Value x, Value y) {
  const std::vector<Value> sides = broadcast_all(b, {x, y});
  return b.compare(direction, sides[0], sides[1]);
}

Value compare(Builder& b, Comparison direction, Value x, double y) { return b.compare(direction, x, like(b, x, y)); }

Value select(Builder& b, Value condition, Value yes, Value no) {
  const std::vector<Value> all = broadcast_all(b, {condition, yes, no});
  return b.select(all[0], all[1], all[2]);
}

Value widen(Builder& b, Value x) {
  const DType dtype = b.dtype(x);
  return graph::is_floating(dtype) && graph::byte_size(dtype) < 4 ? b.convert(x, DType::f32) : x;
}

Value reduce_keep(Builder& b, ReduceKind kind, Value x, const Dims& axes) {
  Dims kept = b.dims(x);
  for (const std::int64_t axis : axes) {
    if (axis < std::ssize(kept)) kept[axis] = 1;
  }
  return b.reshape(b.reduce(kind, x, axes), kept);
}

Value mean_keep(Builder& b, Value x, const Dims& axes) {
  std::int64_t count = 1;
  for (const std::int64_t axis : axes) {
    if (axis < std::ssize(b.dims(x))) count *= b.dims(x)[axis];
  }
  return div(b, reduce_keep(b, ReduceKind::sum, x, axes), count);
}

Value integers(Builder& b, DType dtype, Dims dims, const std::vector<std::int64_t>& values) {
  return b.constant(graph::dense_integers({dtype, std::move(dims)}, values));
}

Value numbers(Builder& b, DType dtype, Dims dims, const std::vector<double>& values) {
  return b.constant(graph::dense({dtype, std::move(dims)}, values));
}

Dims first_axes(std::int64_t count) {
  Dims axes(std::max<std::int64_t>(count, 0));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Dims other_axes(std::int64_t rank, const Dims& axes) {
  Dims rest;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) rest.push_back(d);
  }
  return rest;
}

Value slice_axis(Builder& b, Value x, std::int64_t axis, std::int64_t start, std::int64_t limit, std::int64_t stride) {
  const Dims dims = b.dims(x);
  Dims starts(dims.size(), 0), limits = dims, strides(dims.size(), 1);
  const std::size_t at = axis;
  if (at >= dims.size()) return x;  // the builder has failed
  if (start == 0 && limit == dims[at] && stride == 1) return x;
  starts[at] = start;
  limits[at] = limit;
  strides[at] = stride;
  return b.slice(x, starts, limits, strides);
}

Value swap_axes(Builder& b, Value v, std::int64_t x, std::int64_t y) {
  Dims permutation = first_axes(b.dims(v).size());
  if (std::max(x, y) >= std::ssize(permutation)) return v;  // the builder has failed
  std::swap(permutation[x], permutation[y]);
  return b.transpose(v, permutation);
}

Value wrap_indices(Builder& b, Value indices, std::int64_t extent) {
  if (b.failed() || graph::is_unsigned_integer(b.dtype(indices))) return indices;
  const Value negative = compare(b, Comparison::lt, indices, 0.0);
  return b.select(negative, add(b, indices, extent), indices);
}

}  // namespace stitch::import::emit
