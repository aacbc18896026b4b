// Views, which are values of their own here: PyTorch's strides say where elements lie, never what they are.
#include <algorithm>
#include <numeric>

#include "import/aten/rules.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

/// Where a slice begins or ends: negative ones count from the end, all are brought into the tensor.
std::int64_t bound(std::int64_t given, std::int64_t extent) {
  if (given < 0) given += extent;
  return std::clamp<std::int64_t>(given, 0, extent);
}

struct Range {
  std::int64_t dimension, start, end, step;
};

Range range_of(Call& c, Value x) {
  const std::int64_t dimension = c.dimension("dim", c.rank(x));
  const std::int64_t extent = c.b.dims(x).empty() ? 1 : c.b.dims(x)[dimension];
  const std::int64_t start = bound(c.integer("start", 0), extent);
  const std::int64_t end = std::max(start, bound(c.integer("end", extent), extent));
  const std::int64_t step = c.integer("step", 1);
  if (step < 1) c.wrong("step", "a positive step");
  return {dimension, start, end, std::max<std::int64_t>(step, 1)};
}

/// Consecutive pieces of the argument along a dimension.
Values pieces(Call& c, const Dims& sizes) {
  const Value x = c.tensor("self");
  if (c.b.dims(x).empty()) return c.unsupported("pieces of a scalar");
  const std::int64_t dimension = c.dimension("dim", c.rank(x));
  Values parts;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(emit::slice_axis(c.b, x, dimension, start, start + size));
    start += size;
  }
  return parts;
}

/// `x` with `piece` in place of what lies between `start` and `end` along a dimension.
Value replaced(Builder& b, Value x, Value piece, const Range& range) {
  const std::int64_t extent = b.dims(x)[range.dimension];
  Values parts;
  if (range.start > 0) parts.push_back(emit::slice_axis(b, x, range.dimension, 0, range.start));
  parts.push_back(piece);
  if (range.end < extent) parts.push_back(emit::slice_axis(b, x, range.dimension, range.end, extent));
  return parts.size() == 1 ? piece : b.concatenate(std::move(parts), range.dimension);
}

/// `x` with the elements of `piece` in place of every step-th of a range: these are spread to where they belong, and
/// taken where one is.
Value interleaved(Builder& b, Value x, Value piece, const Range& range) {
  if (b.failed()) return x;
  const std::int64_t rank = std::ssize(b.dims(x)), d = range.dimension;
  const std::int64_t count = b.dims(piece)[d];
  if (count == 0) return x;
  Dims low(rank, 0), high(rank, 0), interior(rank, 0);
  low[d] = range.start;
  interior[d] = range.step - 1;
  high[d] = b.dims(x)[d] - range.start - (count - 1) * range.step - 1;
  const auto spread = [&](Value value) { return b.pad(value, b.scalar(b.dtype(value), 0.0), low, high, interior); };
  const Value written = spread(b.filled(DType::pred, b.dims(piece), 1.0));
  return b.select(written, spread(piece), x);
}

}  // namespace

Values reshape(Call& c) { return {c.b.reshape(c.tensor("self"), c.result().dims)}; }
Values expand(Call& c) { return {c.b.broadcast_to(c.tensor("self"), c.result().dims)}; }

Values permute(Call& c) {
  const Value x = c.tensor("self");
  Dims permutation = c.integers("dims");
  for (std::int64_t& d : permutation) {
    if (d < 0) d += c.rank(x);
  }
  return {permutation.empty() ? x : c.b.transpose(x, std::move(permutation))};
}

Values transpose(Call& c) {
  const Value x = c.tensor("self");
  if (c.rank(x) < 2) return {x};
  const std::int64_t one = c.dimension("dim0", c.rank(x), 0), other = c.dimension("dim1", c.rank(x), 1);
  return {emit::swap_axes(c.b, x, one, other)};
}

Values slice(Call& c) {
  const Value x = c.tensor("self");
  if (c.b.dims(x).empty()) return c.unsupported("a slice of a scalar");
  const Range range = range_of(c, x);
  return {emit::slice_axis(c.b, x, range.dimension, range.start, range.end, range.step)};
}

Values select(Call& c) {
  const Value x = c.tensor("self");
  if (c.b.dims(x).empty()) return c.unsupported("an element of a scalar");
  const std::int64_t dimension = c.dimension("dim", c.rank(x));
  const std::int64_t extent = c.b.dims(x)[dimension];
  const std::int64_t given = c.integer("index", 0);
  const std::int64_t index = given < 0 ? given + extent : given;
  return {c.b.reshape(emit::slice_axis(c.b, x, dimension, index, index + 1), c.result().dims)};
}

Values concatenate(Call& c) {
  Values parts;
  for (const Value part : c.tensors("tensors")) {
    const bool nothing = c.b.dims(part) == Dims{0};  // which PyTorch has always taken beside any shape
    if (!nothing || c.result().rank() == 1) parts.push_back(c.b.convert(part, c.result().dtype));
  }
  if (parts.empty()) return c.unsupported("nothing to concatenate");
  const std::int64_t dimension = c.dimension("dim", c.result().rank());
  return {parts.size() == 1 ? parts[0] : c.b.concatenate(std::move(parts), dimension)};
}

/// By sizes, or by one size; what PyTorch declares of the results says how large each piece is.
Values split(Call& c) {
  const std::int64_t dimension = c.dimension("dim", c.result().rank());
  Dims sizes;
  for (std::size_t i = 0; i < c.result_count(); ++i) {
    if (dimension < c.result(i).rank()) sizes.push_back(c.result(i).dims[dimension]);
  }
  return pieces(c, sizes);
}

Values unbind(Call& c) {
  Values parts = pieces(c, Dims(c.result_count(), 1));
  for (Value& part : parts) part = c.b.reshape(part, c.result().dims);
  return parts;
}

Values flip(Call& c) {
  const Value x = c.tensor("self");
  if (c.integers("dims").empty()) return {x};
  return {c.b.reverse(x, c.dimensions("dims", c.rank(x)))};
}

/// `pad` has a pair per dimension, the last dimension first.
Values pad(Call& c) {
  const Value x = c.tensor("self");
  const Dims widths = c.integers("pad");
  Dims low(c.rank(x), 0), high(c.rank(x), 0);
  if (widths.size() % 2 != 0 || widths.size() / 2 > low.size()) {
    c.wrong("pad", "a pair for each of the last dimensions");
    return {};
  }
  for (std::size_t i = 0; i < widths.size() / 2; ++i) {
    low[low.size() - 1 - i] = widths[2 * i];
    high[high.size() - 1 - i] = widths[2 * i + 1];
  }
  return {c.b.pad(x, c.b.scalar(c.b.dtype(x), c.number("value", 0.0)), low, high)};
}

/// Each dimension n times over: [a, b] becomes [n, a, m, b], then [n·a, m·b].
Values repeat(Call& c) {
  const Value x = c.tensor("self");
  const Dims times = c.integers("repeats");
  const std::size_t more = times.size() - std::min(times.size(), c.b.dims(x).size());
  Dims spread, mapping;
  for (std::size_t i = 0; i < times.size(); ++i) {
    spread.push_back(times[i]);
    if (i < more) continue;
    mapping.push_back(std::ssize(spread));
    spread.push_back(c.b.dims(x)[i - more]);
  }
  if (spread.empty()) return {x};
  return {c.b.reshape(c.b.broadcast(x, spread, mapping), c.result().dims)};
}

Values slice_scatter(Call& c) {
  const Value x = c.tensor("self");
  if (c.b.dims(x).empty()) return c.unsupported("a slice of a scalar");
  const Range range = range_of(c, x);
  Value piece = c.operand("src", c.result().dtype);
  Dims dims = c.b.dims(x);
  dims[range.dimension] = (range.end - range.start + range.step - 1) / range.step;
  piece = c.b.broadcast_to(piece, dims);
  return {range.step == 1 ? replaced(c.b, x, piece, range) : interleaved(c.b, x, piece, range)};
}

Values select_scatter(Call& c) {
  const Value x = c.tensor("self");
  const std::int64_t dimension = c.dimension("dim", c.rank(x));
  if (c.b.dims(x).empty()) return c.unsupported("an element of a scalar");
  const std::int64_t given = c.integer("index", 0);
  const std::int64_t index = given < 0 ? given + c.b.dims(x)[dimension] : given;
  Dims dims = c.b.dims(x);
  dims[dimension] = 1;
  const Value piece = c.b.reshape(c.operand("src", c.result().dtype), dims);
  return {replaced(c.b, x, piece, {dimension, index, index + 1, 1})};
}

}  // namespace stitch::import::aten
