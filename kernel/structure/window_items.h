#pragma once

#include <vector>

#include "kernel/structure/item_list.h"

namespace stitch::kernel {

/// The item of a reduce-window at `indices`: the elements of its window, combined one by one. Fails with kind
/// constraint where a window is too large for that. Loads are predicated on `guard`.
Result<ItemId> window_item(OperandItems& program, const graph::Node& node, graph::Value value,
                           const std::vector<Index>& indices, ItemId guard);

/// The same of a select-and-scatter.
Result<ItemId> selected_item(OperandItems& program, const graph::Node& node, graph::Value value,
                             const std::vector<Index>& indices, ItemId guard);

}  // namespace stitch::kernel
