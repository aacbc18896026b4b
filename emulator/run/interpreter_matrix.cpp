#include "emulator/lanes/float_format.h"
#include "emulator/run/interpreter.h"

namespace stitch::emulator {
namespace {

float element_of(std::uint32_t bits, std::uint32_t index, MatrixType type) {
  switch (type) {
    case MatrixType::f16: return half_to_float(bits >> (16 * index));
    case MatrixType::bf16: return bfloat_to_float(bits >> (16 * index));
    // The tensor core reads f32 registers and ignores the lower mantissa bits.
    case MatrixType::tf32: return std::bit_cast<float>(bits & 0xFFFFE000U);
    case MatrixType::s8: return static_cast<std::int8_t>(bits >> (8 * index));
    case MatrixType::u8: return static_cast<std::uint8_t>(bits >> (8 * index));
    default: return std::bit_cast<float>(bits);
  }
}

std::uint32_t elements_per_register(MatrixType type) {
  switch (type) {
    case MatrixType::f16:
    case MatrixType::bf16: return 2;
    case MatrixType::s8:
    case MatrixType::u8: return 4;
    default: return 1;
  }
}

}  // namespace

/// ldmatrix: lanes 8i … 8i+7 give the row addresses of matrix i; lane l receives elements 2(l%4), +1 of row l/4.
/// form 1: transposed. a = addresses, list = one row of registers per matrix, detail = space.
Interpreter::Step Interpreter::load_matrix(const Instruction& in, std::uint32_t lanes) {
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

/// mma.sync m16n8: fragments as the PTX ISA lays them out. Lane l has g = l/4, t = l%4; with e elements per register,
/// register i of A holds row g + 8(i%2), columns 4e(i/2) + et …; of B rows 4ei + et …, column g; of C and D row
/// g + 8(i/2), column 2t + i%2 (two columns per register for f16). Products are exact, sums are formed in f64 and
/// rounded once.
Interpreter::Step Interpreter::mma(const Instruction& in, std::uint32_t lanes) {
  if (lanes != warp_->alive || warp_->alive != 0xFFFFFFFF) {
    report(Detector::invalid_use, std::countr_zero(lanes),
           [&] { return fmt::format("mma.sync by lanes 0x{:08x} only", lanes); });
  }
  const MatrixForm& form = code_.matrices[in.detail];
  const std::uint32_t e = elements_per_register(form.a);
  const std::uint32_t steps = form.k / (4 * e);
  const bool half = form.accumulator == MatrixType::f16;
  const std::uint32_t d_count = half ? 2 : 4;
  const Slot* slots = code_.lists.data() + in.list;
  const Slot* a_slots = slots + d_count;
  const Slot* b_slots = a_slots + 2 * steps;
  const Slot* c_slots = b_slots + steps;
  double a[16][32];
  double b[32][8];
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t g = lane / 4;
    const std::uint32_t t = lane % 4;
    for (std::uint32_t i = 0; i < 2 * steps; ++i) {
      const std::uint32_t bits = row_of<std::uint32_t>(a_slots[i])[lane];
      for (std::uint32_t j = 0; j < e; ++j)
        a[g + 8 * (i % 2)][4 * e * (i / 2) + e * t + j] = element_of(bits, j, form.a);
    }
    for (std::uint32_t i = 0; i < steps; ++i) {
      const std::uint32_t bits = row_of<std::uint32_t>(b_slots[i])[lane];
      for (std::uint32_t j = 0; j < e; ++j) b[4 * e * i + e * t + j][g] = element_of(bits, j, form.b);
    }
  }
  std::array<std::array<std::uint32_t, 32>, 4> results{};
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t r = lane / 4 + 8 * (i / 2);
      const std::uint32_t c = lane % 4 * 2 + i % 2;
      const std::uint32_t slot = half ? i / 2 : i;
      const std::uint32_t old = row_of<std::uint32_t>(c_slots[slot])[lane];
      double sum = form.accumulator == MatrixType::s32 ? static_cast<double>(static_cast<std::int32_t>(old))
                   : half                              ? half_to_float(old >> (16 * (i % 2)))
                                                       : std::bit_cast<float>(old);
      for (std::uint32_t k = 0; k < form.k; ++k) sum += a[r][k] * b[k][c];
      if (half) {
        results[slot][lane] |= std::uint32_t{double_to_half(sum)} << (16 * (i % 2));
      } else if (form.accumulator == MatrixType::s32) {
        results[slot][lane] = static_cast<std::int64_t>(sum);
      } else {
        results[slot][lane] = std::bit_cast<std::uint32_t>(canonical(static_cast<float>(sum)));
      }
    }
  }
  for (std::uint32_t i = 0; i < d_count; ++i) set_row(slots[i], lanes, results[i].data());
  return Step::next;
}

}  // namespace stitch::emulator
