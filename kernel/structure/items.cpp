#include "kernel/structure/items.h"

#include <algorithm>

namespace stitch::kernel {

std::vector<ItemId> dependencies(const ScalarProgram& program, ItemId id) {
  const Item& item = program.at(id);
  std::vector<ItemId> needed = item.operands;
  if (item.guard >= 0) needed.push_back(item.guard);
  if (item.index >= 0) {
    const std::vector<ItemId> more = program.items_of(item.index);
    needed.insert(needed.end(), more.begin(), more.end());
  }
  return needed;
}

// Items come behind those that they need. A chain of them may be longer than a stack is deep.
std::vector<bool> needed_by(const ScalarProgram& program, ItemId root, ItemId known) {
  std::vector<bool> needed(program.items().size(), false);
  needed[root] = true;
  for (ItemId id = root; id >= 0; --id) {
    if (!needed[id] || id == known) continue;
    for (const ItemId each : dependencies(program, id)) needed[each] = true;
  }
  return needed;
}

bool is_inline(const ScalarProgram& program, ItemId id) {
  const Item& item = program.at(id);
  if (item.kind == Item::Kind::literal || item.kind == Item::Kind::index || item.kind == Item::Kind::in_range) {
    return item.index < 0 || program.items_of(item.index).empty();
  }
  const bool synthetic = item.kind == Item::Kind::compute && item.origin.node < 0 && item.dtype == graph::DType::pred;
  return synthetic &&
         std::all_of(item.operands.begin(), item.operands.end(), [&](ItemId o) { return is_inline(program, o); });
}

std::vector<ItemId> roots_of(const ScalarProgram& program, const Anchor& anchor) {
  std::vector<ItemId> roots = anchor.items;
  if (anchor.guard >= 0) roots.push_back(anchor.guard);
  for (const Index address : anchor.addresses) {
    const std::vector<ItemId> more = program.items_of(address);
    roots.insert(roots.end(), more.begin(), more.end());
  }
  return roots;
}

int held_bytes(const Item& item) {
  const int bytes = graph::byte_size(item.dtype);
  if (item.kind == Item::Kind::load) return bytes;
  return graph::is_floating(item.dtype) ? std::max(bytes, 4)
                                        : std::max(bytes, item.dtype == graph::DType::pred ? 1 : 4);
}

}  // namespace stitch::kernel
