#pragma once

#include <cstdint>

// Stream-K (Osama, Merrill, Cecka, Garland, Owens: "Stream-K: Work-centric Parallel Decomposition for Dense
// Matrix-Matrix Multiplication on the GPU", PPoPP 2023): of tiles that make no whole rounds of blocks the turns along
// the depth are divided evenly, wherever a tile begins or ends. Of 5 tiles of 8 turns and 4 blocks each has 10:
//
//     turns   0        8        16       24       32       40
//     tiles   |---0----|---1----|---2----|---3----|---4----|
//     blocks  |----0-----|----1-----|----2-----|----3------|
//
// A block that ends inside a tile leaves its part of the sums in scratch memory, and so does the one that begins there;
// whoever arrives last adds a tile's parts by rising depth, so that a result does not depend on who that is, and has
// its epilogue. Nobody waits for another block (as the paper's do, and so must be resident together).
//
// Of many tiles the paper's hybrid ("two-tile stream-K + data-parallel", §5.2): of the rounds that are whole all but
// one are blocks with a tile each, and the turns of one round and what is left over are divided, so that these blocks
// have one to two tiles' turns. They come first, and those with a tile each behind them.

namespace stitch::kernel {

struct StreamedDepth {
  std::int64_t blocks = 0;  ///< that share turns; at most as many as there are of these
  std::int64_t tiles = 0;   ///< whose turns they share: the first of all
  std::int64_t turns = 1;   ///< of a tile, at least 1
  std::int64_t whole = 0;   ///< tiles behind these, of which each has a block of its own

  /// Of `all` tiles, by `blocks` that are resident together.
  static StreamedDepth of(std::int64_t all, std::int64_t turns, std::int64_t blocks);

  /// The first turn of a block, counted over all tiles; of block number `blocks` the end of all. The first blocks have
  /// one turn more where they cannot be equal.
  [[nodiscard]] std::int64_t begin(std::int64_t block) const;
  /// Whose a turn is.
  [[nodiscard]] std::int64_t block_of(std::int64_t turn) const;
  /// Blocks that have turns of a tile: from the first up to the last.
  [[nodiscard]] std::int64_t first_block(std::int64_t tile) const { return block_of(tile * turns); }
  [[nodiscard]] std::int64_t last_block(std::int64_t tile) const { return block_of(tile * turns + turns - 1); }
  /// The most turns of a block.
  [[nodiscard]] std::int64_t most_turns() const;
  /// Places for parts: block b's of tile t is number t + b, since from one part to the next either begins.
  [[nodiscard]] std::int64_t places() const { return blocks == 0 ? 0 : tiles + blocks - 1; }

  bool operator==(const StreamedDepth&) const = default;
};

/// What of the tiles comes in parts.
struct StreamedParts {
  std::int64_t tiles = 0;  ///< that do
  std::int64_t parts = 0;  ///< of all of these
  std::int64_t most = 1;   ///< of one

  bool operator==(const StreamedParts&) const = default;
};
StreamedParts streamed_parts(const StreamedDepth& depth);

}  // namespace stitch::kernel
