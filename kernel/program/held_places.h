#pragma once

#include "kernel/program/program.h"

namespace stitch::kernel {

/// Gives what a group holds in shared memory its place there (HeldItem::shared_offset, GroupProgram::held_bytes).
/// `group` has its held items and its axes classified. Fails with kind constraint where a value held in registers is
/// swept by a loop.
Status place_held(const GroupStructure& structure, GroupProgram& group);

}  // namespace stitch::kernel
