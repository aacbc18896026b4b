#include "codegen/contraction/streamed_text.h"

#include "kernel/contraction/streamed_depth.h"

namespace stitch::codegen {

void open_streamed_tiles(Writer& out, const kernel::ContractionShape& shape, int block_depth) {
  const kernel::StreamedDepth& streamed = shape.streamed;
  out.line("using Streams = StreamedTurns<{}, {}, {}>;", streamed.blocks, streamed.tiles, streamed.turns);
  out.line("const int end = Streams::end(static_cast<int>(blockIdx.x));");
  out.line("int turns;");
  out.line("#pragma unroll 1");
  out.open("for (int turn = Streams::begin(static_cast<int>(blockIdx.x)); turn < end; turn += turns)");
  out.line("const int tile = turn / {};", streamed.turns);
  out.line("turns = minimum({0} - turn % {0}, end - turn);", streamed.turns);
  out.line("const int first_k = turn % {} * {};", streamed.turns, block_depth);
}

void print_streamed_parts(Writer& out, const kernel::ContractionShape& shape) {
  if (shape.streamed.turns == 1) return;  // no tile has parts
  out.open("if (turns < {})", shape.streamed.turns);
  out.line("leave_part<{}>(cores, parts, tile + static_cast<int>(blockIdx.x), 1, 0);", shape.threads);
  out.line("const int count = Streams::parts(tile);");
  out.line("if (!arrives_last(arrived + tile, static_cast<u32>(count))) continue;");
  out.line("add_parts_from<{}>(cores, parts, tile + Streams::first_block(tile), count);", shape.threads);
  out.close();
}

void close_streamed_tiles(Writer& out) {
  out.line("__syncthreads();  // the next tiles come where the strips lie");
  out.close();
}

}  // namespace stitch::codegen
