#include "graph/reference/evaluate_error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace stitch::graph {

// ulps: generous against CUDA's documented maximum errors (CUDA C++ Programming Guide, "Mathematical Functions",
// single precision), so that approximate division and exponentials by ex2 are correct kernels, while the cancelling
// forms of tanh, expm1 or a norm's variance are not.
// per_argument: further ulps times
//   exp, expm1, sinh, cosh: |x| (x × log2 e is rounded before ex2)
//   logistic:               |x| (1 - y)
//   sin, cos, tan:          |x| / |y|, (1 + y²)|x| / |y| for tan (argument reduction)
//   erfc:                   x² where y < 1 (exp(-x²)), as much of 2 - y elsewhere
//   power:                  |ln y| (exp2(y log2 x))
ElementError element_error(Op op) {
  switch (op) {
    case Op::add:
    case Op::subtract:
    case Op::multiply:
    case Op::reduce:
    case Op::reduce_window:
    case Op::select_and_scatter:
    case Op::scan:
    case Op::scatter:
    case Op::dot:
    case Op::convolution: return {0.5, 0};
    case Op::divide:
    case Op::sqrt:
    case Op::rsqrt:
    case Op::cbrt: return {2, 0};
    case Op::log:
    case Op::log1p:
    case Op::atan: return {3, 0};
    case Op::exp: return {2, 1};
    case Op::expm1: return {3, 1};
    case Op::sinh:
    case Op::cosh: return {4, 1};
    case Op::logistic: return {4, 1};
    case Op::sin:
    case Op::cos: return {2, 0.5};
    case Op::tan: return {4, 0.5};
    case Op::power: return {16, 1};
    case Op::erfc: return {8, 2};
    case Op::erf:
    case Op::tanh:
    case Op::asin:
    case Op::acos:
    case Op::asinh:
    case Op::acosh:
    case Op::atanh:
    case Op::atan2: return {4, 0};
    default: return {0, 0};
  }
}

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
