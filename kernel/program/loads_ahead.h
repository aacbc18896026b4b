#pragma once

#include <string>

#include "base/result.h"
#include "kernel/pipeline/nest.h"
#include "kernel/program/program.h"

namespace stitch::kernel {

/// Chooses the loads of a mapping with several stages that are made turns ahead (software pipelining; Lam, PLDI 1988).
/// In a loop around all sweeps they are those of a row that one sweep makes, which else would wait for the row before
/// to be stored; in a loop within a sweep those of its next iterations. `group` has its sweeps, with what they load
/// early; the result is GroupProgram::ahead, or Sweep::ahead of each sweep that has such a loop.
///
/// A load is made ahead where its address follows from the loop's turn alone: of an input or of what earlier phases
/// have left, without a guard. With stages in shared memory it goes there by asynchronous copies where it consists of
/// whole accesses of 4, 8 or 16 bytes of an input, and else, as all do with stages in registers, one turn ahead into
/// registers; of rows that are held in shared memory between sweeps, in loops within them, only copies are. What is
/// held in shared memory and copied ahead stays in its stage as long as its turn lasts (Sweep::copied has it).
///
/// Errors: constraint (there is none; more than two stages in registers or four in shared memory; more stages than
/// turns; a recurrent kernel, a scan or scatter).
Status choose_ahead(const GroupStructure& structure, GroupProgram& group, const Schedule& schedule);

/// Gives the stages their places in shared memory, behind what is held (GroupProgram::held_bytes). Rings of loops
/// within sweeps, of which one is done before the next begins, share theirs.
void place_stages(GroupProgram& group);

/// A loop of so many turns with its stages, as kernel/pipeline's passes make it: buffer 0 is device memory, 1 the ring;
/// the one loop is named `loop`, and its one compute stands for what the turn does. Every thread waits for its own
/// copies alone: what the waits say of the block is not needed. Error: constraint (more stages than turns).
Result<pipeline::TileNest> staged_loop(std::string loop, std::int64_t turns, int stages);

}  // namespace stitch::kernel
