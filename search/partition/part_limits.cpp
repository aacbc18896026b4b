#include "search/partition/part_limits.h"

#include <algorithm>
#include <utility>

namespace stitch::search {
namespace {

/// Index propagation recurses along the operators of a kernel: a chain of ten thousand in one kernel overflows the
/// stack.
constexpr int most_depth = 2048;

/// Vertices of a union that fits no kernel because of its size.
constexpr int large = 128;

}  // namespace

void PartLimits::note_infeasible(VertexSet set) {
  if (set.count() >= large) infeasible_.push_back(std::move(set));
}

/// Whether some way through a set has more operators than a kernel may have in a row.
bool PartLimits::is_too_deep(const VertexSet& set) const {
  if (set.count() <= most_depth) return false;
  std::vector<int> depth(vertices_.size(), 0);
  int deepest = 0;
  for (const int v : set.members()) {  // producers come first
    const int own = ++depth[v];
    deepest = std::max(deepest, own);
    for (const int consumer : vertices_.consumers(v)) {
      int& other = depth[consumer];
      other = std::max(other, own);
    }
  }
  return deepest > most_depth;
}

/// Whether a set holds one that fits no kernel for its size: with more operators it would not fit either. In the last
/// rounds of a packed optimizer most pairs are such, and exploring one takes as long as exploring a kernel that fits.
bool PartLimits::holds_infeasible(const VertexSet& set) const {
  return std::ranges::any_of(infeasible_, [&](const VertexSet& part) { return part.is_within(set); });
}

}  // namespace stitch::search
