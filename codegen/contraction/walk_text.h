#pragma once

#include <cstdint>
#include <string>

#include "codegen/writer.h"
#include "kernel/attention/visible_keys.h"

namespace stitch::codegen {

/// Of a kernel whose blocks have a tile of rows each, and whose warps have whole rows.
struct RowTilesText {
  std::int64_t row_tiles = 1;  ///< of a batch
  int block_rows = 1, warp_rows = 1;
  bool warpgroup = false;  ///< four warps share rows
};

/// Prints which rows a block and a warp have, of its number `tile`: `batch`, `row_tile`, `block_row`, `warp`,
/// `warp_row`, and of warpgroups `group_row`. Tiles of one batch are neighbours, so that they share in L2 what they
/// walk; where a mask hides something from the first rows the last ones, which have most to do, begin.
void print_row_tile(Writer& out, const kernel::KeyWalk& walk, const RowTilesText& rows);

/// Which tiles of what a block walks it does: `first` to before `last`, of those that its rows see.
struct WalkedTiles {
  std::int64_t block_rows = 0, block_walked = 0;
  std::string first, last;  ///< of all
  /// How many are shown of what is walked, by a length in memory (kernel/attention/key_limit.h): where none is, all
  /// count alike. And before which tile these end. Empty: there is no length.
  std::string shown, end_of_shown;
};

/// Prints `first_tile` and, where blocks have different numbers of tiles to walk, `turns`; the kernel has `row_tile`.
void print_walk(Writer& out, const kernel::KeyWalk& walk, const WalkedTiles& tiles);
/// Whether they have.
inline bool walks_some(const kernel::KeyWalk& walk) { return walk.below || walk.above; }

}  // namespace stitch::codegen
