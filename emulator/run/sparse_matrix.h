#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "emulator/decode/instruction.h"

/// Matrices A of which half is not stored: mma.sp and wgmma.mma_async.sp (PTX ISA, "Sparse matrix storage"). Of each
/// chunk of 4 elements 2 are kept, of tf32 1 of 2, of 4-bit types 2 pairs of 4; four bits of metadata say which.
namespace stitch::emulator {

/// The four bits of a chunk of a row (0 … 15) of the 16 that a warp knows; `metadata`: a word per lane. With t the lane
/// of four and g the row modulo 8, metadata of a row is (figures "metadata layout"; ELayout_* of CUTLASS's
/// cute/atom/mma_traits_sm90_gmma_sparse.hpp):
///   4 chunks a row:  t = selector; bits 0 … 15 are row g, bits 16 … 31 row g + 8
///   8 chunks of 16 or 32 bits:  t = 2 × selector + half of the row; bits likewise
///   8 chunks of 4 or 8 bits:  t = 2 × selector + (row ≥ 8), the first half of what follows
///   16 chunks:  t = 2 × half of the row + (row ≥ 8)
std::uint32_t chunk_metadata(const MatrixForm& form, std::span<const std::uint32_t, 32> metadata, std::uint32_t row,
                             std::uint32_t chunk);

/// Whether these four bits mean something: two different indices, ascending where the form wants that; of tf32 0b0100
/// and 0b1110.
bool is_meaningful(const MatrixForm& form, std::uint32_t bits);

/// The column of its chunk of `width` elements that the `index`th of those kept has; of tf32 (width 2) the bits'
/// indices count halves of an element, of width 8 pairs.
constexpr std::uint32_t kept_place(std::uint32_t width, std::uint32_t bits, std::uint32_t index) {
  if (width == 2) return (bits & 3) / 2;
  const std::uint32_t run = width == 8 ? 2 : 1;
  return (bits >> (2 * (index / run)) & 3) * run + index % run;
}

/// Columns of A (rows of B) of the stored_k elements of each row. What is not stored is not multiplied: there is no
/// 0 · infinity.
class KeptColumns {
 public:
  KeptColumns(const MatrixForm& form, std::span<const std::uint32_t, 32> metadata);

  /// Those of `from`, a column of B, that row `row` of A is multiplied by. Valid until the next call.
  const double* select(std::uint32_t row, const double* from);

 private:
  static constexpr std::size_t most_kept = 64;
  std::uint32_t count_;
  std::array<std::array<std::uint16_t, most_kept>, 16> columns_;
  std::array<double, most_kept> selected_;
};

}  // namespace stitch::emulator
