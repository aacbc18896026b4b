#include "codegen/contraction/tensor_memory_text.h"

#include "codegen/contraction/warpgroup_text.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/strips.h"

namespace stitch::codegen {
namespace {

using graph::DType;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::ContractionShape;

constexpr int barriers_bytes = 16;  // of a stage, or a tile of sums: two barriers

/// An operand's type in the instruction descriptor.
int type_number(DType dtype) {
  switch (dtype) {
    case DType::bf16:
    case DType::s8:
    case DType::f8e5m2: return 1;
    case DType::f32: return 2;
    default: return 0;
  }
}

std::string_view kind_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16: return "f16";
    case DType::f32: return "tf32";
    case DType::s8:
    case DType::u8: return "i8";
    default: return "f8f6f4";
  }
}

/// The warp that has tiles multiplied: behind those that take sums, and the one that asks for tiles.
int multiplying_warp(const ContractionShape& shape) { return shape.warps + 1; }

/// Blocks that multiply together.
int blocks_of_product(const ContractionSchedule& s) { return s.paired ? 2 : 1; }

}  // namespace

void print_tensor_product(Writer& out, const ContractionProblem& problem, const ContractionSchedule& s) {
  const bool integers = !graph::is_floating(problem.left.dtype);
  out.open("struct Product");
  out.line("static constexpr TensorKind kind = TensorKind::{};", kind_of(problem.left.dtype));
  out.line("static constexpr u32 shape = product_shape({}, {}, {}, {}, {}, {}, {});", integers ? 2 : 1,
           type_number(problem.left.dtype), type_number(problem.right.dtype), transposed(problem.left),
           transposed(problem.right), s.block_columns, blocks_of_product(s));
  out.set_depth(0);
  out.line("}};");
  out.line("using TileProducts = TensorProducts<Product, LeftTile, RightTile, {}, {}, {}>;", s.block_rows,
           s.block_columns, blocks_of_product(s));
}

void print_tensor_memory(Writer& out, const ContractionProblem& problem, const ContractionSchedule& s) {
  const ContractionShape shape = kernel::shape_of(problem, s);
  // Warps of both blocks of a pair have to be done with what its first one overwrites.
  out.line("const TensorStages<{}, {}, {}> sums{{stages.barriers + {}}};", shape.sum_turns, shape.warps,
           blocks_of_product(s), barriers_bytes * s.stages);
  out.line("if (threadIdx.x == 0) sums.prepare();");
  out.line("if (warp == {}) take_columns<{}, {}>(sums.barriers + {});", multiplying_warp(shape), shape.tensor_columns,
           blocks_of_product(s), barriers_bytes * shape.sum_turns);
}

void print_tensor_memory_place(Writer& out, const ContractionProblem& problem, const ContractionSchedule& s,
                               int together) {
  const ContractionShape shape = kernel::shape_of(problem, s);
  if (together > 1) out.line("__syncthreads();  // blocks of a cluster begin together, but show one another nothing");
  out.line("const u32 sums_at = *reinterpret_cast<const u32*>(own_maps + {});",
           kernel::tensor_maps(problem) * kernel::tensor_map_bytes + barriers_bytes * (s.stages + shape.sum_turns));
}

void print_tensor_memory_end(Writer& out, const ContractionProblem& problem, const ContractionSchedule& s,
                             int together) {
  const ContractionShape shape = kernel::shape_of(problem, s);
  if (together == 1) out.line("__syncthreads();  // nobody loads sums any more");
  out.line("if (warp == {}) give_back_columns<{}, {}>(sums_at);", multiplying_warp(shape), shape.tensor_columns,
           blocks_of_product(s));
}

void print_multiplying_thread(Writer& out, const ContractionProblem& problem, const ContractionSchedule& s,
                              int together, const std::function<void()>& open_tiles) {
  const ContractionShape shape = kernel::shape_of(problem, s);
  out.open("else if (warp == {})", multiplying_warp(shape));
  out.open("if (is_chosen(){})", s.paired ? " && rank % 2 == 0" : "");
  out.line("StageOfTurn<{}> turn;", shape.sum_turns);
  open_tiles();
  out.line("sums.wait_for_room(turn);");
  out.line("take_over_sums();");
  out.line("const u32 tile_sums = sums_at + static_cast<u32>(turn.stage) * {};", shape.sum_columns);
  out.line("#pragma unroll 1");
  out.open("for (int k = 0; k < {}; ++k)", shape.depth_tiles);
  out.line("stages.wait_for(at);");
  out.line(
      "TileProducts::multiply(shared + at.stage * LeftTile::bytes, right_tiles + at.stage * RightTile::bytes, "
      "tile_sums, k > 0);");
  out.line("tell_when_multiplied<{}{}>(stages.empty(at.stage));", together, s.paired ? ", true" : "");
  out.line("at.advance();");
  out.close();
  out.line("{}sums.full(turn.stage){});", s.paired ? "tell_pair(" : "tell_when_multiplied<1>(",
           s.paired ? ", rank" : "");
  out.line("turn.advance();");
  out.close(2);
  out.line("__syncwarp();");
  out.close();
}

void print_taken_sums(Writer& out, const ContractionProblem& problem, const ContractionSchedule& s,
                      const std::function<void()>& results) {
  const ContractionShape shape = kernel::shape_of(problem, s);
  const int taken = kernel::taken_columns(s), parts = s.warp_columns / taken;
  out.line("sums.wait_for(at);");
  out.line("take_over_sums();");
  if (parts > 1) {
    out.line("const int first_column = warp_column;");
    out.line("#pragma unroll 1");
    out.open("for (int part = 0; part < {}; ++part)", parts);
    out.line("const int warp_column = first_column + part * {};", taken);
  }
  out.line("Cores cores;");
  out.line("cores.load<{}>(sums_at + static_cast<u32>(at.stage) * {}, warp_row, warp_column);", s.block_columns,
           shape.sum_columns);
  if (parts > 1) out.open("if (part == {})", parts - 1);
  out.line("hand_over_sums();");
  out.line("{}", s.paired ? "release_to_first(sums, at.stage, rank);" : "sums.release(at.stage);");
  if (parts > 1) out.close();
  results();
  if (parts > 1) out.close();
  out.line("at.advance();");
}

}  // namespace stitch::codegen
