#pragma once

#include <cstdint>

#include "emulator/memory/early_accesses.h"
#include "emulator/memory/memory_region.h"
#include "emulator/memory/unit_clock.h"

namespace stitch::emulator {

/// Who accesses global memory, and how.
struct GlobalAccessor {
  const UnitClock* clock = nullptr;
  std::uint32_t agent = 0;
  std::uint32_t block = 0;         ///< within the unit
  Epoch epoch;                     ///< of this access
  std::uint32_t generation = 0;    ///< of the launch
  bool read_only = false;          ///< ld.global.nc
  EarlyAccesses* early = nullptr;  ///< where it is noted: nobody has waited for what the launch depends on
  bool times_matter = false;       ///< some blocks wait for others: the order of a block's own accesses counts
};

enum class GlobalFault : std::uint8_t { uninitialised, race, read_only_violation };

/// What a check of a run of bytes found; for each fault the first byte concerned (offset in the region).
struct GlobalOutcome {
  std::uint32_t faults = 0;  ///< 1 << GlobalFault
  std::uint64_t offset[3] = {};
  Epoch other;  ///< the access raced with
  bool other_wrote = false;
  std::uint32_t new_read_sectors = 0;  ///< touched for the first time in the launch
  std::uint32_t new_written_sectors = 0;

  [[nodiscard]] bool has(GlobalFault fault) const { return ((faults >> static_cast<int>(fault)) & 1) != 0; }
  void add(GlobalFault fault, std::uint64_t at) {
    if (has(fault)) return;
    faults |= 1U << static_cast<int>(fault);
    offset[static_cast<int>(fault)] = at;
  }
};

/// Checks and records an access to [offset, offset + bytes) of a region, which lies inside it and in prepared pages
/// whose locks the caller holds. A read-modify-write is a read followed by a write.
void check_global_read(MemoryRegion& region, std::uint64_t offset, std::uint32_t bytes, const GlobalAccessor& who,
                       GlobalOutcome& outcome);
void check_global_write(MemoryRegion& region, std::uint64_t offset, std::uint32_t bytes, const GlobalAccessor& who,
                        GlobalOutcome& outcome);

}  // namespace stitch::emulator
