#pragma once

#include "base/result.h"
#include "kernel/program/program.h"

namespace stitch::kernel {

/// Chooses the loads of a mapping with two stages that are made a turn ahead (software pipelining; Lam, PLDI 1988). In
/// a loop around all sweeps they are those of a row that one sweep makes, which else would wait for the row before to
/// be stored; in a loop within a sweep those of its next iteration. `group` has its sweeps, with what they load early;
/// the result is GroupProgram::ahead, or Sweep::ahead of each sweep that has such a loop.
///
/// A load is made ahead where its address follows from the loop's turn alone: of an input or of what earlier phases
/// have left, without a guard, into registers. Errors: constraint (there is none, more than two stages, a recurrent
/// kernel, a scan or scatter).
Status choose_ahead(const GroupStructure& structure, GroupProgram& group, const Schedule& schedule);

}  // namespace stitch::kernel
