// Element-wise arithmetic, comparison and selection, with PyTorch's broadcasting. PyTorch computes in the type that it
// declares for the result, so operands are converted to it.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "import/aten/rules.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

using graph::Comparison;

bool is_one(Call& c, std::string_view name) { return c.number(name, 1.0) == 1.0; }

/// `name` times alpha, which sums and differences may have.
Value scaled(Call& c, std::string_view name, DType dtype) {
  const Value value = c.operand(name, dtype);
  if (is_one(c, "alpha")) return value;
  return emit::mul(c.b, value, c.operand("alpha", dtype));
}

/// What a sum or difference is computed in; with a factor it is rounded once.
DType sum_dtype(Call& c) {
  return is_one(c, "alpha") ? c.arithmetic_dtype({"self", "other"}) : c.arithmetic_dtype({"self", "other", "alpha"});
}

/// x / y rounded towards minus infinity, as Python's // has it.
Value floored(Builder& b, Value x, Value y) {
  const DType dtype = b.dtype(x);
  const Value rest = b.broadcast_binary(Op::remainder, x, y);
  const Value zero = emit::like(b, rest, 0.0);
  const Value divisor = b.broadcast_to(y, b.dims(rest));
  const Value dividend = b.broadcast_to(x, b.dims(rest));
  const Value apart =
      b.compare(Comparison::ne, b.compare(Comparison::lt, rest, zero), b.compare(Comparison::lt, divisor, zero));
  const Value down = b.binary(Op::bit_and, b.compare(Comparison::ne, rest, zero), apart);
  if (!graph::is_floating(dtype)) {
    const Value quotient = b.binary(Op::divide, dividend, divisor);
    return b.select(down, emit::sub(b, quotient, 1.0), quotient);
  }
  // The dividend without its rest is a multiple of the divisor but for rounding.
  const Value exact = b.binary(Op::divide, b.binary(Op::subtract, dividend, rest), divisor);
  const Value whole = b.unary(Op::round_even, exact);
  const Value quotient = b.select(down, emit::sub(b, whole, 1.0), whole);
  return b.select(b.compare(Comparison::eq, divisor, zero), b.binary(Op::divide, dividend, divisor), quotient);
}

Value truncated(Builder& b, Value x) {
  if (!graph::is_floating(b.dtype(x))) return x;
  const Value negative = b.compare(Comparison::lt, x, emit::like(b, x, 0.0));
  return b.select(negative, b.unary(Op::ceil, x), b.unary(Op::floor, x));
}

Values scaled_unary(Call& c, Op op, double before, double after) {
  const Value x = emit::mul(c.b, emit::widen(c.b, c.operand("self", c.result().dtype)), before);
  return {emit::mul(c.b, c.b.unary(op, x), after)};
}

/// Whether the sign bit is set, of -0 and NaN too.
Value signed_below_zero(Builder& b, Value x) {
  const DType dtype = b.dtype(x);
  if (!graph::is_floating(dtype)) return b.compare(Comparison::lt, x, emit::like(b, x, 0.0));
  const int bytes = graph::byte_size(dtype);
  const DType bits = bytes == 2 ? DType::s16 : bytes == 4 ? DType::s32 : DType::s64;
  return emit::compare(b, Comparison::lt, b.bitcast(x, bits), 0.0);
}

Value as_truth(Builder& b, Value x) { return b.convert(x, DType::pred); }

constexpr double ln_2 = 0.693147180559945309417;
constexpr double ln_10 = 2.302585092994045684018;

}  // namespace

Values test(Call& c, Op op) {
  const Value x = c.tensor("self");
  if (graph::is_floating(c.b.dtype(x))) return {c.b.unary(op, x)};
  return {c.b.filled(DType::pred, c.b.dims(x), 0.0)};  // integers are never NaN or infinite
}

Values binary(Call& c, Op op, Op of_truth_values) {
  const DType dtype = c.arithmetic_dtype({"self", "other"});
  if (dtype == DType::pred) op = of_truth_values;
  const Value x = c.operand("self", dtype);
  return {c.b.broadcast_binary(op, x, c.operand("other", dtype))};
}

Values add(Call& c) {
  const DType dtype = sum_dtype(c);
  const Op op = dtype == DType::pred ? Op::bit_or : Op::add;
  return {c.b.broadcast_binary(op, c.operand("self", dtype), scaled(c, "other", dtype))};
}

Values subtract(Call& c) {
  const DType dtype = sum_dtype(c);
  return {emit::sub(c.b, c.operand("self", dtype), scaled(c, "other", dtype))};
}

Values reversed_subtract(Call& c) {
  const DType dtype = sum_dtype(c);
  return {emit::sub(c.b, c.operand("other", dtype), scaled(c, "self", dtype))};
}

Values divide(Call& c) {
  const std::string mode = c.text("rounding_mode");
  if (mode == "floor") return floor_divide(c);
  const DType dtype = c.arithmetic_dtype({"self", "other"});
  const Value quotient = emit::div(c.b, c.operand("self", dtype), c.operand("other", dtype));
  if (mode == "trunc") return {truncated(c.b, quotient)};
  if (!mode.empty()) c.wrong("rounding_mode", "floor or trunc");
  return {quotient};
}

Values floor_divide(Call& c) {
  const DType dtype = c.result().dtype;
  return {floored(c.b, c.operand("self", dtype), c.operand("other", dtype))};
}

Values remainder(Call& c) {
  Builder& b = c.b;
  const DType dtype = c.result().dtype;
  const Value y = c.operand("other", dtype);
  const Value rest = b.broadcast_binary(Op::remainder, c.operand("self", dtype), y);
  const Value divisor = b.broadcast_to(y, b.dims(rest));
  const Value zero = emit::like(b, rest, 0.0);
  const Value apart =
      b.compare(Comparison::ne, b.compare(Comparison::lt, rest, zero), b.compare(Comparison::lt, divisor, zero));
  const Value wrap = b.binary(Op::bit_and, b.compare(Comparison::ne, rest, zero), apart);
  return {b.select(wrap, b.binary(Op::add, rest, divisor), rest)};
}

Values power(Call& c) {
  const DType dtype = c.result().dtype;
  const Value x = c.operand("self", dtype);
  if (!c.is_tensor("exponent") && graph::is_floating(dtype)) {
    const double exponent = c.number("exponent", 1.0);
    // As PyTorch's own kernels have it.
    if (exponent == 1.0) return {x};
    if (exponent == 2.0) return {emit::square(c.b, x)};
    if (exponent == 3.0) return {emit::mul(c.b, emit::square(c.b, x), x)};
    if (exponent == 0.5) return {emit::sqrt(c.b, x)};
    if (exponent == -0.5) return {emit::rsqrt(c.b, x)};
    if (exponent == -1.0) return {emit::div(c.b, emit::like(c.b, x, 1.0), x)};
    if (exponent == -2.0) return {emit::div(c.b, emit::like(c.b, x, 1.0), emit::square(c.b, x))};
  }
  return {c.b.broadcast_binary(Op::power, x, c.operand("exponent", dtype))};
}

Values reciprocal(Call& c) {
  const Value x = c.operand("self", c.result().dtype);
  return {emit::div(c.b, emit::like(c.b, x, 1.0), x)};
}

Values log2(Call& c) { return scaled_unary(c, Op::log, 1.0, 1.0 / ln_2); }
Values log10(Call& c) { return scaled_unary(c, Op::log, 1.0, 1.0 / ln_10); }
Values exp2(Call& c) { return scaled_unary(c, Op::exp, ln_2, 1.0); }
Values truncate(Call& c) { return {truncated(c.b, c.tensor("self"))}; }

Values logical(Call& c, Op op) {
  return {c.b.broadcast_binary(op, as_truth(c.b, c.tensor("self")), as_truth(c.b, c.tensor("other")))};
}

Values logical_not(Call& c) { return {c.b.unary(Op::bit_not, as_truth(c.b, c.tensor("self")))}; }

Values compare(Call& c, graph::Comparison direction) {
  const DType dtype = c.promoted({"self", "other"});
  return {emit::compare(c.b, direction, c.operand("self", dtype), c.operand("other", dtype))};
}

Values where(Call& c) {
  const DType dtype = c.result().dtype;
  const Value condition = c.operand("condition", DType::pred);
  return {emit::select(c.b, condition, c.operand("self", dtype), c.operand("other", dtype))};
}

Values clamp(Call& c) {
  const DType dtype = c.result().dtype;
  Value x = c.operand("self", dtype);
  if (c.has("min")) x = emit::max(c.b, x, c.operand("min", dtype));
  if (c.has("max")) x = emit::min(c.b, x, c.operand("max", dtype));
  return {x};
}

Values add_product(Call& c) {
  const DType dtype = c.wide_dtype();
  Value product = emit::mul(c.b, c.operand("tensor1", dtype), c.operand("tensor2", dtype));
  if (!is_one(c, "value")) product = emit::mul(c.b, product, c.operand("value", dtype));
  return {emit::add(c.b, c.operand("self", dtype), product)};
}

Values add_quotient(Call& c) {
  const DType dtype = c.wide_dtype();
  Value over = c.operand("tensor1", dtype);
  if (!is_one(c, "value")) over = emit::mul(c.b, over, c.operand("value", dtype));
  return {emit::add(c.b, c.operand("self", dtype), emit::div(c.b, over, c.operand("tensor2", dtype)))};
}

/// The greater (smaller) of two, of which a NaN is none.
Values extreme_number(Call& c, Op op) {
  Builder& b = c.b;
  const DType dtype = c.result().dtype;
  if (!graph::is_floating(dtype)) return binary(c, op, op);
  const Value x = b.broadcast_to(c.operand("self", dtype), c.result().dims);
  const Value y = b.broadcast_to(c.operand("other", dtype), c.result().dims);
  const Value both = b.binary(op, x, y);
  return {b.select(b.unary(Op::is_nan, x), y, b.select(b.unary(Op::is_nan, y), x, both))};
}

Values shift_right(Call& c) {
  const Op op = graph::is_signed_integer(c.result().dtype) ? Op::shift_right_arithmetic : Op::shift_right_logical;
  return binary(c, op, op);
}

Values copy_sign(Call& c) {
  Builder& b = c.b;
  const DType dtype = c.result().dtype;
  const Value size = b.broadcast_to(b.unary(Op::abs, c.operand("self", dtype)), c.result().dims);
  const Value other = b.broadcast_to(c.operand("other", dtype), c.result().dims);
  return {b.select(signed_below_zero(b, other), b.unary(Op::negate, size), size)};
}

Values sign_bit(Call& c) { return {signed_below_zero(c.b, c.tensor("self"))}; }

/// √(x² + y²) by the smaller over the larger, whose square cannot overflow.
Values hypotenuse(Call& c) {
  Builder& b = c.b;
  const DType dtype = c.result().dtype;
  const Value x = emit::widen(b, b.broadcast_to(b.unary(Op::abs, c.operand("self", dtype)), c.result().dims));
  const Value y = emit::widen(b, b.broadcast_to(b.unary(Op::abs, c.operand("other", dtype)), c.result().dims));
  const Value most = b.binary(Op::maximum, x, y), least = b.binary(Op::minimum, x, y);
  // Of two zeros or two infinities the quotient is no number.
  const Value equal = b.compare(Comparison::eq, x, y);
  const Value ratio = b.select(equal, emit::like(b, x, 1.0), b.binary(Op::divide, least, most));
  const Value length = b.binary(Op::multiply, most, emit::sqrt(b, emit::add(b, emit::square(b, ratio), 1.0)));
  const Value infinite = b.binary(Op::bit_or, b.unary(Op::is_inf, x), b.unary(Op::is_inf, y));
  return {b.select(infinite, emit::like(b, x, std::numeric_limits<double>::infinity()), length)};
}

/// To a number of decimals: scaled, rounded half to even and scaled back, as PyTorch does it.
Values round_decimals(Call& c) {
  const Value x = c.tensor("self");
  const std::int64_t decimals = c.integer("decimals", 0);
  const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  if (!graph::is_floating(c.b.dtype(x))) return c.unsupported("decimals of integers");
  if (decimals < 0) return {emit::mul(c.b, c.b.unary(Op::round_even, emit::div(c.b, x, scale)), scale)};
  return {emit::div(c.b, c.b.unary(Op::round_even, emit::mul(c.b, x, scale)), scale)};
}

/// PyTorch rounds once, a kernel once or twice.
Values multiply_add(Call& c) {
  const DType dtype = c.result().dtype;
  return {emit::add(c.b, emit::mul(c.b, c.operand("a", dtype), c.operand("b", dtype)), c.operand("c", dtype))};
}

}  // namespace stitch::import::aten
