#pragma once

#include <span>
#include <string_view>

#include "emulator/lanes/host_isa.h"
#include "emulator/lanes/lane_op.h"

namespace stitch::emulator {

/// The table, compiled for an instruction set of the host; every table has the same rows in the same order, and they
/// compute the same bits. `best` and instruction sets that the host lacks give the best one it has.
std::span<const LaneOp> lane_ops(HostIsa isa);

/// Index into the tables, or -1.
int find_lane_op(std::string_view name);

}  // namespace stitch::emulator
