// Arithmetic, comparison, logic and bits: operators that map one element of each operand to one of the result.
#include <algorithm>

#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// Up to opset 6, operand 1 was aligned with operand 0 at attribute 'axis', and only if 'broadcast' was set.
Result<Value> legacy_operand(Call& c, Value x, Value y) {
  STITCH_ASSIGN(const std::int64_t broadcast, c.node.integer("broadcast", 0));
  if (broadcast == 0 || !c.node.has("axis")) return y;
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", 0, c.rank(x)));
  Dims dims = c.dims(y);
  if (axis + c.rank(y) > c.rank(x)) return Call::wrong("input 1 does not fit input 0 at axis {}", axis);
  dims.resize(c.rank(x) - axis, 1);
  return c.b.reshape(y, dims);
}

Result<Value> second_operand(Call& c) {
  if (c.version < 7) return legacy_operand(c, c.in(0), c.in(1));
  return c.in(1);
}

Result<Values> binary(Call& c, Op op) {
  STITCH_ASSIGN(const Value y, second_operand(c));
  return Values{c.b.broadcast_binary(op, c.in(0), y)};
}

Result<Values> comparison(Call& c, Comparison direction) {
  STITCH_ASSIGN(const Value y, second_operand(c));
  return Values{compare(c.b, direction, c.in(0), y)};
}

Result<Values> variadic(Call& c, Op op) {
  Value result = c.in(0);
  for (std::size_t i = 1; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return Call::wrong("input {} is missing", i);
    result = c.b.broadcast_binary(op, result, c.in(i));
  }
  return Values{result};
}

}  // namespace

Result<Values> add_rule(Call& c) { return binary(c, Op::add); }
Result<Values> subtract_rule(Call& c) { return binary(c, Op::subtract); }
Result<Values> multiply_rule(Call& c) { return binary(c, Op::multiply); }
Result<Values> divide_rule(Call& c) { return binary(c, Op::divide); }
Result<Values> and_rule(Call& c) { return binary(c, Op::bit_and); }
Result<Values> or_rule(Call& c) { return binary(c, Op::bit_or); }
Result<Values> xor_rule(Call& c) { return binary(c, Op::bit_xor); }

Result<Values> equal(Call& c) { return comparison(c, Comparison::eq); }
Result<Values> less(Call& c) { return comparison(c, Comparison::lt); }
Result<Values> less_or_equal(Call& c) { return comparison(c, Comparison::le); }
Result<Values> greater(Call& c) { return comparison(c, Comparison::gt); }
Result<Values> greater_or_equal(Call& c) { return comparison(c, Comparison::ge); }

Result<Values> sum_rule(Call& c) { return variadic(c, Op::add); }
Result<Values> max_rule(Call& c) { return variadic(c, Op::maximum); }
Result<Values> min_rule(Call& c) { return variadic(c, Op::minimum); }

Result<Values> mean_rule(Call& c) {
  STITCH_ASSIGN(const Values total, variadic(c, Op::add));
  return Values{div(c.b, total[0], c.inputs.size())};
}

Result<Values> reciprocal(Call& c) { return Values{div(c.b, like(c.b, c.in(0), 1.0), c.in(0))}; }

Result<Values> where(Call& c) { return Values{select(c.b, c.in(0), c.in(1), c.in(2))}; }

Result<Values> mod(Call& c) {
  STITCH_ASSIGN(const std::int64_t fmod, c.node.integer("fmod", 0));
  const Value rest = c.b.broadcast_binary(Op::remainder, c.in(0), c.in(1));
  if (fmod != 0 || graph::is_unsigned_integer(c.dtype(rest))) return Values{rest};
  // Python's modulo: the result has the sign of the divisor, Op::remainder that of the dividend.
  const Value divisor = c.b.broadcast_to(c.in(1), c.dims(rest));
  const Value zero = like(c.b, rest, 0.0);
  const Value differs =
      c.b.binary(Op::bit_xor, compare(c.b, Comparison::lt, rest, zero), compare(c.b, Comparison::lt, divisor, zero));
  const Value wrong_side = c.b.binary(Op::bit_and, differs, compare(c.b, Comparison::ne, rest, zero));
  return Values{c.b.select(wrong_side, add(c.b, rest, divisor), rest)};
}

Result<Values> pow(Call& c) {
  STITCH_ASSIGN(const Value given, second_operand(c));
  const DType base = c.dtype(c.in(0)), exponent = c.dtype(given);
  // The result has the type of the base; a fractional exponent of an integer base still counts.
  const DType compute = graph::is_integer(base) && graph::is_floating(exponent) ? exponent : base;
  const Value power = c.b.broadcast_binary(Op::power, c.b.convert(c.in(0), compute), c.b.convert(given, compute));
  return Values{c.b.convert(power, base)};
}

Result<Values> bit_shift(Call& c) {
  STITCH_ASSIGN(const std::string direction, c.node.text("direction", ""));
  if (direction != "LEFT" && direction != "RIGHT") return Call::wrong("attribute 'direction' is '{}'", direction);
  if (direction == "LEFT") return binary(c, Op::shift_left);
  const bool with_sign = graph::is_signed_integer(c.dtype(c.in(0)));
  return binary(c, with_sign ? Op::shift_right_arithmetic : Op::shift_right_logical);
}

Result<Values> is_inf(Call& c) {
  STITCH_ASSIGN(const std::int64_t negative, c.node.integer("detect_negative", 1));
  STITCH_ASSIGN(const std::int64_t positive, c.node.integer("detect_positive", 1));
  const Value infinite = c.b.unary(Op::is_inf, c.in(0));
  if (negative != 0 && positive != 0) return Values{infinite};
  if (negative == 0 && positive == 0) return Values{like(c.b, infinite, 0.0)};
  const Value side = compare(c.b, positive != 0 ? Comparison::gt : Comparison::lt, c.in(0), 0.0);
  return Values{c.b.binary(Op::bit_and, infinite, side)};
}

/// Up to opset 10 the limits are attributes.
Result<Values> clip_attributes(Call& c) {
  Value y = c.in(0);
  STITCH_ASSIGN(const double low, c.node.number("min", 0.0));
  STITCH_ASSIGN(const double high, c.node.number("max", 0.0));
  if (c.node.has("min")) y = max(c.b, y, low);
  if (c.node.has("max")) y = min(c.b, y, high);
  return Values{y};
}

Result<Values> clip(Call& c) {
  Value y = c.in(0);
  if (c.has(1)) y = max(c.b, y, c.in(1));
  if (c.has(2)) y = min(c.b, y, c.in(2));
  return Values{y};
}

}  // namespace stitch::import::onnx
