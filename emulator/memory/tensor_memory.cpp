#include "emulator/memory/tensor_memory.h"

#include <algorithm>

namespace stitch::emulator {

void TensorMemory::reset() {
  if (words_.empty() && !relinquished) return;
  *this = TensorMemory();
}

std::optional<std::uint32_t> TensorMemory::find_free(std::uint32_t count, const TensorMemory* peer) const {
  for (std::uint32_t first = 0; first + count <= columns; first += least_columns) {
    bool free = true;
    for (std::uint32_t column = first; column < first + count; ++column) {
      free &= !is_taken(column) && (peer == nullptr || !peer->is_taken(column));
    }
    if (free) return first;
  }
  return std::nullopt;
}

void TensorMemory::take(std::uint32_t first, std::uint32_t count) {
  if (words_.empty()) {
    // Deterministic filler: reads of it are findings.
    words_.assign(std::size_t{lanes} * columns, 0xCDCDCDCD);
    written_.resize(columns);
    cells_.resize(std::size_t{lanes} / cell_lanes * columns);
  }
  for (std::uint32_t column = first; column < first + count; ++column) {
    runs_[column] = static_cast<std::uint16_t>(first + 1);
    written_[column].reset();
  }
}

bool TensorMemory::give_back(std::uint32_t first, std::uint32_t count) {
  if (first >= columns || count == 0 || first + count > columns) return false;
  const auto whole = std::ranges::count(runs_, static_cast<std::uint16_t>(first + 1));
  if (runs_[first] != first + 1 || whole != count) return false;
  std::fill_n(runs_.begin() + first, count, std::uint16_t{0});
  return true;
}

std::uint32_t TensorMemory::taken() const {
  return columns - static_cast<std::uint32_t>(std::ranges::count(runs_, std::uint16_t{0}));
}

}  // namespace stitch::emulator
