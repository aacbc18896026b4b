#pragma once

#include <vector>

#include "kernel/structure/item_list.h"

namespace stitch::kernel {

/// The item of an operator that moves elements (reshape, slice, pad, concatenate, gather …) at `indices`: that of the
/// operand at the index from which the element comes, and a select where it may come from several. Fails with kind
/// constraint for an operator that no kernel computes. Loads are predicated on `guard`.
Result<ItemId> layout_item(OperandItems& program, const graph::Node& node, graph::Value value,
                           const std::vector<Index>& indices, ItemId guard);

}  // namespace stitch::kernel
