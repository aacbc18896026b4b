#pragma once

#include <cstdint>

namespace stitch::emulator {

/// Sizes of a grid, a block or a cluster, or the index of a block or thread in one, as CUDA's dim3: x runs fastest.
struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  [[nodiscard]] constexpr std::uint64_t count() const { return std::uint64_t{x} * y * z; }
  /// The block (thread) whose linear index is `linear`, in a grid (block) of this size.
  [[nodiscard]] constexpr Dim3 index_of(std::uint64_t linear) const {
    Dim3 index;
    index.x = linear % x;
    index.y = linear / x % y;
    index.z = linear / (std::uint64_t{x} * y);
    return index;
  }
  bool operator==(const Dim3&) const = default;
};

}  // namespace stitch::emulator
