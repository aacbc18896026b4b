#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "emulator/lanes/float_format.h"

/// Operands of tcgen05 for tests: elements of its types, and images of shared memory with the descriptors that say how
/// they lie there; written independently of the emulator.
namespace stitch::emulator::test {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// As the kernels' parameter of the same name.
struct Product {
  u64 a = 0;
  u64 b = 0;
  u64 initial = 0;
  u64 metadata = 0;
  u64 a_descriptor = 0;
  u64 b_descriptor = 0;
  u32 shape = 0;
  int a_bytes = 0;
  int b_bytes = 0;
  int steps = 1;
  int a_step = 0;
  int b_step = 0;
  int columns = 0;
  int scale_bytes = 0;
  int a_scale_bytes = 0;
  u32 disabled = 0;
  int metadata_columns = 0;
};

enum class Type { f16, bf16, tf32, u8, s8, e4m3, e5m2, e2m3, e3m2, e2m1 };

inline int bits_of(Type type) {
  switch (type) {
    case Type::f16:
    case Type::bf16: return 16;
    case Type::tf32: return 32;
    case Type::e2m3:
    case Type::e3m2: return 6;
    case Type::e2m1: return 4;
    default: return 8;
  }
}

/// A float of so many exponent and mantissa bits, subnormal where its exponent is 0.
inline double small_float(u32 bits, int exponents, int mantissas, int bias) {
  const int exponent = static_cast<int>(bits >> mantissas) & ((1 << exponents) - 1);
  const double fraction = static_cast<double>(bits & ((1U << mantissas) - 1)) / (1 << mantissas);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (bits >> (exponents + mantissas) & 1) != 0 ? -magnitude : magnitude;
}

inline double value_of(Type type, u32 bits) {
  switch (type) {
    case Type::f16: return half_to_float(static_cast<std::uint16_t>(bits));
    case Type::bf16: return bfloat_to_float(static_cast<std::uint16_t>(bits));
    case Type::tf32: return std::bit_cast<float>(bits);
    case Type::u8: return bits;
    case Type::s8: return static_cast<std::int8_t>(bits);
    case Type::e4m3: return small_float(bits, 4, 3, 7);
    case Type::e5m2: return small_float(bits, 5, 2, 15);
    case Type::e2m3: return small_float(bits, 2, 3, 1);
    case Type::e3m2: return small_float(bits, 3, 2, 3);
    case Type::e2m1: return small_float(bits, 2, 1, 1);
  }
  return 0;
}

/// Bits of a type whose value is small, so that sums are exact.
inline u32 draw(Type type, u64 noise) {
  const auto whole = static_cast<float>(static_cast<int>(noise % 17) - 8);
  switch (type) {
    case Type::f16: return double_to_half(whole / 2);
    case Type::bf16: return std::bit_cast<u32>(whole) >> 16;
    case Type::tf32: return std::bit_cast<u32>(whole);
    case Type::e4m3: return (noise % 32 + 0x28) | (noise >> 8 & 0x80);
    case Type::e5m2: return (noise % 16 + 0x34) | (noise >> 8 & 0x80);
    default: return noise & ((1U << bits_of(type)) - 1);
  }
}

/// How an operand lies in shared memory: the swizzle's width in bytes (0: none; 33: 128 in pieces of 32), and whether
/// neighbours in M or N lie side by side.
struct Layout {
  int swizzle = 0;
  bool rows_adjacent = false;
};

/// The canonical layouts of the ISA, in units of 16 bytes, written down a second time: `rows` of M or N, `depth` bytes
/// of K in a row of K-major ones.
struct Image {
  Layout layout;
  int rows;
  int depth;      ///< elements of K
  int container;  ///< bits from element to element
  std::vector<std::uint8_t> bytes;

  Image(Layout how, int row_count, int k_count, int width)
      : layout(how),
        rows(row_count),
        depth(k_count),
        container(width),
        bytes(static_cast<std::size_t>(row_count) * static_cast<std::size_t>(k_count * width / 8)) {}

  [[nodiscard]] int line() const { return layout.swizzle == 33 ? 128 : layout.swizzle; }

  /// The 16 bytes that hold element (row, k).
  [[nodiscard]] int unit_of(int row, int k) const {
    const int run = 128 / container;
    const int along = layout.rows_adjacent ? row : k;
    const int across = layout.rows_adjacent ? k : row;
    const int piece = along / run;
    const int pieces = (layout.rows_adjacent ? rows : depth) / run;
    if (layout.swizzle == 0) {
      // Core matrices of 8 lines: K-major along M or N first, M- or N-major along K first.
      const int acrosses = (layout.rows_adjacent ? depth : rows) / 8;
      return (piece * acrosses + across / 8) * 8 + across % 8;
    }
    const int wide = line() / 16;
    const int deep = layout.swizzle == 33 ? 4 : 8;
    const int lines = layout.rows_adjacent ? depth : rows;
    // An atom of `deep` lines of `wide` pieces; atoms across first, then along.
    const int atom = piece / wide * (lines / deep) + across / deep;
    (void)pieces;
    int within = across % deep * wide + piece % wide;
    if (layout.swizzle == 128) within ^= across % 8;
    if (layout.swizzle == 64) within ^= across / 2 % 4;
    if (layout.swizzle == 32) within ^= across / 4 % 2;
    if (layout.swizzle == 33) within ^= across % 4 * 2;
    return atom * deep * wide + within;
  }

  void put(int row, int k, u32 bits, int width) {
    const int run = 128 / container;
    const int index = (layout.rows_adjacent ? row : k) % run;
    // Narrow elements are packed from the beginning of the 16 bytes.
    const int at = unit_of(row, k) * 128 + index * std::min(width, container);
    for (int i = 0; i < width; ++i) {
      if ((bits >> i & 1) != 0)
        bytes[static_cast<std::size_t>((at + i) / 8)] |= static_cast<std::uint8_t>(1 << (at + i) % 8);
    }
  }

  [[nodiscard]] u64 descriptor() const {
    const u64 modes[] = {0, 6, 4, 2, 1};
    const int lines = layout.rows_adjacent ? depth : rows;
    const u64 mode = modes[layout.swizzle == 0     ? 0
                           : layout.swizzle == 32  ? 1
                           : layout.swizzle == 64  ? 2
                           : layout.swizzle == 128 ? 3
                                                   : 4];
    u64 leading = 0;
    u64 stride = 0;
    const int deep = layout.swizzle == 33 ? 4 : 8;
    if (layout.swizzle == 0 && !layout.rows_adjacent) {
      stride = 128;
      leading = static_cast<u64>(rows) / 8 * 128;
    } else if (layout.swizzle == 0) {
      leading = 128;
      stride = static_cast<u64>(depth) / 8 * 128;
    } else {
      stride = static_cast<u64>(deep * line());
      leading = static_cast<u64>(lines / deep) * stride;
    }
    return mode << 61 | 1ULL << 46 | stride / 16 << 32 | leading / 16 << 16;
  }

  /// From the operand of one product to that of the next: `k` elements of K.
  [[nodiscard]] int step(int k) const {
    const int moved = k * container / 8;
    if (layout.swizzle == 0) return layout.rows_adjacent ? k / 8 * 128 : moved / 16 * rows / 8 * 128;
    const int deep = layout.swizzle == 33 ? 4 : 8;
    return layout.rows_adjacent ? k / deep * deep * line() : moved;
  }
};

}  // namespace stitch::emulator::test
