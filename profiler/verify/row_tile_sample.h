#pragma once

#include <cstdint>

#include "profiler/verify/block_sample.h"

namespace stitch::profiler {

/// Kernels whose blocks have tiles of rows of a batch, one after another (attention, chains of products).
struct RowTiles {
  std::int64_t batch = 1, row_tiles = 1;  ///< as many tiles of each batch
  std::int64_t rows = 0, block_rows = 1;
  std::int64_t results_of_row = 0;
  int split = 1;                           ///< blocks of one tile
  bool last_first = false;                 ///< the last tile of a batch is its first block's
  std::int64_t results_of_first_tile = 0;  ///< that the first tile of a batch writes besides
};

/// As many tiles as the budget has room for, `work` each: of one batch the first and the last, and others that the seed
/// draws, each with all of its blocks. Nothing: all are to run.
BlockSample sample_row_tiles(const RowTiles& tiles, std::int64_t work, std::int64_t budget, std::uint64_t seed);

}  // namespace stitch::profiler
