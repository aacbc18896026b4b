#pragma once

#include <cstdint>
#include <vector>

#include "emulator/decode/instruction_draft.h"

namespace stitch::emulator {

/// Where the virtual registers of a function lie in a warp's register file.
struct RegisterAllocation {
  std::vector<Slot> slots;             ///< by virtual register
  std::uint32_t end = 0;               ///< first byte after the function's rows
  std::vector<std::uint32_t> tracked;  ///< named registers that some path reads before it writes them
};

/// Maps registers to rows by linear scan over live intervals, so that a kernel of thousands of virtual registers needs
/// few rows and they stay in the host's caches. Intervals follow the control flow of one thread, which is right for
/// diverged warps too: a row's lanes are independent, and each lane is at one place only.
///
/// Expects resolved branch targets (indices into function.drafts, tables in `tables`). A destination may share its row
/// with a source that dies there, so implementations read all sources of a lane before they write it.
RegisterAllocation allocate_registers(const FunctionDraft& function,
                                      const std::vector<std::vector<std::uint32_t>>& tables, std::uint32_t base);

}  // namespace stitch::emulator
