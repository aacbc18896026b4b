#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

/// The tensor maps that cp.async.bulk.tensor takes: 128 opaque bytes, whose layout on the hardware is not published.
/// This one is our own, for kernels that only hand them on; cuTensorMapEncodeTiled on the emulated device writes it,
/// and tensormap.replace changes it:
///
///   0  u64 address   8  u64[4] strides of dimensions 1 … 4, bytes   40  u32[5] sizes - 1   60  u8[5] box - 1
///   65 u8[5] element strides - 1   70 u8 rank - 1   71 u8 type   72 u8 interleave   73 u8 swizzle   74 u8 fill
///
/// Everything else is zero, so that zeroed memory with all fields replaced is a map.
namespace stitch::emulator {

/// Element types in the order of the values that tensormap.replace.elemtype takes (PTX ISA); cuda.h's enumeration
/// differs.
enum class TensorMapType : std::uint8_t { u8, u16, u32, s32, u64, s64, f16, f32, f32_ftz, f64, bf16, tf32, tf32_ftz };
inline constexpr int tensor_map_types = static_cast<int>(TensorMapType::tf32_ftz) + 1;

/// Bytes of an element; 0 for no type.
std::uint32_t element_bytes(TensorMapType type);

/// How 16-byte pieces of shared memory are exchanged: within rows of 32, 64 or 128 bytes by the row's number.
enum class TensorMapSwizzle : std::uint8_t { none, bytes_32, bytes_64, bytes_128 };

struct TensorMap {
  static constexpr std::size_t bytes = 128;
  static constexpr std::uint32_t most_dimensions = 5;

  TensorMapType type = TensorMapType::f32;
  std::uint32_t rank = 1;
  std::uint64_t address = 0;
  std::array<std::uint64_t, most_dimensions> sizes{1, 1, 1, 1, 1};  ///< elements, the contiguous dimension first
  std::array<std::uint64_t, most_dimensions> strides{};           ///< bytes; that of dimension 0 is the element's size
  std::array<std::uint32_t, most_dimensions> box{1, 1, 1, 1, 1};  ///< elements
  std::array<std::uint32_t, most_dimensions> element_strides{1, 1, 1, 1, 1};
  std::uint32_t interleave = 0;  ///< only 0, none, is supported
  TensorMapSwizzle swizzle = TensorMapSwizzle::none;
  bool fills_nan = false;  ///< elements outside are NaN instead of 0

  /// Elements of dimension `d` that a copy moves.
  [[nodiscard]] std::uint32_t moved(std::uint32_t d) const {
    return (box[d] + element_strides[d] - 1) / element_strides[d];
  }
  [[nodiscard]] std::uint64_t box_bytes() const;

  bool operator==(const TensorMap&) const = default;
};

/// The limits of cuTensorMapEncodeTiled (CUDA driver API): alignment of address and strides, sizes, box, swizzle.
/// Errors: invalid_argument, unsupported (interleaved layouts); they name the field.
Status check(const TensorMap& map);

/// What a map's bytes say, sound or not.
TensorMap decode_tensor_map(std::span<const std::byte, TensorMap::bytes> bytes);
void encode_tensor_map(const TensorMap& map, std::span<std::byte, TensorMap::bytes> bytes);

/// Where byte `offset` of a box lies that begins at `start` in shared memory.
constexpr std::uint32_t swizzled(TensorMapSwizzle swizzle, std::uint32_t start, std::uint32_t offset) {
  const std::uint32_t at = start + offset;
  const std::uint32_t rows = (1U << static_cast<int>(swizzle)) - 1;
  return (at ^ ((at >> 7 & rows) << 4)) - start;
}

}  // namespace stitch::emulator
