#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "emulator/lanes/float_format.h"

namespace stitch::driver {

/// How a library's element is written in memory.
enum class ElementFormat : std::uint8_t { f32, f64, f16, bf16 };

constexpr std::size_t bytes_of(ElementFormat format) {
  switch (format) {
    case ElementFormat::f64: return 8;
    case ElementFormat::f32: return 4;
    default: return 2;
  }
}

constexpr const char* name_of(ElementFormat format) {
  switch (format) {
    case ElementFormat::f64: return "f64";
    case ElementFormat::f32: return "f32";
    case ElementFormat::f16: return "f16";
    default: return "bf16";
  }
}

/// T: float or double.
template <class T>
T load_element(ElementFormat format, const std::byte* from) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from, bytes_of(format));
  switch (format) {
    case ElementFormat::f64: return static_cast<T>(std::bit_cast<double>(bits));
    case ElementFormat::f32: return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case ElementFormat::f16: return emulator::half_to_float(static_cast<std::uint16_t>(bits));
    default: return emulator::bfloat_to_float(static_cast<std::uint16_t>(bits));
  }
}

template <class T>
void store_element(ElementFormat format, T value, std::byte* to) {
  std::uint64_t bits = 0;
  switch (format) {
    case ElementFormat::f64: bits = std::bit_cast<std::uint64_t>(static_cast<double>(value)); break;
    case ElementFormat::f32: bits = std::bit_cast<std::uint32_t>(static_cast<float>(value)); break;
    case ElementFormat::f16: bits = emulator::float_to_half(static_cast<float>(value)); break;
    default: bits = emulator::float_to_bfloat(static_cast<float>(value)); break;
  }
  std::memcpy(to, &bits, bytes_of(format));
}

}  // namespace stitch::driver
