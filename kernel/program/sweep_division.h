#pragma once

#include <vector>

#include "kernel/program/program.h"
#include "kernel/structure/item_flow.h"

namespace stitch::kernel {

/// What a group keeps between its sweeps, and what each sweep computes. Places of what is held, and which loads a sweep
/// makes early, are decided afterwards.
struct SweepDivision {
  std::vector<HeldItem> held;
  std::vector<Sweep> sweeps;
  std::vector<bool> is_held;  ///< by ItemId: whether it is held across some boundary
};

/// Divides a group's items among its sweeps: what choose_held holds is computed where it is first needed and at hand
/// from then on, everything else in every sweep that reads it. `varying` and `hoisted` are GroupProgram's. Mappings
/// that agree in `hold` and these share the result.
SweepDivision divide_into_sweeps(const ItemFlow& flow, const GroupStructure& structure, Hold hold, AxisSet varying,
                                 const std::vector<ItemId>& hoisted);

}  // namespace stitch::kernel
