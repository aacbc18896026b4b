#include "profiler/verify/row_tile_sample.h"

#include <algorithm>
#include <set>

#include "base/random.h"

namespace stitch::profiler {

BlockSample sample_row_tiles(const RowTiles& tiles, std::int64_t work, std::int64_t budget, std::uint64_t seed) {
  const std::int64_t all = tiles.batch * tiles.row_tiles, wanted = std::max<std::int64_t>(2, budget / work);
  if (all <= wanted || all == 0) return {};
  Random random(seed);
  const std::int64_t batch = static_cast<std::int64_t>(random.below(tiles.batch)) * tiles.row_tiles;
  std::set<std::int64_t> chosen = {batch, batch + tiles.row_tiles - 1};
  while (std::ssize(chosen) < wanted) chosen.insert(static_cast<std::int64_t>(random.below(all)));
  if (std::ssize(chosen) == all) return {};
  BlockSample sample;
  for (const std::int64_t tile : chosen) {
    const std::int64_t place = tile % tiles.row_tiles;
    const std::int64_t row_tile = tiles.last_first ? tiles.row_tiles - 1 - place : place;
    sample.writes +=
        std::min<std::int64_t>(tiles.block_rows, tiles.rows - row_tile * tiles.block_rows) * tiles.results_of_row;
    if (row_tile == 0) sample.writes += tiles.results_of_first_tile;
    for (int part = 0; part < tiles.split; ++part) sample.blocks.push_back(tile * tiles.split + part);
  }
  return sample;
}

}  // namespace stitch::profiler
