#pragma once

#include <cstdint>
#include <string>

#include "emulator/counters.h"

namespace stitch::emulator {

inline constexpr int warp_lanes = 32;

/// How a register's 32 lanes lie in a row: contiguous elements of this width; a predicate row is one 32-bit mask.
enum class Width : std::uint8_t { none, predicate, b16, b32, b64, b128 };

constexpr std::uint32_t row_bytes(Width width) {
  constexpr std::uint32_t table[] = {0, 4, 64, 128, 256, 512};
  return table[static_cast<int>(width)];
}

/// Bits of one lane's element.
constexpr int width_bits(Width width) {
  constexpr int table[] = {0, 1, 16, 32, 64, 128};
  return table[static_cast<int>(width)];
}

/// Rows that a lane operation reads and writes. `d` may be one of the sources; otherwise rows do not overlap.
struct LaneRows {
  void* d = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  const void* e = nullptr;
  std::uint64_t immediate = 0;  ///< lop3's table
};

/// Computes all 32 lanes; lanes that must not change are blended by the caller.
using LaneFunction = void (*)(const LaneRows& rows);

/// One row of the table of element-wise operations: everything that PTX computes per lane, without memory, without
/// other lanes. `name` is the opcode in canonical form: mnemonic, variant, `ftz`, types ("add.ftz.f32",
/// "shf.l.wrap.b32", "cvt.rzi.s32.f32", "setp.ltu.f64"); round-to-nearest is left out.
struct LaneOp {
  std::string name;
  LaneFunction function = nullptr;
  InstructionClass kind = InstructionClass::integer;
  Width d = Width::none;
  Width a = Width::none;
  Width b = Width::none;
  Width c = Width::none;
  Width e = Width::none;
};

}  // namespace stitch::emulator
