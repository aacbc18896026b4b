#include "graph/reference/evaluate_error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace stitch::graph {

// What ElementError's per_argument is multiplied with, relative to the result:
//   exp, expm1, sinh, cosh: |x| (x × log2 e is rounded before ex2)
//   logistic:               |x| (1 - y)
//   sin, cos, tan:          |x| / |y|, (1 + y²)|x| / |y| for tan (argument reduction)
//   erfc:                   x² where y < 1 (exp(-x²)), as much of 2 - y elsewhere
//   power:                  |ln y| (exp2(y log2 x))
ElementError element_error(Op op) { return info(op).error; }

std::int64_t sum_depth(std::int64_t count, const ErrorModel& model) {
  if (count <= 1) return 0;
  const std::int64_t log2_count = std::bit_width(static_cast<std::uint64_t>(count - 1));
  return std::min(count - 1, 2 * log2_count + model.serial_additions);
}

namespace {

/// Exponent of the largest finite value's leading bit, and of the smallest normal number.
struct ExponentRange {
  int highest, lowest;
};

ExponentRange exponent_range(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3: return {8, -6};
    case DType::f8e5m2:
    case DType::f16: return {15, -14};
    case DType::bf16:
    case DType::f32: return {127, -126};
    default: return {1023, -1022};
  }
}

}  // namespace

double unit_roundoff(DType floating) { return std::ldexp(1.0, -info(floating).mantissa_bits - 1); }

double largest_finite(DType floating) {
  if (floating == DType::f8e4m3) return 448;  // all ones is NaN, so the largest mantissa is missing
  return (2.0 - 2.0 * unit_roundoff(floating)) * std::ldexp(1.0, exponent_range(floating).highest);
}

double smallest_subnormal(DType floating) {
  return std::ldexp(1.0, exponent_range(floating).lowest - info(floating).mantissa_bits);
}

double smallest_normal(DType floating) { return std::ldexp(1.0, exponent_range(floating).lowest); }

bool accepts(double reference, double bound, double value) {
  if (std::isinf(bound)) return true;
  if (std::isnan(reference) || std::isnan(value)) return std::isnan(reference) && std::isnan(value);
  return reference == value || std::fabs(reference - value) <= bound;
}

}  // namespace stitch::graph
