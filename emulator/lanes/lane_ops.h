#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "emulator/run/counters.h"
#include "emulator/run/launch.h"

namespace stitch::emulator {

inline constexpr int warp_lanes = 32;

/// How a register's 32 lanes lie in a row: contiguous elements of this width; a predicate row is one 32-bit mask.
enum class Width : std::uint8_t { none, predicate, b16, b32, b64, b128 };

constexpr std::uint32_t row_bytes(Width width) {
  constexpr std::uint32_t table[] = {0, 4, 64, 128, 256, 512};
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

/// The table, compiled for an instruction set of the host; every table has the same rows in the same order, and they
/// compute the same bits. `best` and instruction sets that the host lacks give the best one it has.
std::span<const LaneOp> lane_ops(HostIsa isa);

/// Index into the tables, or -1.
int find_lane_op(std::string_view name);

}  // namespace stitch::emulator
