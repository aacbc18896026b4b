#pragma once

#include <vector>

#include "kernel/program/program.h"

namespace stitch::kernel {

/// Loads that a thread makes once, before its outer loops or before the turns of a recurrent kernel, and keeps in
/// registers from then on: what does not change along these loops, as far as registers reach. Before outer loops only
/// where the mapping hoists (GroupMapping::hoists). `group` has its mapping and its axes classified; the result is
/// GroupProgram::hoisted.
std::vector<ItemId> choose_hoisted(const GroupStructure& structure, const GroupProgram& group,
                                   const Schedule& schedule);

}  // namespace stitch::kernel
