#include "emulator/run/sparse_matrix.h"

namespace stitch::emulator {

std::uint32_t chunk_metadata(const MatrixForm& form, std::span<const std::uint32_t, 32> metadata, std::uint32_t row,
                             std::uint32_t chunk) {
  const std::uint32_t first_lane = row % 8 * 4;
  const std::uint32_t lower = row / 8;
  const std::uint32_t chunks = form.k / sparse_chunk(form.a);
  if (chunks == 4) return metadata[first_lane + form.selector] >> (16 * lower + 4 * chunk) & 15;
  if (chunks == 16) return metadata[first_lane + 2 * (chunk / 8) + lower] >> (4 * (chunk % 8)) & 15;
  const std::uint32_t pair = first_lane + 2U * form.selector;
  const bool wide = form.a == MatrixType::f16 || form.a == MatrixType::bf16 || form.a == MatrixType::tf32;
  if (wide) return metadata[pair + chunk / 4] >> (16 * lower + 4 * (chunk % 4)) & 15;
  return metadata[pair + lower] >> (4 * chunk) & 15;
}

bool is_meaningful(const MatrixForm& form, std::uint32_t bits) {
  const std::uint32_t first = bits & 3;
  const std::uint32_t second = bits >> 2;
  if (form.a == MatrixType::tf32) return bits == 0b0100 || bits == 0b1110;
  return form.ordered ? first < second : first != second;
}

KeptColumns::KeptColumns(const MatrixForm& form, std::span<const std::uint32_t, 32> metadata)
    : count_(form.stored_k()) {
  const std::uint32_t width = sparse_chunk(form.a);
  for (std::uint32_t row = 0; row < columns_.size(); ++row) {
    for (std::uint32_t i = 0; i < count_; ++i) {
      const std::uint32_t chunk = i / (width / 2);
      const std::uint32_t within = i % (width / 2);
      const std::uint32_t bits = chunk_metadata(form, metadata, row, chunk);
      const std::uint32_t place = kept_place(width, bits, within);
      columns_[row][i] = static_cast<std::uint16_t>(chunk * width + place);
    }
  }
}

const double* KeptColumns::select(std::uint32_t row, const double* from) {
  for (std::uint32_t i = 0; i < count_; ++i) selected_[i] = from[columns_[row][i]];
  return selected_.data();
}

}  // namespace stitch::emulator
