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
  if (depth.blocks == 0) return all;
  const std::int64_t each = depth.tiles * depth.turns / depth.blocks, longer = depth.tiles * depth.turns % depth.blocks;
  // A search asks for this more than a thousand times: where a block begins within its tile comes without division.
  std::int64_t at = 0, parts = 1;
  for (std::int64_t block = 1; block < depth.blocks; ++block) {
    for (at += each + (block <= longer ? 1 : 0); at >= depth.turns; at -= depth.turns) parts = 1;
    if (at == 0) continue;
    if (parts == 1) {
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
