#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/loop/recurrent_step.h"
#include "kernel/program/program.h"
#include "kernel/program/schedule.h"
#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// The kernel of groups that derive_group made of the structure's for the mappings of `schedule`, by phase.
KernelProgram join_groups(const KernelStructure& structure, const Schedule& schedule,
                          std::vector<std::vector<GroupProgram>> groups);

/// Gives a kernel's schedule other syncs, and another number of blocks to launch (0: as many as there are tiles).
void synchronise(KernelProgram& kernel, std::vector<Sync> syncs, std::int64_t blocks);

/// Makes a kernel of a recurrent one: `kernel` is a turn in one block, joined from groups of one tile each, of the
/// structure that derive_structure gives for the step's graph.
void make_recurrent(KernelProgram& kernel, std::shared_ptr<const RecurrentStep> step);
/// Applies a schedule to the structure that its options gave. Fails with kind constraint when the mapping does not
/// cover an axis, splits a reduction in a way no level combines, or leaves a held value without a place.
Result<KernelProgram> derive_program(const graph::Graph& graph, const KernelStructure& structure,
                                     const Schedule& schedule);

}  // namespace stitch::kernel
