#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace stitch::emulator {

/// start + Σ a·b as wgmma of f8 adds it up on Hopper, by what others found (graph/reference/narrow_sums.h says who and
/// what): all are aligned to the largest exponent among them, what lies beyond 13 bits behind its first is cut off, and
/// so it is of the sum.
inline double narrow_sum(const double* a, const double* b, std::uint32_t count, double start) {
  constexpr int fraction_bits = 13;
  const auto exponent_of = [](double x) { return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7FF); };
  double sum = start;
  int largest = exponent_of(start);
  for (std::uint32_t k = 0; k < count; ++k) {
    const double product = a[k] * b[k];
    sum += product;
    largest = std::max(largest, exponent_of(product));
  }
  if (!std::isfinite(sum) || largest == 0) return sum;  // all are zero
  const auto cut = [](double x, int exponent) {
    const double unit = std::ldexp(1.0, exponent - 1023 - fraction_bits);
    return std::trunc(x / unit) * unit;
  };
  sum = cut(start, largest);
  for (std::uint32_t k = 0; k < count; ++k) sum += cut(a[k] * b[k], largest);
  return sum == 0 ? 0 : cut(sum, exponent_of(sum));
}

}  // namespace stitch::emulator
