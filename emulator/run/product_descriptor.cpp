#include "emulator/run/product_descriptor.h"

#include <cmath>
#include <limits>
#include <optional>

#include "emulator/run/matrix_element.h"

namespace stitch::emulator {
namespace {

/// A type of A or B by its field in the descriptor; none: the value has no meaning for this kind.
std::optional<MatrixType> operand_type(ProductKind kind, std::uint32_t field) {
  switch (kind) {
    case ProductKind::f16:
      if (field > 1) return std::nullopt;
      return field == 0 ? MatrixType::f16 : MatrixType::bf16;
    case ProductKind::tf32:
      if (field != 2) return std::nullopt;
      return MatrixType::tf32;
    case ProductKind::i8:
      if (field > 1) return std::nullopt;
      return field == 0 ? MatrixType::u8 : MatrixType::s8;
    case ProductKind::mxf4:
    case ProductKind::mxf4nvf4:
      if (field != 1) return std::nullopt;
      return MatrixType::e2m1;
    case ProductKind::f8f6f4:
    case ProductKind::mxf8f6f4: break;
  }
  switch (field) {
    case 0: return MatrixType::e4m3;
    case 1: return MatrixType::e5m2;
    case 3: return MatrixType::e2m3;
    case 4: return MatrixType::e3m2;
    case 5: return MatrixType::e2m1;
    default: return std::nullopt;
  }
}

constexpr bool is_four_bit(ProductKind kind) { return kind == ProductKind::mxf4 || kind == ProductKind::mxf4nvf4; }

constexpr std::uint16_t depth(ProductKind kind) {
  switch (kind) {
    case ProductKind::f16: return 16;
    case ProductKind::tf32: return 8;
    case ProductKind::mxf4:
    case ProductKind::mxf4nvf4: return 64;
    default: return 32;
  }
}

}  // namespace

ProductDescriptor::ProductDescriptor(std::uint32_t bits, const TensorCoreForm& form) : blocks(form.blocks) {
  matrix.sparse = form.sparse;
  matrix.ordered = true;
  matrix.selector = bits & 3;
  matrix.negate_a = (bits >> 13 & 1) != 0;
  matrix.negate_b = (bits >> 14 & 1) != 0;
  matrix.transpose_a = (bits >> 15 & 1) != 0;
  matrix.transpose_b = (bits >> 16 & 1) != 0;
  matrix.n = static_cast<std::uint16_t>((bits >> 17 & 0x3F) * 8);
  matrix.m = static_cast<std::uint16_t>((bits >> 24 & 0x1F) * 16);
  matrix.k = static_cast<std::uint16_t>(depth(form.kind) * (form.sparse ? 2 : 1));
  if (((bits >> 2 & 1) != 0) != form.sparse) mistake = "its sparsity bit is not that of the instruction";
  read_types(bits, form.kind);
  if (scales_blocks(form.kind)) {
    read_scales(bits, form);
  } else {
    matrix.saturate = (bits >> 3 & 1) != 0;
    if (matrix.saturate && form.kind != ProductKind::i8) mistake = "it saturates what are no integers";
    if (bits >> 30 != 0) refused = "tcgen05.mma.ws that shifts B (maximum shift in the instruction descriptor)";
  }
  check_shape(form);
  choose_paths(form);
  if (form.sparse) check_sparse(form);
}

void ProductDescriptor::check_sparse(const TensorCoreForm& form) {
  sparse_width = is_four_bit(form.kind) ? 8 : form.kind == ProductKind::tf32 ? 2 : 4;
  const bool wide = form.kind == ProductKind::f16 || form.kind == ProductKind::tf32;
  if (!wide && !scales_blocks(form.kind) && matrix.selector != 0) mistake = "its sparsity selector is not 0";
  if (wide && matrix.selector > 1) {
    refused = "tcgen05.mma.sp with a sparsity selector of 2 or 3 (what it selects is said in figures only)";
  }
  if (half_lanes) {
    refused = "tcgen05.mma.sp of 64 rows of a block (the layout of its metadata is said in figures only)";
  }
}

ProductDescriptor::MetadataPlace ProductDescriptor::metadata_of(std::uint32_t row, std::uint32_t chunk,
                                                                std::uint32_t path) const {
  const std::uint32_t first = path * (128 / paths);
  if (matrix.k / sparse_width == 16) return {{first + row, chunk / 8}, chunk % 8 * 4};
  return {{first + row / 16 * 16 + chunk / 4 * 8 + row % 8, matrix.selector}, row / 8 % 2 * 16 + chunk % 4 * 4};
}

void ProductDescriptor::read_types(std::uint32_t bits, ProductKind kind) {
  const bool has_three_bits = !is_four_bit(kind);
  const auto a = operand_type(kind, bits >> 7 & 7);
  const auto b = operand_type(kind, bits >> 10 & (has_three_bits ? 7 : 3));
  if (!a || !b || (kind == ProductKind::f16 && *a != *b)) {
    mistake = "its types of A and B are not of the instruction's .kind";
    return;
  }
  matrix.a = *a;
  matrix.b = *b;
  container_bits = is_four_bit(kind) ? 4 : std::max(element_bits(*a), 8U);
  const std::uint32_t d = scales_blocks(kind) ? 1 : bits >> 4 & 3;
  matrix.accumulator = d == 0 ? MatrixType::f16 : d == 1 ? MatrixType::f32 : MatrixType::s32;
  const bool integers = kind == ProductKind::i8;
  const bool to_f16 = kind == ProductKind::f8f6f4 || (kind == ProductKind::f16 && *a == MatrixType::f16);
  if (d == 3 || integers != (d == 2) || (d == 0 && !to_f16))
    mistake = "its type of D is not of the instruction's .kind";
  if (integers && (matrix.negate_a || matrix.negate_b)) mistake = "it negates integers";
  const bool packs = is_four_bit(kind) || element_bits(*a) < 8 || element_bits(*b) < 8;
  if ((matrix.transpose_a || matrix.transpose_b) && packs) mistake = "it transposes elements of less than 8 bits";
}

void ProductDescriptor::read_scales(std::uint32_t bits, const TensorCoreForm& form) {
  e8m0_scales = (bits >> 23 & 1) != 0;
  b_scale_byte = bits >> 4 & 3;
  a_scale_byte = bits >> 29 & 3;
  if (form.kind != ProductKind::mxf4nvf4 && !e8m0_scales) mistake = "its scales have to be ue8m0";
  if (form.scales == 2 && !e8m0_scales) mistake = "its scales have to be ue8m0";
  if (a_scale_byte % form.scales != 0 || b_scale_byte % form.scales != 0) {
    mistake = "its scale factor IDs are no multiple of the scales of a row";
  }
  if (bits >> 31 != 0) refused = "tcgen05.mma with k96 (the layout of its scales is said in figures only)";
}

void ProductDescriptor::check_shape(const TensorCoreForm& form) {
  const std::uint32_t m = matrix.m;
  const std::uint32_t n = matrix.n;
  bool fits = n >= 8 && n <= 256;
  if (form.weight_stationary) {
    fits = blocks == 1 && (m == 32 || m == 64 || m == 128) && (n == 64 || n == 128 || n == 256);
  } else if (blocks == 2) {
    fits &= (m == 128 || m == 256) && n % (form.kind == ProductKind::i8 ? 32 : 16) == 0;
  } else if (scales_blocks(form.kind)) {
    fits &= m == 128;
  } else if (form.kind == ProductKind::i8) {
    fits &= (m == 64 && (n % 16 == 0 || n <= 24)) || (m == 128 && n % 16 == 0);
  } else {
    fits &= m == 64 || (m == 128 && n % 16 == 0);
  }
  if (!fits) mistake = "its shape is not of the instruction's .kind and .cta_group";
}

void ProductDescriptor::choose_paths(const TensorCoreForm& form) {
  const std::uint32_t rows = block_rows();
  if (rows >= 128) return;
  half_lanes = rows == 64 && !form.weight_stationary && (blocks == 1 || form.sparse);
  if (!half_lanes) paths = rows == 64 ? 2 : 4;
  if (mistake != nullptr) paths = 1;
}

double block_scale(std::uint32_t bits, bool e8m0) {
  if (!e8m0) return e4m3_value(bits & 0x7F);
  return (bits & 0xFF) == 0xFF ? std::numeric_limits<double>::quiet_NaN()
                               : std::ldexp(1.0, static_cast<int>(bits & 0xFF) - 127);
}

}  // namespace stitch::emulator
