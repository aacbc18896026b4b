#pragma once

#include <cstdint>

namespace stitch::emulator {

/// Where the elements of a tile lie in shared memory: a matrix descriptor of wgmma or tcgen05 (PTX ISA, "Matrix
/// descriptor", "Shared memory descriptor"). The canonical layouts are those of CUTLASS (cute/arch/mma_sm90_desc.hpp,
/// cute/atom/mma_traits_sm100.hpp): 8 × 16-byte core matrices, `leading` and `stride` bytes apart; with a swizzle, rows
/// of that many bytes whose pieces are exchanged by the row number.
struct TileDescriptor {
  std::uint32_t start = 0;  ///< bytes, as all distances
  std::uint32_t leading = 0;
  std::uint32_t stride = 0;
  std::uint32_t swizzle_bytes = 0;   ///< 0 (none), 32, 64 or 128
  std::uint32_t swizzle_piece = 16;  ///< what the swizzle exchanges: 16 bytes, or 32
  bool is_valid = true;              ///< false: its fields have no meaning

  static TileDescriptor of_warp_group(std::uint64_t bits);
  static TileDescriptor of_tensor_core(std::uint64_t bits);

  /// Shared address of the first byte of element (row, k) of an operand whose rows are M or N, of `width` bits each;
  /// `row_contiguous`: neighbours in M or N lie side by side, else those in K.
  [[nodiscard]] std::uint32_t address(std::uint32_t row, std::uint32_t k, std::uint32_t width,
                                      bool row_contiguous) const;
  /// Whether rows of `bytes` along K can be described: there is no distance between pieces of a row that a swizzle does
  /// not cover.
  [[nodiscard]] bool covers(std::uint32_t bytes, bool row_contiguous) const {
    return is_valid && (row_contiguous ? swizzle_piece == 16 || swizzle_bytes == 128
                                       : swizzle_piece == 16 && (swizzle_bytes == 0 || swizzle_bytes >= bytes));
  }

  /// Calls use(address) for every 16 bytes of the tile, until it returns false.
  template <class F>
  void for_each_piece(std::uint32_t rows, std::uint32_t k_count, std::uint32_t width, bool row_contiguous,
                      F&& use) const {
    const std::uint32_t run = 128 / width;
    const std::uint32_t row_step = row_contiguous ? run : 1;
    const std::uint32_t k_step = row_contiguous ? 1 : run;
    for (std::uint32_t row = 0; row < rows; row += row_step) {
      for (std::uint32_t k = 0; k < k_count; k += k_step) {
        if (!use(address(row, k, width, row_contiguous))) return;
      }
    }
  }

 private:
  [[nodiscard]] std::uint32_t swizzled(std::uint32_t at) const;
};

}  // namespace stitch::emulator
