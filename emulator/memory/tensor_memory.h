#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/memory/tensor_order.h"

namespace stitch::emulator {

/// A block's tensor memory: 128 lanes of 512 columns of 32 bits, given out by columns (PTX ISA, "Tensor Memory"). An
/// address is a lane in its upper and a column in its lower half. Which word was written is kept for each; who touched
/// it last, for 16 lanes of a column together.
class TensorMemory {
 public:
  static constexpr std::uint32_t lanes = 128;
  static constexpr std::uint32_t columns = 512;
  static constexpr std::uint32_t least_columns = 32;
  static constexpr std::uint32_t cell_lanes = 16;

  /// Who touched 16 lanes of a column. Of more readers than fit the earliest is forgotten.
  struct Cell {
    TensorStamp writer;
    std::array<TensorStamp, 4> readers;
  };

  /// Empty, and nothing is given out. Takes memory when columns are first given out.
  void reset();

  /// The first column of a run of `count` that nobody has here nor in `peer` (if any).
  [[nodiscard]] std::optional<std::uint32_t> find_free(std::uint32_t count, const TensorMemory* peer) const;
  /// Gives out columns; what they hold is not initialised.
  void take(std::uint32_t first, std::uint32_t count);
  /// Takes back what take gave out; false when that was another run.
  bool give_back(std::uint32_t first, std::uint32_t count);
  [[nodiscard]] bool is_taken(std::uint32_t column) const { return column < columns && runs_[column] != 0; }
  [[nodiscard]] std::uint32_t taken() const;

  [[nodiscard]] std::uint32_t read(std::uint32_t lane, std::uint32_t column) const {
    return words_[column * lanes + lane];
  }
  void write(std::uint32_t lane, std::uint32_t column, std::uint32_t value) {
    words_[column * lanes + lane] = value;
    written_[column].set(lane);
  }
  [[nodiscard]] bool is_written(std::uint32_t lane, std::uint32_t column) const { return written_[column][lane]; }
  /// Of a taken column; `lane`: any of the cell's.
  [[nodiscard]] Cell& cell(std::uint32_t lane, std::uint32_t column) {
    return cells_[column * (lanes / cell_lanes) + lane / cell_lanes];
  }

  bool relinquished = false;  ///< tcgen05.relinquish_alloc_permit was executed

  /// Columns that a block of a pair took for its peer, which has yet to ask for them.
  struct Promise {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  std::vector<Promise> promises;

 private:
  /// By column: 1 + the first column of the run that it was given out with; 0: free.
  std::array<std::uint16_t, columns> runs_{};
  std::vector<std::uint32_t> words_;
  std::vector<std::bitset<lanes>> written_;
  std::vector<Cell> cells_;
};

}  // namespace stitch::emulator
