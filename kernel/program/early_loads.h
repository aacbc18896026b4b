#pragma once

#include <vector>

#include "kernel/program/program.h"
#include "kernel/structure/item_flow.h"

namespace stitch::kernel {

/// Chooses which loads of a sweep are issued together before its arithmetic, and which of them go straight to shared
/// memory (Sweep::early, Sweep::copied). `group` has its accesses, held items and sweeps; `sweep` is one of these,
/// `number` which one. `is_held`: by ItemId, whether it is held across some boundary between sweeps.
void choose_early(const ItemFlow& flow, const GroupStructure& structure, const GroupProgram& group,
                  const Schedule& schedule, const std::vector<bool>& is_held, int number, Sweep& sweep);

}  // namespace stitch::kernel
