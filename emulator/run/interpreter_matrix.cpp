#include <cmath>
#include <optional>

#include "emulator/run/interpreter.h"
#include "emulator/run/matrix_element.h"
#include "emulator/run/sparse_matrix.h"

namespace stitch::emulator {

/// ldmatrix: lanes 8i … 8i+7 give the row addresses of matrix i; lane l receives elements 2(l%4), +1 of row l/4.
/// form 1: transposed. a = addresses, list = one row of registers per matrix, detail = space.
Interpreter::Step Interpreter::load_matrix(const Instruction& in, std::uint32_t lanes) {
  if (awaits_warp()) return Step::wait;
  if (lanes != warp_->alive) {
    report(Detector::invalid_use, std::countr_zero(lanes),
           [&] { return fmt::format("ldmatrix by lanes 0x{:08x} only", lanes); });
  }
  MemoryAccess access;
  access.element_bytes = 16;
  Addresses addresses;
  std::memcpy(addresses.at.data(), row(in.a), sizeof(addresses.at));
  const std::uint32_t used = lanes & (in.list_count == 4 ? 0xFFFFFFFFU : in.list_count == 2 ? 0xFFFFU : 0xFFU);
  const std::uint32_t usable = drop_misaligned(addresses, used, 16);
  const auto space = in.detail_as<Space>();
  if (space == Space::generic) {
    for_each_space(addresses, usable, [&](Space actual, const Addresses& within, std::uint32_t together) {
      load_space(actual, access, within, together);
    });
  } else {
    load_space(Space::shared, access, addresses, usable);
  }
  for (std::uint32_t matrix = 0; matrix < in.list_count; ++matrix) {
    std::array<std::uint32_t, 32> values{};
    const auto element = [&](std::uint32_t r, std::uint32_t c) {
      std::uint16_t value = 0;
      std::memcpy(&value, staging_.data() + (matrix * 8 + r) * 16 + c * 2, sizeof(value));
      return value;
    };
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      const std::uint32_t r = lane / 4;
      const std::uint32_t c = lane % 4 * 2;
      const std::uint16_t low = in.form == 1 ? element(c, r) : element(r, c);
      const std::uint16_t high = in.form == 1 ? element(c + 1, r) : element(r, c + 1);
      values[lane] = low | std::uint32_t{high} << 16;
    }
    set_row(code_.lists[in.list + matrix], lanes, values.data());
  }
  return Step::next;
}

/// stmatrix: the reverse of ldmatrix.
Interpreter::Step Interpreter::store_matrix(const Instruction& in, std::uint32_t lanes) {
  if (awaits_warp()) return Step::wait;
  if (lanes != warp_->alive) {
    report(Detector::invalid_use, std::countr_zero(lanes),
           [&] { return fmt::format("stmatrix by lanes 0x{:08x} only", lanes); });
  }
  for (std::uint32_t matrix = 0; matrix < in.list_count; ++matrix) {
    const auto* values = row_of<std::uint32_t>(code_.lists[in.list + matrix]);
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t i = 0; i < 2; ++i) {
        const std::uint32_t r = in.form == 1 ? lane % 4 * 2 + i : lane / 4;
        const std::uint32_t c = in.form == 1 ? lane / 4 : lane % 4 * 2 + i;
        const std::uint16_t value = values[lane] >> (16 * i);
        std::memcpy(staging_.data() + (matrix * 8 + r) * 16 + c * 2, &value, sizeof(value));
      }
    }
  }
  MemoryAccess access;
  access.element_bytes = 16;
  Addresses addresses;
  std::memcpy(addresses.at.data(), row(in.a), sizeof(addresses.at));
  const std::uint32_t used = lanes & (in.list_count == 4 ? 0xFFFFFFFFU : in.list_count == 2 ? 0xFFFFU : 0xFFU);
  const std::uint32_t usable = drop_misaligned(addresses, used, 16);
  if (in.detail_as<Space>() == Space::generic) {
    for_each_space(addresses, usable, [&](Space actual, const Addresses& within, std::uint32_t together) {
      store_space(actual, access, within, together);
    });
  } else {
    store_space(Space::shared, access, addresses, usable);
  }
  return Step::next;
}

/// Operands of an mma, dense and as numbers.
struct Interpreter::Factors {
  static constexpr std::size_t most_k = 256;
  double a[16][most_k];
  double b[8][most_k];
};

/// Fragments as the PTX ISA lays them out. Lane l has g = l/4, t = l%4; with e elements per register and m/8 = R rows
/// of registers, register i of A holds row g + 8(i%R), columns 4e(i/R) + et …; of B rows 4ei + et …, column g.
void Interpreter::read_factors(const MatrixForm& form, const Slot* a_slots, const Slot* b_slots,
                               Factors& factors) const {
  const std::uint32_t width = element_bits(form.a);
  const std::uint32_t e = width == 64 ? 1 : 32 / width;
  const std::uint32_t rows = form.m / 8;
  const std::uint32_t steps = form.k / (4 * e);
  const std::uint32_t a_steps = form.stored_k() / (4 * e);
  const auto word = [&](Slot slot, std::uint32_t lane) {
    return width == 64 ? row_of<std::uint64_t>(slot)[lane] : row_of<std::uint32_t>(slot)[lane];
  };
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t g = lane / 4;
    const std::uint32_t t = lane % 4;
    for (std::uint32_t i = 0; i < rows * a_steps; ++i) {
      const std::uint64_t bits = word(a_slots[i], lane);
      double* to = factors.a[g + 8 * (i % rows)] + 4 * e * (i / rows) + e * t;
      for (std::uint32_t j = 0; j < e; ++j) to[j] = element_value(form.a, bits >> (width * j));
    }
    for (std::uint32_t i = 0; i < steps; ++i) {
      const std::uint64_t bits = word(b_slots[i], lane);
      double* to = factors.b[g] + 4 * e * i + e * t;
      for (std::uint32_t j = 0; j < e; ++j) to[j] = element_value(form.b, bits >> (width * j));
    }
  }
}

/// The metadata of a sparse product; what the ISA gives no meaning is reported, at its first chunk.
std::span<const std::uint32_t, 32> Interpreter::sparse_metadata(const MatrixForm& form, Slot slot) {
  const std::span<const std::uint32_t, 32> metadata(row_of<std::uint32_t>(slot), 32);
  for (std::uint32_t r = 0; r < 16; ++r) {
    for (std::uint32_t chunk = 0; chunk < form.k / sparse_chunk(form.a); ++chunk) {
      const std::uint32_t bits = chunk_metadata(form, metadata, r, chunk);
      if (is_meaningful(form, bits)) continue;
      report(Detector::invalid_use, r % 8 * 4, [&] {
        return fmt::format("sparsity metadata 0b{:04b} of row {}, chunk {} mean nothing", bits, r, chunk);
      });
      return metadata;
    }
  }
  return metadata;
}

/// mma.sync: register i of C and D holds row g + 8(i/2), column 2t + i%2 (two columns per register for f16). Products
/// are exact, sums are formed in f64 and rounded once; those of f64 are chains of fma.
Interpreter::Step Interpreter::mma(const Instruction& in, std::uint32_t lanes) {
  if (awaits_warp()) return Step::wait;
  if (lanes != warp_->alive || warp_->alive != 0xFFFFFFFF) {
    report(Detector::invalid_use, std::countr_zero(lanes),
           [&] { return fmt::format("mma.sync by lanes 0x{:08x} only", lanes); });
  }
  const MatrixForm& form = code_.matrices[in.detail];
  const std::uint32_t width = element_bits(form.a);
  const std::uint32_t rows = form.m / 8;
  const std::uint32_t steps = form.k / (4 * (width == 64 ? 1 : 32 / width));
  const bool half = form.accumulator == MatrixType::f16;
  const std::uint32_t d_count = half ? rows : 2 * rows;
  const Slot* slots = code_.lists.data() + in.list;
  const Slot* a_slots = slots + d_count;
  const Slot* b_slots = a_slots + rows * form.stored_k() / (4 * (width == 64 ? 1 : 32 / width));
  const Slot* c_slots = b_slots + steps;
  Factors factors;
  read_factors(form, a_slots, b_slots, factors);
  std::optional<KeptColumns> kept;
  if (form.sparse) kept.emplace(form, sparse_metadata(form, c_slots[d_count]));
  std::array<std::array<std::uint64_t, 32>, 4> results{};
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::uint32_t i = 0; i < 2 * rows; ++i) {
      const std::uint32_t r = lane / 4 + 8 * (i / 2);
      const double* a = factors.a[r];
      const double* b = factors.b[lane % 4 * 2 + i % 2];
      if (kept) b = kept->select(r, b);
      const std::uint32_t slot = half ? i / 2 : i;
      const std::uint32_t shift = half ? 16 * (i % 2) : 0;
      const std::uint64_t old = form.accumulator == MatrixType::f64 ? row_of<std::uint64_t>(c_slots[slot])[lane]
                                                                    : row_of<std::uint32_t>(c_slots[slot])[lane];
      const double sum = add_products(form, a, b, element_value(form.accumulator, old >> shift));
      results[slot][lane] |= accumulator_bits(form, sum) << shift;
    }
  }
  for (std::uint32_t i = 0; i < d_count; ++i) {
    if (form.accumulator == MatrixType::f64) {
      set_row(slots[i], lanes, results[i].data());
      continue;
    }
    std::array<std::uint32_t, 32> words;
    for (std::uint32_t lane = 0; lane < 32; ++lane) words[lane] = static_cast<std::uint32_t>(results[i][lane]);
    set_row(slots[i], lanes, words.data());
  }
  return Step::next;
}

}  // namespace stitch::emulator
