#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// Which items of a group need which, and in which sweeps: worked out once for all of the group's mappings. The
/// structure's program must outlive it.
class ItemFlow {
 public:
  explicit ItemFlow(const GroupStructure& structure);

  [[nodiscard]] std::size_t size() const { return computed_.size(); }
  /// Items that an item reads, each once (see dependencies); the entries have numbers, first_need() onwards.
  [[nodiscard]] std::span<const ItemId> needs(ItemId item) const { return slice(needs_, need_start_, item); }
  [[nodiscard]] std::size_t first_need(ItemId item) const { return need_start_[item]; }
  [[nodiscard]] std::size_t need_count() const { return needs_.size(); }
  /// Items that an anchor needs directly (see roots_of).
  [[nodiscard]] std::span<const ItemId> roots(int anchor) const { return slice(roots_, root_start_, anchor); }

  /// An entry of some item's needs.
  struct Use {
    ItemId user = -1;
    std::size_t need = 0;
  };
  [[nodiscard]] std::span<const Use> uses(ItemId item) const { return slice(uses_, use_start_, item); }

  /// The first sweep in which an item is computed for an anchor; very large for items that no anchor needs.
  [[nodiscard]] int computed(ItemId item) const { return computed_[item]; }
  /// The last sweep that brings a computation which reads the item and is made nowhere before it; -1: none.
  [[nodiscard]] int last_use(ItemId item) const { return last_use_[item]; }

 private:
  template <class T>
  static std::span<const T> slice(const std::vector<T>& all, const std::vector<std::size_t>& start, int at) {
    const std::size_t i = at;
    return std::span(all).subspan(start[i], start[i + 1] - start[i]);
  }

  void find_sweeps(const GroupStructure& structure);

  std::vector<ItemId> needs_, roots_;
  std::vector<Use> uses_;
  std::vector<std::size_t> need_start_, root_start_, use_start_;
  std::vector<int> computed_, last_use_;
};

}  // namespace stitch::kernel
