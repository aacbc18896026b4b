#pragma once

#include <cstdint>
#include <string>

#include "codegen/writer.h"
#include "kernel/attention/visible_keys.h"

namespace stitch::codegen {

/// Which tiles of what a block walks it does: `first` to before `last`, of those that its rows see.
struct WalkedTiles {
  std::int64_t block_rows = 0, block_walked = 0;
  std::string first, last;  ///< of all
};

/// Prints `first_tile` and, where blocks have different numbers of tiles to walk, `turns`; the kernel has `row_tile`.
void print_walk(Writer& out, const kernel::KeyWalk& walk, WalkedTiles tiles);
/// Whether they have.
inline bool walks_some(const kernel::KeyWalk& walk) { return walk.below || walk.above; }

}  // namespace stitch::codegen
