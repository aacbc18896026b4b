#include "search/holding.h"

#include <algorithm>
#include <map>

#include "search/min_cut.h"

namespace stitch::search {
namespace {

/// Prices in quarter "register bytes": holding four bytes costs 12, so a light operator is recomputed rather than its
/// result kept beside its operand, and an expensive one is not.
constexpr std::int64_t price_of_byte = 3;
constexpr std::int64_t price_light = 2, price_expensive = 40, price_reload = 4000, price_small_reload = 20;

std::int64_t recompute_price(const Item& item, std::uint64_t group_axes, Hold hold) {
  switch (item.kind) {
    case Item::Kind::literal:
    case Item::Kind::index:
    case Item::Kind::in_range:
    case Item::Kind::reduced: return 1;
    case Item::Kind::combine: return price_light;
    case Item::Kind::compute:
      if (hold == Hold::shared_least) return price_light;
      return graph::info(item.op).cost == graph::OpCost::expensive ? price_expensive : price_light;
    case Item::Kind::load: break;
  }
  // An operand that is broadcast along some axis comes from a cache the second time.
  return (item.axes & group_axes) == group_axes ? price_reload : price_small_reload;
}

std::vector<bool> closure(const ScalarProgram& program, const std::vector<ItemId>& roots) {
  std::vector<bool> in(program.items().size(), false);
  std::vector<ItemId> open = roots;
  while (!open.empty()) {
    const ItemId item = open.back();
    open.pop_back();
    if (in[static_cast<std::size_t>(item)]) continue;
    in[static_cast<std::size_t>(item)] = true;
    for (const ItemId needed : dependencies(program, item)) open.push_back(needed);
  }
  return in;
}

}  // namespace

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

std::vector<HeldItem> choose_held(const GroupStructure& structure, const GroupMapping& mapping, std::uint64_t varying,
                                  const std::vector<ItemId>& hoisted) {
  const ScalarProgram& program = *structure.program;
  std::vector<HeldItem> held;
  if (mapping.hold == Hold::reload || structure.stages < 2) return held;
  const auto count = program.items().size();
  std::uint64_t group_axes = 0;
  for (const Anchor& anchor : structure.anchors) group_axes |= anchor.axes;
  if (structure.partial_axis >= 0) group_axes &= ~(std::uint64_t{1} << structure.partial_axis);

  const Hold place = mapping.hold == Hold::registers ? Hold::registers : Hold::shared;
  std::map<ItemId, HeldItem> open;  // held across the boundary before
  for (int boundary = 0; boundary + 1 < structure.stages; ++boundary) {
    std::vector<ItemId> early_roots, late_roots;
    for (const Anchor& anchor : structure.anchors) {
      auto& roots = anchor.stage <= boundary ? early_roots : late_roots;
      const std::vector<ItemId> more = roots_of(program, anchor);
      roots.insert(roots.end(), more.begin(), more.end());
    }
    const std::vector<bool> early = closure(program, early_roots), late = closure(program, late_roots);
    // Node i: item i is computed after the boundary (source side). Node count + i: some user of it is.
    const int n = static_cast<int>(count), source = 2 * n, sink = 2 * n + 1;
    MinCut cut(2 * n + 2);
    for (ItemId i = 0; i < n; ++i) {
      const Item& item = program.at(i);
      if (!late[static_cast<std::size_t>(i)]) continue;
      const bool stays = item.kind == Item::Kind::reduced || (item.axes & varying) == 0;
      const bool available =
          structure.item_stage[static_cast<std::size_t>(i)] <= boundary && early[static_cast<std::size_t>(i)];
      const bool in_registers = std::find(hoisted.begin(), hoisted.end(), i) != hoisted.end();
      if ((stays && available) || in_registers) {
        cut.edge(i, sink, MinCut::infinite);  // at hand for nothing
        continue;
      }
      if (available) {
        cut.edge(i, sink, recompute_price(item, group_axes, mapping.hold));
        cut.edge(n + i, i, price_of_byte * held_bytes(item));
      } else {
        cut.edge(n + i, i, MinCut::infinite);
      }
      for (const ItemId needed : dependencies(program, i)) cut.edge(i, n + needed, MinCut::infinite);
    }
    for (const ItemId root : late_roots) cut.edge(source, n + root, MinCut::infinite);
    const std::vector<bool> side = cut.source_side(source, sink);
    std::map<ItemId, HeldItem> now;
    for (ItemId i = 0; i < n; ++i) {
      const Item& item = program.at(i);
      if (!late[static_cast<std::size_t>(i)] || !side[static_cast<std::size_t>(n + i)] ||
          side[static_cast<std::size_t>(i)])
        continue;
      if (item.kind == Item::Kind::reduced || (item.axes & varying) == 0) continue;
      if (std::find(hoisted.begin(), hoisted.end(), i) != hoisted.end()) continue;
      const auto before = open.find(i);
      HeldItem kept = before != open.end() ? before->second : HeldItem{i, boundary, boundary + 1, place, 0};
      kept.until = boundary + 1;
      now[i] = kept;
    }
    for (const auto& [item, kept] : open) {
      if (!now.contains(item)) held.push_back(kept);
    }
    open = std::move(now);
  }
  for (const auto& [item, kept] : open) held.push_back(kept);
  std::sort(held.begin(), held.end(),
            [](const HeldItem& a, const HeldItem& b) { return std::pair(a.from, a.item) < std::pair(b.from, b.item); });
  return held;
}

}  // namespace stitch::search
