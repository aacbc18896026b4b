#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stitch::tuning {

/// Memory that is needed from one step to another, both included.
struct ArenaBlock {
  std::int64_t bytes = 0;  ///< a multiple of the alignment
  int first = 0, last = 0;
  std::int64_t slack = 0;  ///< of these bytes, those at its end that nobody uses
};

/// Memory besides the arena that blocks may lie in until it is needed for something else.
struct LentMemory {
  std::int64_t bytes = 0;  ///< a multiple of the alignment
  int until = 0;           ///< the first step at which it is needed
  std::int64_t slack = 0;  ///< of these bytes, those at its end that are not there
};

struct ArenaLayout {
  static constexpr int arena = -1;

  std::vector<std::int64_t> offsets;  ///< per block, into what it lies in
  std::vector<int> lies_in;           ///< per block: which of the lent memory, or `arena`
  std::int64_t bytes = 0;             ///< of the arena
  std::int64_t bound = 0;             ///< most_alive: no layout's are fewer
};

/// Most bytes that are in use at one step and that what is lent then does not hold: no layout has a smaller arena.
std::int64_t most_alive(std::span<const ArenaBlock> blocks, std::span<const LentMemory> lent = {});

/// Offsets for all blocks, so that those in use at the same time are apart, with a small arena.
///
/// A block lies in lent memory where one has a gap for it as long as the block is in use. Blocks are placed one after
/// the other, each into the smallest gap that its neighbours in time leave (best fit). The order decides: largest first
/// ("greedy by size") and the blocks of the fullest steps first ("greedy by breadth") are those of Pisarchyk & Lee,
/// "Efficient Memory Management for Deep Neural Net Inference" (2020), §5; longest-lived first is tried, too. Where the
/// best of them is above most_alive, blocks that end highest move to the front, again and again, while that helps. All
/// of it is done twice: with lent memory before the arena, and with gaps of the arena first. Equal blocks give equal
/// offsets. Time: quadratic in the number of blocks, times at most some hundred orders.
ArenaLayout lay_out(std::span<const ArenaBlock> blocks, std::span<const LentMemory> lent = {});

}  // namespace stitch::tuning
