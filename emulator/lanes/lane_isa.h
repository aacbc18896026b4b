#pragma once

#include <cstdint>
#include <vector>

#include "emulator/lanes/lane_op.h"

namespace stitch::emulator {

enum class Rounding : std::uint8_t { nearest, zero, down, up };

/// The host's floating-point rounding mode, for instructions with .rz, .rm or .rp; returns the mode before.
int set_host_rounding(Rounding rounding);
void restore_host_rounding(int previous);

/// The parts of a row's name; joined by dots, empty ones left out.
struct LaneName {
  const char* parts[5] = {};

  [[nodiscard]] constexpr LaneName then(const char* part) const {
    LaneName result = *this;
    for (const char*& slot : result.parts) {
      if (slot == nullptr) {
        slot = part;
        break;
      }
    }
    return result;
  }
};

using LaneTable = std::vector<LaneOp>;
/// Appends one row (out of line, so that the code compiled per instruction set instantiates nothing of the library).
void add_lane_op(LaneTable& table, const LaneName& name, LaneFunction function, InstructionClass kind, Width d, Width a,
                 Width b = Width::none, Width c = Width::none, Width e = Width::none);

/// The rows as compiled for each instruction set (lane_table.inl).
void fill_lane_table_portable(LaneTable& table);
#if defined(__x86_64__)
void fill_lane_table_avx2(LaneTable& table);
void fill_lane_table_avx512(LaneTable& table);
#endif

}  // namespace stitch::emulator
