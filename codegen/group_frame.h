#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/program/residence.h"

namespace stitch::codegen {

/// What the kernel around a group's code decides for it.
struct GroupFrame {
  std::int64_t shared_held = 0;          ///< offset of the held values in dynamic shared memory
  std::int64_t shared_exchange = 0;      ///< offset of the two exchange buffers
  std::int64_t shared_retained = 0;      ///< offset of what is retained from phase to phase
  std::int64_t tiles_at_once = 0;        ///< of a phase that loops over tiles: its step; 0: it does not
  bool runtime_extent = false;           ///< the single axis' extent is the variable `extent` (packed groups)
  bool after_sync = false;               ///< scratch and outputs may have been written by other blocks of this launch
  bool only_group = false;               ///< nothing of the kernel but this group's code uses shared memory
  bool awaits = false;                   ///< the group's code waits for the launch before (codegen/device/launch.cuh)
  bool private_table = false;            ///< updates are combined into the block's own table (program/private_table.h)
  bool backwards = false;                ///< interleaved axes are walked from their ends
  std::vector<kernel::ItemId> unwaited;  ///< loads that stand before that wait (kernel/program/unwaited_loads.h)
  std::span<const kernel::Buffer> passing;      ///< PhaseProgram::passing: stored past the caches
  std::span<const kernel::Buffer> overlapping;  ///< inputs and outputs that may lie in one place (in_place_pairs)
  /// Where buffers lie, and whether turns are taken: then hoisted loads have been made before the first one, into
  /// arrays of their names.
  kernel::Residence residence;
};

}  // namespace stitch::codegen
