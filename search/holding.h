#pragma once

#include <cstdint>
#include <vector>

#include "search/item_flow.h"
#include "search/program.h"

namespace stitch::search {

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
std::vector<HeldItem> choose_held(const ItemFlow& flow, const GroupStructure& structure, Hold hold,
                                  std::uint64_t varying, const std::vector<ItemId>& hoisted);

/// Items that an item reads: operands, guard, and what its index expressions need.
std::vector<ItemId> dependencies(const ScalarProgram& program, ItemId item);

/// Index arithmetic and range tests on it: written where they are used instead of being computed once and named.
bool is_inline(const ScalarProgram& program, ItemId item);

/// Items that computing an anchor needs directly: its values, guard and addresses.
std::vector<ItemId> roots_of(const ScalarProgram& program, const Anchor& anchor);

/// Bytes one element of an item takes when kept: 16-bit loads stay packed, computed values are in the compute type.
int held_bytes(const Item& item);

}  // namespace stitch::search
