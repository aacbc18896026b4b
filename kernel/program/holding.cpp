#include "kernel/program/holding.h"
#include "kernel/structure/items.h"

#include <algorithm>
#include <map>

namespace stitch::kernel {
namespace {

/// Prices in quarter "register bytes": holding four bytes costs 12, so a light operator is recomputed rather than its
/// result kept beside its operand, and an expensive one is not.
constexpr std::int64_t price_of_byte = 3;
/// With Hold::shared_least: a byte less is worth a dozen operators more.
constexpr std::int64_t price_of_scarce_byte = 24;
constexpr std::int64_t price_light = 2, price_expensive = 40, price_reload = 4000, price_small_reload = 20;

std::int64_t recompute_price(const Item& item, AxisSet group_axes, Hold hold) {
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
  return item.axes.contains_all(group_axes) ? price_reload : price_small_reload;
}

/// Minimum cuts between the sweeps of a group, one boundary after the other.
///
/// Two nodes an item: `wanted`, when something after the boundary reads it, and `made`, when it is computed after it.
/// wanted → made takes the price of holding the item, made → sink that of computing it, made → wanted of each item it
/// needs no end. The flow starts at the frontier, items at hand that later ones read. It is found by augmenting paths,
/// breadth first: every item computes at some price, so that a path ends a few items below the frontier, and the
/// network is never looked at as a whole.
class HoldingCut {
 public:
  HoldingCut(const ItemFlow& flow, const ScalarProgram& program, AxisSet group_axes, Hold hold, AxisSet varying,
             const std::vector<ItemId>& hoisted)
      : flow_(flow), nodes_(2 * flow.size()), along_need_(flow.need_count(), 0), from_(2 * flow.size()) {
    for (const ItemId id : program.item_ids()) {
      const Item& item = program.at(id);
      nodes_[id] = {(hold == Hold::shared_least ? price_of_scarce_byte : price_of_byte) * held_bytes(item), 0};
      nodes_[flow.size() + id] = {recompute_price(item, group_axes, hold), 0};
      at_hand_.push_back(item.kind == Item::Kind::reduced || !item.axes.meets(varying));
    }
    for (const ItemId item : hoisted) at_hand_[item] = true;
  }

  /// Items to hold, in ascending order.
  std::vector<ItemId> hold(const std::vector<ItemId>& frontier) {
    for (const ItemId item : frontier) {
      while (!at_hand(item) && augment({item})) {
      }
    }
    explore(frontier);  // finds no way to the sink: what it reaches is the side of the source
    std::vector<ItemId> held;
    for (const int node : order_) {
      if (is_wanted(node) && from_[other(node)] == unseen) held.push_back(node);
    }
    forget();
    std::sort(held.begin(), held.end());
    restore();
    return held;
  }

 private:
  struct Node {
    std::int64_t price = 0, flow = 0;  ///< of wanted: along wanted → made; of made: along made → sink
  };
  static constexpr int unseen = 0, source = -1;

  [[nodiscard]] int count() const { return flow_.size(); }
  [[nodiscard]] bool at_hand(ItemId item) const { return at_hand_[item]; }
  [[nodiscard]] bool is_wanted(int node) const { return node < count(); }
  [[nodiscard]] int other(int node) const { return is_wanted(node) ? node + count() : node - count(); }
  Node& at(int node) { return nodes_[node]; }

  /// How a node was reached: 0 not at all, else one more than the node before it, or -1 from the source.
  void reach(int node, int from) {
    if (from_[node] != unseen) return;
    from_[node] = from;
    order_.push_back(node);
  }

  /// Breadth first from the frontier; the first `made` with room to the sink, or -1.
  int explore(const std::vector<ItemId>& frontier) {
    for (const ItemId item : frontier) {
      if (!at_hand(item)) reach(item, source);
    }
    for (std::size_t next = 0; next < order_.size(); ++next) {
      const int node = order_[next];
      if (is_wanted(node)) {
        if (at(node).flow < at(node).price) reach(node + count(), node + 1);
        for (const ItemFlow::Use& use : flow_.uses(node)) {
          if (along_need_[use.need] > 0) reach(use.user + count(), node + 1);
        }
        continue;
      }
      if (at(node).flow < at(node).price) return node;
      const ItemId item = node - count();
      for (const ItemId needed : flow_.needs(item)) {
        if (!at_hand(needed)) reach(needed, node + 1);
      }
      if (at(item).flow > 0) reach(item, node + 1);
    }
    return -1;
  }

  /// The number of the entry for `needed` among the needs of `item`.
  [[nodiscard]] std::size_t need_of(ItemId item, ItemId needed) const {
    const auto needs = flow_.needs(item);
    return flow_.first_need(item) + (std::ranges::find(needs, needed) - needs.begin());
  }

  /// Room on the way from `from` to `to`, and a flow through it.
  std::int64_t room(int from, int to) {
    if (is_wanted(from) && to == other(from)) return at(from).price - at(from).flow;
    if (is_wanted(from)) return along_need_[need_of(to - count(), from)];
    return to == other(from) ? at(to).flow : std::int64_t{1} << 50;
  }
  void send(int from, int to, std::int64_t amount) {
    touched_.push_back(from);
    touched_.push_back(to);
    if (is_wanted(from) && to == other(from)) {
      at(from).flow += amount;
    } else if (is_wanted(from)) {
      along_need_[need_of(to - count(), from)] -= amount;
    } else if (to == other(from)) {
      at(to).flow -= amount;
    } else {
      along_need_[need_of(from - count(), to)] += amount;
    }
  }

  bool augment(const std::vector<ItemId>& frontier) {
    const int last = explore(frontier);
    if (last < 0) {
      forget();
      return false;
    }
    std::int64_t amount = at(last).price - at(last).flow;
    const auto before = [&](int node) { return from_[node]; };
    for (int node = last; before(node) != source; node = before(node) - 1)
      amount = std::min(amount, room(before(node) - 1, node));
    at(last).flow += amount;
    touched_.push_back(last);
    for (int node = last; before(node) != source; node = before(node) - 1) send(before(node) - 1, node, amount);
    forget();
    return true;
  }

  void forget() {
    for (const int node : order_) from_[node] = unseen;
    order_.clear();
  }

  /// No flow anywhere, for the next boundary.
  void restore() {
    for (const int node : touched_) {
      at(node).flow = 0;
      if (is_wanted(node)) continue;
      const std::size_t first = flow_.first_need(node - count());
      std::fill_n(along_need_.begin() + first, flow_.needs(node - count()).size(), 0);
    }
    touched_.clear();
  }

  const ItemFlow& flow_;
  std::vector<Node> nodes_;  ///< wanted, then made
  std::vector<std::int64_t> along_need_;
  std::vector<int> from_, order_, touched_;
  std::vector<bool> at_hand_;
};

}  // namespace

std::vector<HeldItem> choose_held(const ItemFlow& flow, const GroupStructure& structure, Hold hold, AxisSet varying,
                                  const std::vector<ItemId>& hoisted) {
  std::vector<HeldItem> held;
  if (hold == Hold::reload || structure.sweep_count < 2) return held;
  AxisSet group_axes;
  for (const Anchor& anchor : structure.anchors) group_axes |= anchor.axes;
  if (structure.partial_axis >= 0) group_axes.erase(structure.partial_axis);

  std::vector<std::vector<ItemId>> begins(structure.sweep_count);
  for (std::size_t i = 0; i < flow.size(); ++i) {
    const ItemId item = i;
    if (flow.computed(item) < flow.last_use(item)) begins[flow.computed(item)].push_back(item);
  }
  const Hold place = hold == Hold::registers ? Hold::registers : Hold::shared;
  HoldingCut cut(flow, *structure.program, group_axes, hold, varying, hoisted);
  std::vector<ItemId> frontier;
  std::map<ItemId, HeldItem> open;  // held across the boundary before
  for (int boundary = 0; boundary + 1 < structure.sweep_count; ++boundary) {
    std::erase_if(frontier, [&](ItemId item) { return flow.last_use(item) <= boundary; });
    const std::vector<ItemId>& more = begins[boundary];
    frontier.insert(frontier.end(), more.begin(), more.end());
    std::map<ItemId, HeldItem> now;
    for (const ItemId item : cut.hold(frontier)) {
      const auto before = open.find(item);
      HeldItem kept = before != open.end() ? before->second : HeldItem{item, boundary, boundary + 1, place, 0};
      kept.until = boundary + 1;
      now[item] = kept;
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

}  // namespace stitch::kernel
