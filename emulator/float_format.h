#pragma once

#include <bit>
#include <cstdint>

/// Scalar conversions between f32 and the 16-bit formats, for the few places that need single values; rows are
/// converted by lane_half.inl. To nearest even; NaN becomes the canonical 0x7FFF.
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

inline float bfloat_to_float(std::uint16_t value) { return std::bit_cast<float>(std::uint32_t{value} << 16); }

inline std::uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return 0x7FFF;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1)) >> 16);
}

}  // namespace stitch::emulator
