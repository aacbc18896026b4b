#pragma once

#include <cstdint>
#include <vector>

#include "kernel/program/program.h"
#include "kernel/structure/item_flow.h"

namespace stitch::kernel {

/// Decides which values a group keeps between its sweeps, and which it computes again.
///
/// At each boundary between sweeps this is a minimum cut of the item graph: an item that later sweeps need is either
/// recomputed (at the price of its operator; reading device memory again costs most) or lies behind held items (at the
/// price of their bytes). Thread-uniform items and finished reductions stay in registers anyway and cost nothing.
/// With Hold::reload nothing is held; with Hold::shared_least recomputing costs next to nothing, so that the least
/// bytes are held. `varying` and `hoisted` are GroupProgram's; hoisted loads are at hand in every sweep.
///
/// The cut of a boundary is found from the items that are at hand there and read later, looking only as far down as
/// recomputing them could pay: the time does not grow with the length of the group.
std::vector<HeldItem> choose_held(const ItemFlow& flow, const GroupStructure& structure, Hold hold, AxisSet varying,
                                  const std::vector<ItemId>& hoisted);

}  // namespace stitch::kernel
