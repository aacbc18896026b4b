#include "kernel/contraction/streamed_depth.h"

#include <algorithm>

namespace stitch::kernel {

StreamedDepth StreamedDepth::of(std::int64_t all, std::int64_t turns, std::int64_t blocks) {
  const std::int64_t rounds = all / blocks;
  const std::int64_t whole = rounds > 1 ? (rounds - 1) * blocks : 0;
  return {blocks, all - whole, std::max<std::int64_t>(1, turns), whole};
}

std::int64_t StreamedDepth::begin(std::int64_t block) const {
  const std::int64_t each = tiles * turns / blocks, longer = tiles * turns % blocks;
  return block * each + std::min(block, longer);
}

std::int64_t StreamedDepth::block_of(std::int64_t turn) const {
  const std::int64_t each = tiles * turns / blocks, longer = tiles * turns % blocks;
  const std::int64_t of_longer = longer * (each + 1);
  return turn < of_longer ? turn / (each + 1) : longer + (turn - of_longer) / each;
}

std::int64_t StreamedDepth::most_turns() const { return (tiles * turns + blocks - 1) / blocks; }

StreamedParts streamed_parts(const StreamedDepth& depth) {
  StreamedParts all;
  std::int64_t tile = -1, parts = 0;
  for (std::int64_t block = 1; block < depth.blocks; ++block) {
    const std::int64_t turn = depth.begin(block);
    if (turn % depth.turns == 0) continue;
    if (turn / depth.turns != tile) {
      tile = turn / depth.turns;
      parts = 1;
      ++all.tiles;
      ++all.parts;
    }
    ++parts;
    ++all.parts;
    all.most = std::max(all.most, parts);
  }
  return all;
}

}  // namespace stitch::kernel
