#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kernel/program/schedule.h"
#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// Products that tensor cores take in every turn of a recurrent kernel: of a state, rows × depth elements in the
/// block's shared memory, with weights that are the same in all turns, depth × columns. Several share the state (the
/// three gates of a GRU), and their columns stand side by side. Of an LSTM of 256 units, 32 rows of the batch a cluster
/// of eight
///
///     gates[row, column] = Σ_k h[row, k] · weights[k, column],   column: 4 gates of a block's 32 units
///
/// is weightsᵀ · hᵀ by mma.sync m16n8k16: 16 columns and 8 rows an instruction, so that a block of 8 rows wastes
/// nothing, with the weights' fragments in the registers of the warps in all turns (codegen/device/state_product.cuh).
/// Warps take columns, and parts of the depth where there are more of them; their sums go to shared memory, where the
/// threads of the group's mapping find those of their elements behind a block barrier. Products of 16-bit floats are
/// exact in f32, sums are f32: as on CUDA cores, but in another order.
struct StateProducts {
  /// A sum of products.
  struct Part {
    int anchor = -1;      ///< which reduces
    ItemId weights = -1;  ///< the load of its right operand
    bool operator==(const Part&) const = default;
  };

  // What the structure says.
  ItemId state = -1;  ///< the load of the operand that all parts share
  int row_axis = -1, column_axis = -1, depth_axis = -1;
  std::vector<Part> parts;
  graph::DType dtype = graph::DType::f16;  ///< of both operands: f16 or bf16
  std::int64_t pitch = 0;                  ///< elements of the state from one row to the next
  std::int64_t depth = 0;

  // What follows for a mapping.
  std::int64_t rows = 0, columns = 0;     ///< of a block; columns of one part
  int threads = 0;                        ///< of a block
  int column_warps = 1, depth_warps = 1;  ///< warps that share the columns, and the depth of each column
  int tiles = 1;                          ///< of 16 columns, of a warp
  int chunks = 1;                         ///< of `chunk` of depth, of a warp
  int tiles_at_once = 1;                  ///< of 8 rows, whose sums a warp has in registers together
  bool in_registers = true;               ///< the weights' fragments; else in shared memory
  std::int64_t shared_offset = 0;         ///< of the sums, bytes, as HeldItem's

  static constexpr int tile_columns = 16, tile_rows = 8;
  static constexpr int chunk = 32;              ///< two instructions' depth
  static constexpr int least_rows = tile_rows;  ///< of a block: fewer leave most of an instruction idle

  bool operator==(const StateProducts&) const = default;

  [[nodiscard]] int row_tiles() const { return static_cast<int>((rows + tile_rows - 1) / tile_rows); }
  [[nodiscard]] int steps() const { return chunks * 2; }
  [[nodiscard]] int warps() const { return column_warps * depth_warps; }
  /// A thread's registers for fragments of weights, if that is where they are; and for what it multiplies with them.
  [[nodiscard]] std::int64_t fragment_registers() const { return in_registers ? std::int64_t{4} * tiles * steps() : 0; }
  [[nodiscard]] std::int64_t working_registers() const;
  /// Shared memory for the fragments of all warps, if they are there.
  [[nodiscard]] std::int64_t fragment_bytes() const;
  /// Shared memory for the sums; f32 from one row of them to the next, and of one part of the depth.
  [[nodiscard]] std::int64_t sum_bytes() const;
  [[nodiscard]] std::int64_t sum_pitch() const;
  [[nodiscard]] std::int64_t sums_of_depth_warp() const { return std::int64_t{row_tiles()} * tile_rows * sum_pitch(); }
  /// Consecutive elements of the state that a lane loads at once.
  [[nodiscard]] int run() const;
  /// Rows that a quarter of a warp reads together are in different banks: they are so far apart. 0: none are, and lanes
  /// of every second row take two chunks in the other order.
  [[nodiscard]] int paired_rows() const;
};

/// Those of a group of which every reduction is such a product; empty of any other.
std::vector<StateProducts> find_state_products(const GroupStructure& structure);

/// Which warps multiply what under a mapping, and where weights and sums are. Fails with kind constraint where a block
/// has too few rows, or the mapping divides the depth.
Result<std::vector<StateProducts>> plan_state_products(const GroupStructure& structure, const GroupMapping& mapping,
                                                       const Schedule& schedule);

/// Whether tensor cores take an anchor's sums.
bool is_product_of(const std::vector<StateProducts>& products, int anchor);
/// By item of the group's program, whether anything needs it but these products.
std::vector<bool> needed_beside(const std::vector<StateProducts>& products, const GroupStructure& structure);

}  // namespace stitch::kernel
