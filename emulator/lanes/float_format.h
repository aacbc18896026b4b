#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// Scalar conversions to and from the 16-bit formats, and what PTX says of single floats, for the few places that need
/// single values; rows are computed by lane_half.inl and lane_float.inl. To nearest even; NaN becomes the canonical
/// 0x7FFF.
namespace stitch::emulator {

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7FFFU;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  const std::uint32_t special = magnitude >= 0x7C00U ? 0x7F800000U : 0U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | (std::uint32_t{half & 0x8000U} << 16));
}

inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return 0x7FFF;
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(0x7C00U | sign);
  if (magnitude < 0x38800000U) {
    // Adding 0.5 aligns the subnormal half's last place with that of the sum.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(sum) - 0x3F000000U) | sign);
  }
  return static_cast<std::uint16_t>(((magnitude + 0xFFFU + ((magnitude >> 13) & 1) - 0x38000000U) >> 13) | sign);
}

/// In one rounding: what f32 has no room for makes its last bit odd, and so still tells the sides of a tie apart.
inline std::uint16_t double_to_half(double value) {
  const float nearest = value;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  const double back = nearest;
  if (value != value || back == value || (bits & 1) != 0) return float_to_half(nearest);
  const bool away = (back > value) == (value > 0);
  return float_to_half(std::bit_cast<float>(away ? bits - 1 : bits + 1));
}

inline float bfloat_to_float(std::uint16_t value) { return std::bit_cast<float>(std::uint32_t{value} << 16); }

inline std::uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return 0x7FFF;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1)) >> 16);
}

/// PTX's NaN in the place of the host's, whose sign is set, or of an operand's.
inline float canonical(float value) { return value != value ? std::bit_cast<float>(0x7FFFFFFFU) : value; }
inline double canonical(double value) {
  return value != value ? std::bit_cast<double>(std::uint64_t{0x7FF8000000000000}) : value;
}

/// min and max: -0 is less than +0, a single NaN loses.
template <class T>
T smaller(T x, T y) {
  if (x != x || y != y) return x != x ? y : x;
  return x < y || (x == y && std::signbit(x)) ? x : y;
}
template <class T>
T larger(T x, T y) {
  if (x != x || y != y) return x != x ? y : x;
  return x > y || (x == y && std::signbit(y)) ? x : y;
}

}  // namespace stitch::emulator
