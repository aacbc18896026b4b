#pragma once

#include <cstdint>

#include "emulator/decode/instruction.h"
#include "emulator/decode/tensor_core.h"

namespace stitch::emulator {

/// A word of tensor memory.
struct TmemPlace {
  std::uint32_t lane = 0;
  std::uint32_t column = 0;
};

/// A product of tcgen05.mma: its instruction descriptor read with the instruction's modifiers (PTX ISA, "Instruction
/// descriptor"; the fields also as UMMA::InstrDescriptor of CUTLASS's cute/arch/mma_sm100_desc.hpp has them), and where
/// in tensor memory its matrices lie ("Data Path Layout Organization").
struct ProductDescriptor {
  MatrixForm matrix;  ///< m is that of the pair where two blocks work together
  std::uint32_t blocks = 1;
  std::uint32_t container_bits = 0;  ///< from element to element of A and B in memory: f8f6f4 has bytes for all types
  std::uint32_t paths = 1;           ///< parts of N that lie in lanes of their own
  std::uint32_t sparse_width = 4;    ///< elements of a chunk of a sparse row, half of which are stored
  bool half_lanes = false;           ///< only 16 lanes of each 32 are used
  bool e8m0_scales = false;          ///< scales are powers of two, else ue4m3
  std::uint32_t a_scale_byte = 0;    ///< of the word that holds a row's scales
  std::uint32_t b_scale_byte = 0;
  /// What is wrong with the descriptor, or null.
  const char* mistake = nullptr;
  /// What of it is not emulated, or null.
  const char* refused = nullptr;

  ProductDescriptor(std::uint32_t bits, const TensorCoreForm& form);

  /// Rows of A and D in a block.
  [[nodiscard]] std::uint32_t block_rows() const { return matrix.m / blocks; }
  [[nodiscard]] std::uint32_t path_columns() const { return matrix.n / paths; }
  /// Where row `row` of a block's part is in the lanes of a path, from the matrix's first lane.
  [[nodiscard]] std::uint32_t lane_of(std::uint32_t row, std::uint32_t path) const {
    return half_lanes ? row / 16 * 32 + row % 16 : row + path * (128 / paths);
  }
  /// Element (row, n) of a block's part of D, from the matrix's first lane and column.
  [[nodiscard]] TmemPlace place_of(std::uint32_t row, std::uint32_t n) const {
    return {lane_of(row, n / path_columns()), n % path_columns()};
  }

  /// Where the four bits of metadata of a chunk of row `row` of a sparse A begin, from its first column on: a column
  /// and a bit in it (UMMA::tmem_e_frg of CUTLASS's cute/atom/mma_traits_sm100.hpp). With 8 chunks a row they share 32
  /// bits with those of the row 8 below; with 16 they are two columns of the row's lane.
  struct MetadataPlace {
    TmemPlace word;
    std::uint32_t bit = 0;
  };
  [[nodiscard]] MetadataPlace metadata_of(std::uint32_t row, std::uint32_t chunk, std::uint32_t path) const;

 private:
  void check_sparse(const TensorCoreForm& form);
  void read_types(std::uint32_t bits, ProductKind kind);
  void read_scales(std::uint32_t bits, const TensorCoreForm& form);
  void check_shape(const TensorCoreForm& form);
  void choose_paths(const TensorCoreForm& form);
};

/// The scale factor in a byte.
double block_scale(std::uint32_t bits, bool e8m0);

}  // namespace stitch::emulator
