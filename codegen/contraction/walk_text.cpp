#include "codegen/contraction/walk_text.h"

namespace stitch::codegen {

void print_row_tile(Writer& out, const kernel::KeyWalk& walk, const RowTilesText& rows) {
  const std::string number = fmt::format("tile % {}", rows.row_tiles);
  out.line("const int batch = tile / {}, row_tile = {};", rows.row_tiles,
           walk.above ? fmt::format("{} - {}", rows.row_tiles - 1, number) : number);
  out.line("const int block_row = row_tile * {};", rows.block_rows);
  if (rows.warpgroup) {
    // All lanes know that they have the same warp: descriptors are of a warp.
    out.line("const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);");
    out.line("const int group_row = warp / {0} * {1}, warp_row = group_row + warp % {0} * 16;", kernel::warpgroup_warps,
             kernel::warpgroup_warps * rows.warp_rows);
  } else {
    out.line("const int warp = static_cast<int>(threadIdx.x) / 32;");
    out.line("const int warp_row = warp * {};", rows.warp_rows);
  }
}

void print_walk(Writer& out, const kernel::KeyWalk& walk, const WalkedTiles& tiles) {
  std::string first = tiles.first, last = tiles.last;
  const std::string begin = fmt::format("row_tile % {} * {}", walk.period, tiles.block_rows);
  if (walk.below)
    first = fmt::format("maximum({}, maximum(0, {} + {}) / {})", first, begin, *walk.below, tiles.block_walked);
  if (walk.above) last = fmt::format("minimum({}, ({} + {}) / {} + 1)", last, begin, *walk.above, tiles.block_walked);
  if (!tiles.shown.empty()) {
    if (first != tiles.first) first = fmt::format("{} > 0 ? {} : {}", tiles.shown, first, tiles.first);
    last = fmt::format("({} > 0 ? minimum({}, {}) : {})", tiles.shown, last, tiles.end_of_shown, tiles.last);
  }
  out.line("const int first_tile = {};", first);
  if (walks_some(walk) || !tiles.shown.empty()) out.line("const int turns = {} - first_tile;", last);
}

}  // namespace stitch::codegen
