#include "search/partition/packing.h"

#include <algorithm>
#include <utility>

#include "search/partition/quotient.h"

namespace stitch::search {
namespace {

/// Joins members[first] … members[last - 1] into one part if that is faster than each for itself, else each half of
/// them; appends what that gives to `out`.
void pack_run(const std::vector<VertexSet>& members, std::size_t first, std::size_t last, PartPrices& prices,
              std::vector<VertexSet>& out) {
  if (last - first == 1) {
    out.push_back(members[first]);
    return;
  }
  VertexSet all = members[first];
  double apart = *prices.feasible_us(members[first]);
  for (std::size_t i = first + 1; i < last; ++i) {
    all.merge(members[i]);
    apart += *prices.feasible_us(members[i]);
  }
  if (const std::optional<double> together = prices.feasible_us(all); together && *together < apart) {
    out.push_back(std::move(all));
    return;
  }
  const std::size_t middle = (first + last) / 2;
  pack_run(members, first, middle, prices, out);
  pack_run(members, middle, last, prices, out);
}

}  // namespace

void pack_independent(const VertexGraph& vertices, std::vector<VertexSet>& parts, PartPrices& prices) {
  std::vector<int> depths = Quotient(vertices, parts).depths();
  for (int depth = 0; depth <= *std::ranges::max_element(depths); ++depth) {
    // Likes with likes first: kernels of similar cost fill a launch evenly.
    std::vector<std::pair<double, VertexSet>> level;
    std::vector<VertexSet> others;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (depths[p] == depth)
        level.emplace_back(*prices.feasible_us(parts[p]), parts[p]);
      else
        others.push_back(parts[p]);
    }
    if (level.size() < 2) continue;
    std::ranges::stable_sort(level, {}, &std::pair<double, VertexSet>::first);
    std::vector<VertexSet> members;
    for (auto& [us, part] : level) members.push_back(std::move(part));
    pack_run(members, 0, members.size(), prices, others);
    parts = std::move(others);
    std::ranges::sort(parts);
    depths = Quotient(vertices, parts).depths();
  }
}

}  // namespace stitch::search
