#include "kernel/structure/item_flow.h"

#include <algorithm>
#include <limits>

#include "kernel/structure/items.h"

namespace stitch::kernel {

ItemFlow::ItemFlow(const GroupStructure& structure) {
  const ScalarProgram& program = *structure.program;
  const std::size_t count = program.items().size();
  std::vector<std::size_t> used(count + 1, 0);
  for (std::size_t i = 0; i < count; ++i) {
    need_start_.push_back(needs_.size());
    const std::ptrdiff_t own = needs_.size();
    for (const ItemId needed : dependencies(program, i)) {
      if (std::find(needs_.begin() + own, needs_.end(), needed) == needs_.end()) needs_.push_back(needed);
    }
    for (std::size_t n = need_start_.back(); n < needs_.size(); ++n) ++used[needs_[n]];
  }
  need_start_.push_back(needs_.size());
  use_start_.assign(count + 1, 0);
  for (std::size_t i = 0; i < count; ++i) use_start_[i + 1] = use_start_[i] + used[i];
  uses_.resize(needs_.size());
  std::vector<std::size_t> next = use_start_;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t n = need_start_[i]; n < need_start_[i + 1]; ++n)
      uses_[next[needs_[n]]++] = {static_cast<ItemId>(i), n};
  }
  for (const Anchor& anchor : structure.anchors) {
    root_start_.push_back(roots_.size());
    const std::vector<ItemId> more = roots_of(program, anchor);
    roots_.insert(roots_.end(), more.begin(), more.end());
  }
  root_start_.push_back(roots_.size());
  find_sweeps(structure);
}

void ItemFlow::find_sweeps(const GroupStructure& structure) {
  const std::size_t count = need_start_.size() - 1;
  constexpr int never = std::numeric_limits<int>::max();
  computed_.assign(count, never);
  last_use_.assign(count, -1);
  for (std::size_t a = 0; a < structure.anchors.size(); ++a) {
    for (const ItemId root : roots(a)) {
      const std::size_t i = root;
      computed_[i] = std::min(computed_[i], structure.anchors[a].sweep);
      last_use_[i] = std::max(last_use_[i], structure.anchors[a].sweep);
    }
  }
  for (std::size_t i = count; i-- > 0;) {  // users come after what they need
    if (computed_[i] == never) continue;
    computed_[i] = std::max(computed_[i], structure.item_sweep[i]);
    for (std::size_t n = need_start_[i]; n < need_start_[i + 1]; ++n) {
      const std::size_t needed = needs_[n];
      computed_[needed] = std::min(computed_[needed], computed_[i]);
      last_use_[needed] = std::max(last_use_[needed], computed_[i]);
    }
  }
}

}  // namespace stitch::kernel
