// Normalisations and softmax. Sums of 16-bit inputs are taken in f32, as stash_type asks; variances from the
// differences to the mean, never from the difference of two sums.
#include <algorithm>
#include <limits>

#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// x minus its mean over `axes`, and 1 / sqrt(variance + epsilon); extents of 1 in the places of the axes.
struct Moments {
  Value mean, centred, variance;
};

Moments moments(graph::Builder& b, Value x, const Dims& axes) {
  const Value mean = mean_keep(b, x, axes);
  const Value centred = sub(b, x, mean);
  return {mean, centred, mean_keep(b, square(b, centred), axes)};
}

Value inverse_deviation(graph::Builder& b, Value variance, double epsilon) {
  return rsqrt(b, add(b, variance, epsilon));
}

/// A vector over dimension 1 as a tensor that broadcasts against one of that rank.
Value per_channel(Call& c, Value vector, std::int64_t rank) {
  Dims dims(rank, 1);
  if (c.b.failed() || c.rank(vector) != 1 || rank < 2) return vector;
  dims[1] = c.dims(vector)[0];
  return c.b.reshape(vector, dims);
}

/// y · scale + bias in y's type.
Value affine(graph::Builder& b, Value y, Value scale, Value bias) {
  const DType dtype = b.dtype(y);
  return add(b, mul(b, y, b.convert(scale, dtype)), b.convert(bias, dtype));
}

/// Axes from `axis` to the last.
Dims trailing(std::int64_t axis, std::int64_t rank) {
  Dims axes;
  for (std::int64_t d = axis; d < rank; ++d) axes.push_back(d);
  return axes;
}

/// The type in which a norm computes: stash_type, but never less than the input has.
Result<Value> stashed(Call& c, Value x) {
  STITCH_ASSIGN(const std::int64_t stash, c.node.integer("stash_type", 1));
  return stash == 1 ? widen(c.b, x) : x;
}

}  // namespace

Result<Values> layer_normalization(Call& c) {
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", -1, c.rank(c.in(0))));
  STITCH_ASSIGN(const double epsilon, c.node.number("epsilon", 1e-5));
  STITCH_ASSIGN(const Value x, stashed(c, c.in(0)));
  const Moments m = moments(c.b, x, trailing(axis, c.rank(x)));
  const Value inverse = inverse_deviation(c.b, m.variance, epsilon);
  Value y = mul(c.b, m.centred, inverse);
  // The affine part works in the input's type (the operator's definition casts before it); computing it in the wider
  // type and rounding once is closer to the exact result.
  y = mul(c.b, y, c.b.convert(c.in(1), c.dtype(y)));
  if (c.has(2)) y = add(c.b, y, c.b.convert(c.in(2), c.dtype(y)));
  return Values{c.b.convert(y, c.dtype(c.in(0))), m.mean, inverse};
}

Result<Values> rms_normalization(Call& c) {
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", -1, c.rank(c.in(0))));
  STITCH_ASSIGN(const double epsilon, c.node.number("epsilon", 1e-5));
  STITCH_ASSIGN(const Value x, stashed(c, c.in(0)));
  const Value inverse = inverse_deviation(c.b, mean_keep(c.b, square(c.b, x), trailing(axis, c.rank(x))), epsilon);
  const Value y = mul(c.b, mul(c.b, x, inverse), c.b.convert(c.in(1), c.dtype(x)));
  return Values{c.b.convert(y, c.dtype(c.in(0))), Value{}, inverse};
}

/// com.microsoft SkipLayerNormalization and SkipSimplifiedLayerNormalization: the norm of input + skip (+ bias).
Result<Values> skip_layer_normalization(Call& c) {
  const bool simplified = c.node.op() == "SkipSimplifiedLayerNormalization";
  STITCH_TRY(c.need_rank(0, 1));
  STITCH_ASSIGN(const double epsilon, c.node.number("epsilon", 1e-5));
  const std::size_t bias = simplified ? 3 : 4;
  Value sum = add(c.b, c.in(0), c.in(1));
  if (c.has(bias)) sum = add(c.b, sum, c.in(bias));
  const Value x = widen(c.b, sum);
  const Dims axes{c.rank(c.in(0)) - 1};
  Value y, mean, inverse;
  if (simplified) {
    inverse = inverse_deviation(c.b, mean_keep(c.b, square(c.b, x), axes), epsilon);
    y = mul(c.b, mul(c.b, x, inverse), c.b.convert(c.in(2), c.dtype(x)));
  } else {
    const Moments m = moments(c.b, x, axes);
    mean = m.mean;
    inverse = inverse_deviation(c.b, m.variance, epsilon);
    y = mul(c.b, mul(c.b, m.centred, inverse), c.b.convert(c.in(2), c.dtype(x)));
    if (c.has(3)) y = add(c.b, y, c.b.convert(c.in(3), c.dtype(x)));
  }
  return Values{c.b.convert(y, c.dtype(c.in(0))), mean, inverse, sum};
}

Result<Values> instance_normalization(Call& c) {
  STITCH_TRY(c.need_rank(0, 3));
  STITCH_ASSIGN(const double epsilon, c.node.number("epsilon", 1e-5));
  const Value x = widen(c.b, c.in(0));
  const std::int64_t rank = c.rank(x);
  const Moments m = moments(c.b, x, trailing(2, rank));
  const Value y = mul(c.b, m.centred, inverse_deviation(c.b, m.variance, epsilon));
  const Value result = affine(c.b, y, per_channel(c, c.in(1), rank), per_channel(c, c.in(2), rank));
  return Values{c.b.convert(result, c.dtype(c.in(0)))};
}

Result<Values> group_normalization(Call& c) {
  STITCH_TRY(c.need_rank(0, 2));
  STITCH_ASSIGN(const double epsilon, c.node.number("epsilon", 1e-5));
  STITCH_ASSIGN(const std::int64_t groups, c.node.integer("num_groups", 0));
  STITCH_ASSIGN(const Value x, stashed(c, c.in(0)));
  const Dims dims = c.dims(x);
  if (groups < 1 || dims[1] % groups != 0) return Call::wrong("attribute 'num_groups' is {}", groups);
  const std::int64_t each = dims[1] / groups;
  Dims grouped{dims[0], groups, each};
  grouped.insert(grouped.end(), dims.begin() + 2, dims.end());
  const Value parts = c.b.reshape(x, grouped);
  const Moments m = moments(c.b, parts, trailing(2, c.rank(parts)));
  Value y = mul(c.b, m.centred, inverse_deviation(c.b, m.variance, epsilon));
  const std::int64_t rank = dims.size();
  if (c.version < 21) {  // one scale and bias for each group
    y = affine(c.b, y, per_channel(c, c.in(1), rank + 1), per_channel(c, c.in(2), rank + 1));
    y = c.b.reshape(y, dims);
  } else {
    y = affine(c.b, c.b.reshape(y, dims), per_channel(c, c.in(1), rank), per_channel(c, c.in(2), rank));
  }
  return Values{c.b.convert(y, c.dtype(c.in(0)))};
}

/// Inputs: x, scale, bias, mean, variance. Training (statistics of the batch, running ones updated) from opset 14 on.
Result<Values> batch_normalization(Call& c) {
  STITCH_TRY(c.need_rank(0, 2));
  STITCH_ASSIGN(const double epsilon, c.node.number("epsilon", 1e-5));
  STITCH_ASSIGN(const double momentum, c.node.number("momentum", 0.9));
  STITCH_ASSIGN(std::int64_t training, c.node.integer("training_mode", 0));
  if (c.version < 7) {
    STITCH_ASSIGN(const std::int64_t is_test, c.node.integer("is_test", 0));
    training = is_test == 0 && c.wants(1);
  } else if (c.version < 14) {
    training = c.wants(1);
  }
  if (training != 0 && c.version < 14) return Call::unsupported("training before opset 14");
  const Value x = widen(c.b, c.in(0));
  const std::int64_t rank = c.rank(x);
  const DType dtype = c.dtype(x);
  const auto channel = [&](std::size_t i) { return c.b.convert(per_channel(c, c.in(i), rank), dtype); };
  if (training == 0) {
    const Value inverse = inverse_deviation(c.b, channel(4), epsilon);
    const Value y = affine(c.b, mul(c.b, sub(c.b, x, channel(3)), inverse), channel(1), channel(2));
    return Values{c.b.convert(y, c.dtype(c.in(0)))};
  }
  const Moments m = moments(c.b, x, other_axes(rank, {1}));
  const Value y = affine(c.b, mul(c.b, m.centred, inverse_deviation(c.b, m.variance, epsilon)), channel(1), channel(2));
  const auto running = [&](std::size_t i, Value now) {
    const Value old = c.b.convert(c.in(i), dtype);
    const Value mixed = add(c.b, mul(c.b, old, momentum), mul(c.b, c.b.reshape(now, c.dims(old)), 1.0 - momentum));
    return c.b.convert(mixed, c.dtype(c.in(i)));
  };
  return Values{c.b.convert(y, c.dtype(c.in(0))), running(3, m.mean), running(4, m.variance)};
}

Result<Values> mean_variance_normalization(Call& c) {
  STITCH_ASSIGN(const Dims given, c.node.integers("axes", {0, 2, 3}));
  STITCH_ASSIGN(const Dims axes, Call::normal_axes(given, c.rank(c.in(0))));
  const Value x = widen(c.b, c.in(0));
  const Moments m = moments(c.b, x, axes);
  // The operator's definition adds 1e-9 to the standard deviation.
  const Value y = div(c.b, m.centred, add(c.b, sqrt(c.b, m.variance), 1e-9));
  return Values{c.b.convert(y, c.dtype(c.in(0)))};
}

Result<Values> lp_normalization(Call& c) {
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", -1, c.rank(c.in(0))));
  STITCH_ASSIGN(const std::int64_t p, c.node.integer("p", 2));
  if (p != 1 && p != 2) return Call::wrong("attribute 'p' is {}", p);
  const Value x = widen(c.b, c.in(0));
  const Value magnitude = p == 1 ? c.b.unary(Op::abs, x) : square(c.b, x);
  Value norm = reduce_keep(c.b, ReduceKind::sum, magnitude, {axis});
  if (p == 2) norm = sqrt(c.b, norm);
  // A vector of zeros stays one.
  const Value zero = compare(c.b, Comparison::eq, norm, 0.0);
  const Value y = div(c.b, x, c.b.select(zero, like(c.b, norm, 1.0), norm));
  return Values{c.b.convert(y, c.dtype(c.in(0)))};
}

/// Local response: the squares of `size` neighbouring channels.
Result<Values> lrn(Call& c) {
  STITCH_TRY(c.need_rank(0, 2));
  STITCH_ASSIGN(const std::int64_t size, c.node.integer("size", 0));
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 1e-4));
  STITCH_ASSIGN(const double beta, c.node.number("beta", 0.75));
  STITCH_ASSIGN(const double bias, c.node.number("bias", 1.0));
  if (size < 1 || size > (1 << 20)) return Call::wrong("attribute 'size' is {}", size);
  const Value x = widen(c.b, c.in(0));
  const Dims ones(c.rank(x), 1);
  graph::ReduceWindowAttributes a{ReduceKind::sum, ones, ones, Dims(ones.size(), 0), Dims(ones.size(), 0), ones, ones};
  a.sizes[1] = size;
  a.low[1] = (size - 1) / 2;
  a.high[1] = size - 1 - (size - 1) / 2;
  const Value sum = c.b.add(Op::reduce_window, {square(c.b, x)}, std::move(a));
  const Value base = add(c.b, mul(c.b, sum, alpha / size), bias);
  const Value y = div(c.b, x, c.b.binary(Op::power, base, like(c.b, base, beta)));
  return Values{c.b.convert(y, c.dtype(c.in(0)))};
}

namespace {

/// `body` along one axis; up to opset 12 the axes from `axis` on count as one.
template <class Body>
Result<Values> along_axis(Call& c, const Body& body) {
  STITCH_TRY(c.need_rank(0, 1));
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", c.version < 13 ? 1 : -1, c.rank(c.in(0))));
  const Dims dims = c.dims(c.in(0));
  if (c.version >= 13) return Values{body(c.in(0), axis)};
  std::int64_t rows = 1, columns = 1;
  for (std::size_t d = 0; d < dims.size(); ++d) (static_cast<std::int64_t>(d) < axis ? rows : columns) *= dims[d];
  return Values{c.b.reshape(body(c.b.reshape(c.in(0), {rows, columns}), 1), dims)};
}

}  // namespace

Value softmax_of(graph::Builder& b, Value given, std::int64_t axis) {
  const Value x = widen(b, given);
  const Value shifted = sub(b, x, reduce_keep(b, ReduceKind::max, x, {axis}));
  const Value powers = exp(b, shifted);
  return b.convert(div(b, powers, reduce_keep(b, ReduceKind::sum, powers, {axis})), b.dtype(given));
}

Value log_softmax_of(graph::Builder& b, Value given, std::int64_t axis) {
  const Value x = widen(b, given);
  const Value shifted = sub(b, x, reduce_keep(b, ReduceKind::max, x, {axis}));
  const Value total = reduce_keep(b, ReduceKind::sum, exp(b, shifted), {axis});
  return b.convert(sub(b, shifted, log(b, total)), b.dtype(given));
}

Result<Values> softmax(Call& c) {
  return along_axis(c, [&](Value x, std::int64_t axis) { return softmax_of(c.b, x, axis); });
}

Result<Values> log_softmax(Call& c) {
  return along_axis(c, [&](Value x, std::int64_t axis) { return log_softmax_of(c.b, x, axis); });
}

/// 1 at the first maximum, 0 elsewhere.
Result<Values> hardmax(Call& c) {
  return along_axis(c, [&](Value x, std::int64_t axis) {
    const Value both =
        c.b.add(Op::arg_reduce, {x}, graph::ArgReduceAttributes{ReduceKind::max, axis, DType::s64, false});
    const Dims dims = c.dims(x);
    const Value position = c.b.broadcast({both.node, 1}, dims, other_axes(c.rank(x), {axis}));
    const Value hot = c.b.compare(Comparison::eq, c.b.iota(DType::s64, dims, axis), position);
    return c.b.convert(hot, c.dtype(x));
  });
}

}  // namespace stitch::import::onnx
