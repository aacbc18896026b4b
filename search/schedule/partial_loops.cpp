#include "search/schedule/partial_loops.h"

#include <algorithm>

#include "search/schedule/thread_layout.h"

namespace stitch::search {
namespace {

/// How many of the wanted tiles an axis of so many iterations takes, where `left` could be along the axes that follow:
/// as many as it can, unless what is left for those then is much less than wanted in all.
std::int64_t tiles_along(std::int64_t iterations, std::int64_t left, std::int64_t wanted) {
  const std::int64_t least = divide_up(iterations, wanted);  // iterations a tile
  std::int64_t chosen = 0, best = 0;
  for (std::int64_t each = least; each < least + 8 && each <= iterations; ++each) {
    const std::int64_t tiles = divide_up(iterations, each), all = tiles * std::min(left, wanted / tiles);
    if (10 * all > 11 * best) {
      chosen = tiles;
      best = all;
    }
  }
  return chosen;
}

}  // namespace

void loop_partials(std::vector<kernel::AxisMapping>& mapping, const std::vector<std::int64_t>& extents,
                   kernel::AxisSet partial, std::int64_t wanted_tiles, bool interleaved) {
  const auto iterations = [&](int axis) { return divide_up(extents[axis], mapping[axis].step(kernel::Level::loop)); };
  std::int64_t other = 1;
  for (const int a : kernel::AxisSet::first(mapping.size()) - partial)
    other *= divide_up(extents[a], mapping[a].step(kernel::Level::grid));
  std::int64_t wanted = std::max<std::int64_t>(1, wanted_tiles / other), left = 1;
  // Outer partial axes take the tiles, and inner ones are looped over whole; or the other way round, so that tiles that
  // walk together lie side by side.
  std::vector<int> order(partial.begin(), partial.end());
  for (const int a : order) left *= iterations(a);
  if (interleaved) std::ranges::reverse(order);
  for (const int a : order) {
    const std::int64_t turns = iterations(a);
    left /= turns;
    const std::int64_t tiles = tiles_along(turns, left, wanted);
    mapping[a].at(kernel::Level::loop) = divide_up(turns, tiles);
    wanted = std::max<std::int64_t>(1, wanted / tiles);
  }
}

}  // namespace stitch::search
