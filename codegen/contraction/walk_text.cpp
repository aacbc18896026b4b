#include "codegen/contraction/walk_text.h"

namespace stitch::codegen {

void print_walk(Writer& out, const kernel::KeyWalk& walk, WalkedTiles tiles) {
  const std::string begin = fmt::format("row_tile % {} * {}", walk.period, tiles.block_rows);
  if (walk.below) {
    tiles.first =
        fmt::format("maximum({}, maximum(0, {} + {}) / {})", tiles.first, begin, *walk.below, tiles.block_walked);
  }
  if (walk.above)
    tiles.last = fmt::format("minimum({}, ({} + {}) / {} + 1)", tiles.last, begin, *walk.above, tiles.block_walked);
  out.line("const int first_tile = {};", tiles.first);
  if (walks_some(walk)) out.line("const int turns = {} - first_tile;", tiles.last);
}

}  // namespace stitch::codegen
