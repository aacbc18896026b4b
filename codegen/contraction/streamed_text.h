#pragma once

#include "codegen/writer.h"
#include "kernel/contraction/contraction_shape.h"

// What kernels print whose blocks share the turns of tiles (kernel/contraction/streamed_depth.h): a loop over the tiles
// that a block has turns of, around what is otherwise a block's whole work.
//
//     using Streams = StreamedTurns<108, 130, 128>;
//     const int end = Streams::end(static_cast<int>(blockIdx.x));
//     int turns;
//     for (int turn = Streams::begin(static_cast<int>(blockIdx.x)); turn < end; turn += turns) {
//       const int tile = turn / 128;
//       turns = minimum(128 - turn % 128, end - turn);
//       const int first_k = turn % 128 * 32;
//       …
//       if (turns < 128) {
//         leave_part<128>(cores, parts, tile + static_cast<int>(blockIdx.x), 1, 0);
//         const int count = Streams::parts(tile);
//         if (!arrives_last(arrived + tile, static_cast<u32>(count))) continue;
//         add_parts_from<128>(cores, parts, tile + Streams::first_block(tile), count);
//       }
//       …
//       __syncthreads();
//     }
namespace stitch::codegen {

/// Opens the loop: `tile`, `first_k` and `turns`, all of them at least one.
void open_streamed_tiles(Writer& out, const kernel::ContractionShape& shape, int block_depth);

/// Behind a tile's turns: leaves the sums of `cores` where they are not all; of the blocks that leave some, the last to
/// arrive goes on with all of them, and the others to their next tile.
void print_streamed_parts(Writer& out, const kernel::ContractionShape& shape);

/// Closes the loop: the next tile's operands come where results have left.
void close_streamed_tiles(Writer& out);

}  // namespace stitch::codegen
