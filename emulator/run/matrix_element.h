#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "emulator/decode/instruction.h"
#include "emulator/lanes/float_format.h"

namespace stitch::emulator {

/// Bits of one element of a matrix in registers or shared memory. tf32 takes the place of an f32.
constexpr std::uint32_t element_bits(MatrixType type) {
  switch (type) {
    case MatrixType::f64: return 64;
    case MatrixType::f16:
    case MatrixType::bf16: return 16;
    case MatrixType::s8:
    case MatrixType::u8:
    case MatrixType::e4m3:
    case MatrixType::e5m2: return 8;
    case MatrixType::e2m3:
    case MatrixType::e3m2: return 6;
    case MatrixType::s4:
    case MatrixType::u4:
    case MatrixType::e2m1: return 4;
    case MatrixType::b1: return 1;
    default: return 32;
  }
}

/// e4m3: no infinity, and NaN only where all bits but the sign are set (OCP 8-bit Floating Point Specification).
inline double e4m3_value(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7F;
  if (magnitude == 0x7F) return std::numeric_limits<double>::quiet_NaN();
  const std::uint32_t exponent = magnitude >> 3;
  const std::uint32_t mantissa = magnitude & 7;
  const double value =
      exponent == 0 ? mantissa * 0x1p-9 : (8 + mantissa) * 0x1p-10 * static_cast<double>(1U << exponent);
  return (bits & 0x80) != 0 ? -value : value;
}

/// A float without infinities and NaN (OCP Microscaling Formats): sign, exponent with this bias, mantissa.
inline double small_float_value(std::uint32_t bits, int exponent_bits, int mantissa_bits, int bias) {
  const std::uint32_t exponent = bits >> mantissa_bits & ((1U << exponent_bits) - 1);
  const std::uint32_t mantissa = bits & ((1U << mantissa_bits) - 1);
  const std::uint32_t implied = exponent == 0 ? 0 : 1U << mantissa_bits;
  const double value = std::ldexp(static_cast<double>(implied + mantissa),
                                  static_cast<int>(std::max(exponent, 1U)) - bias - mantissa_bits);
  return (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -value : value;
}

/// The element of `type` in the lowest bits.
inline double element_value(MatrixType type, std::uint64_t bits) {
  const auto word = static_cast<std::uint32_t>(bits);
  switch (type) {
    case MatrixType::f16: return half_to_float(word & 0xFFFF);
    case MatrixType::bf16: return bfloat_to_float(word & 0xFFFF);
    // The tensor core reads f32 and ignores the lower mantissa bits.
    case MatrixType::tf32: return std::bit_cast<float>(word & 0xFFFFE000U);
    case MatrixType::f32: return std::bit_cast<float>(word);
    case MatrixType::f64: return std::bit_cast<double>(bits);
    case MatrixType::s8: return static_cast<std::int8_t>(word);
    case MatrixType::u8: return static_cast<std::uint8_t>(word);
    case MatrixType::s32: return static_cast<std::int32_t>(word);
    case MatrixType::s4: return static_cast<double>((word & 0xF) ^ 8U) - 8;
    case MatrixType::u4: return word & 0xF;
    case MatrixType::b1: return word & 1;
    case MatrixType::e4m3: return e4m3_value(word);
    case MatrixType::e2m3: return small_float_value(word, 2, 3, 1);
    case MatrixType::e3m2: return small_float_value(word, 3, 2, 3);
    case MatrixType::e2m1: return small_float_value(word, 2, 1, 1);
    case MatrixType::e5m2: return half_to_float(static_cast<std::uint16_t>((word & 0xFF) << 8));
  }
  return 0;
}

/// A sum of integer products as it is stored: wrapped, or with .satfinite the nearest s32.
inline std::uint32_t integer_result(double sum, bool saturate) {
  constexpr double lowest = std::numeric_limits<std::int32_t>::min();
  constexpr double highest = std::numeric_limits<std::int32_t>::max();
  if (saturate && sum < lowest) sum = lowest;
  if (saturate && sum > highest) sum = highest;
  return static_cast<std::uint32_t>(static_cast<std::int64_t>(sum));
}

/// start + Σ a·b over what a form keeps of k.
inline double add_products(const MatrixForm& form, const double* a, const double* b, double start) {
  double sum = start;
  if (form.a == MatrixType::f64) {
    for (std::uint32_t k = 0; k < form.stored_k(); ++k) sum = std::fma(a[k], b[k], sum);
  } else if (form.differs) {
    for (std::uint32_t k = 0; k < form.stored_k(); ++k) sum += a[k] != b[k] ? 1 : 0;
  } else {
    for (std::uint32_t k = 0; k < form.stored_k(); ++k) sum += a[k] * b[k];
  }
  return sum;
}

/// A sum as the accumulator's bits.
inline std::uint64_t accumulator_bits(const MatrixForm& form, double sum) {
  switch (form.accumulator) {
    case MatrixType::f16: return double_to_half(sum);
    case MatrixType::s32: return integer_result(sum, form.saturate);
    case MatrixType::f64: return std::bit_cast<std::uint64_t>(canonical(sum));
    default: return std::bit_cast<std::uint32_t>(canonical(static_cast<float>(sum)));
  }
}

}  // namespace stitch::emulator
