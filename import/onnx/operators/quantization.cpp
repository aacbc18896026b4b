// Quantisation as element-wise arithmetic.
#include <algorithm>

#include "import/emit.h"
#include "import/onnx/families.h"
#include "import/onnx/tensor.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// A scale or zero point with the shape of x: one for all, one per extent of `axis`, or one per block along it.
Result<Value> parameter_like(Call& c, Value x, Value parameter) {
  const Dims dims = c.dims(x), given = c.dims(parameter);
  if (graph::element_count(given) == 1 && given.size() <= 1) {
    return c.b.broadcast_to(c.b.reshape(parameter, {}), dims);
  }
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", 1, c.rank(x)));
  if (given.size() == 1) return spread(c.b, parameter, dims, {axis});
  STITCH_ASSIGN(const std::int64_t block, c.node.integer("block_size", 0));
  if (block < 1 || given.size() != dims.size() || block > (1LL << 31)) {
    return Call::wrong("a scale of shape {} for {}", graph::to_string(given), graph::to_string(dims));
  }
  Dims wide = given, mapping;
  wide.insert(wide.begin() + axis + 1, block);
  for (std::int64_t d = 0; d < c.rank(x); ++d) mapping.push_back(d + (d > axis));
  Dims joined = given;
  joined[axis] *= block;
  const Value repeated = c.b.reshape(spread(c.b, parameter, wide, mapping), joined);
  return slice_axis(c.b, repeated, axis, 0, dims[axis]);  // the last block may be cut
}

Result<std::optional<DType>> output_dtype(Call& c) {
  STITCH_ASSIGN(const std::int64_t code, c.node.integer("output_dtype", 0));
  if (code == 0) return std::optional<DType>{};
  const std::optional<DType> dtype = dtype_of(code);
  if (!dtype) return Call::unsupported("element type {}", type_name(code));
  return dtype;
}

}  // namespace

Value saturate_quantised(graph::Builder& b, Value scaled, Value zero_point) {
  const Value shift = b.broadcast_to(b.convert(zero_point, b.dtype(scaled)), b.dims(scaled));
  // Conversions to integers saturate.
  return b.convert(b.binary(Op::add, b.unary(Op::round_even, scaled), shift), b.dtype(zero_point));
}

Result<Values> quantize_linear(Call& c) {
  const Value x = c.b.convert(c.in(0), DType::f32);
  STITCH_ASSIGN(const Value scale, parameter_like(c, x, c.b.convert(c.in(1), DType::f32)));
  const Value scaled = c.b.binary(Op::divide, x, scale);
  STITCH_ASSIGN(const std::optional<DType> wanted, output_dtype(c));
  const DType dtype = c.has(2) ? c.dtype(c.in(2)) : wanted.value_or(DType::u8);
  STITCH_ASSIGN(const std::int64_t saturate, c.node.integer("saturate", 1));
  if (graph::is_floating(dtype)) {  // f8: without rounding to whole numbers and without zero point
    if (saturate == 0) return Values{c.b.convert(scaled, dtype)};
    const double largest = dtype == DType::f8e4m3 ? 448.0 : 57344.0;
    return Values{c.b.convert(min(c.b, max(c.b, scaled, -largest), largest), dtype)};
  }
  Value zero = c.b.filled(dtype, c.dims(x), 0.0);
  if (c.has(2)) {
    STITCH_ASSIGN(zero, parameter_like(c, x, c.in(2)));
  }
  return Values{saturate_quantised(c.b, scaled, zero)};
}

Result<Values> dequantize_linear(Call& c) {
  const DType source = c.dtype(c.in(0));
  STITCH_ASSIGN(const std::optional<DType> wanted, output_dtype(c));
  const DType result = wanted.value_or(c.dtype(c.in(1)));
  Value x = c.b.convert(c.in(0), graph::is_integer(source) ? DType::s32 : DType::f32);
  if (c.has(2) && graph::is_integer(source)) {
    STITCH_ASSIGN(const Value zero, parameter_like(c, x, c.b.convert(c.in(2), DType::s32)));
    x = c.b.binary(Op::subtract, x, zero);
  }
  x = c.b.convert(x, DType::f32);
  STITCH_ASSIGN(const Value scale, parameter_like(c, x, c.b.convert(c.in(1), DType::f32)));
  return Values{c.b.convert(c.b.binary(Op::multiply, x, scale), result)};
}

/// To u8 with a scale and zero point from the range of x, which always includes 0.
Result<Values> dynamic_quantize_linear(Call& c) {
  const Value x = c.in(0);
  const Dims all = first_axes(c.rank(x));
  const Value high = max(c.b, c.b.reduce(ReduceKind::max, x, all), 0.0);
  const Value low = min(c.b, c.b.reduce(ReduceKind::min, x, all), 0.0);
  const Value scale = div(c.b, sub(c.b, high, low), 255.0);
  const Value zero = c.b.convert(c.b.unary(Op::round_even, div(c.b, c.b.unary(Op::negate, low), scale)), DType::u8);
  const Value scaled = div(c.b, x, scale);
  return Values{saturate_quantised(c.b, scaled, zero), scale, zero};
}

}  // namespace stitch::import::onnx
