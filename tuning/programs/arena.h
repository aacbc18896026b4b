#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stitch::tuning {

/// Memory that is needed from one step to another, both included.
struct ArenaBlock {
  std::int64_t bytes = 0;  ///< a multiple of the alignment
  int first = 0, last = 0;
};

struct ArenaLayout {
  std::vector<std::int64_t> offsets;  ///< per block
  std::int64_t bytes = 0;
};

/// Most bytes that are in use at one step: no layout is smaller.
std::int64_t most_alive(std::span<const ArenaBlock> blocks);

/// Offsets for all blocks, so that those in use at the same time are apart.
///
/// Blocks are placed one after the other, each into the smallest gap that its neighbours in time leave (best fit). The
/// order decides: largest first ("greedy by size") and the blocks of the fullest steps first ("greedy by breadth") are
/// those of Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020), §5; longest-lived
/// first is tried, too. Where the best of them is above most_alive, blocks that end highest move to the front, again
/// and again, while that helps. Equal blocks give equal offsets. Time: quadratic in the number of blocks, times at most
/// some hundred orders.
ArenaLayout lay_out(std::span<const ArenaBlock> blocks);

}  // namespace stitch::tuning
