#include "codegen/contraction/warpgroup_text.h"

#include "codegen/contraction/contraction_text.h"
#include "codegen/spelling.h"
#include "kernel/contraction/contraction_shape.h"

namespace stitch::codegen {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::ContractionShape;
using kernel::warpgroup_warps;

/// What follows the descriptors: that sums are added to, signs, and which operands are transposed.
std::string modifiers(const ContractionProblem& problem) {
  if (!graph::is_floating(problem.accumulator)) return "p";
  const auto transposed = [](const kernel::ContractionOperand& operand) {
    return kernel::contiguity(operand) == kernel::Contiguity::free ? 1 : 0;
  };
  return fmt::format("p, 1, 1, {}, {}", transposed(problem.left), transposed(problem.right));
}

/// Both operands' tiles of a turn.
void print_copies(Writer& out, const ContractionSchedule& s, int threads, std::string_view tile) {
  for (const bool left : {true, false}) {
    const std::string place = fmt::format("{} + {} % {} * {}Tile::bytes", left ? "shared" : "right_tiles", tile,
                                          s.stages, left ? "Left" : "Right");
    print_tile_copy(out, left, threads, place, tile, s.block_depth);
  }
}

}  // namespace

void print_wgmma(Writer& out, std::string_view name, const ContractionProblem& problem,
                 const ContractionSchedule& schedule) {
  const int columns = schedule.warp_columns, registers = columns / 2;
  const std::string sum = compute_type(problem.accumulator);
  const char* constraint = graph::is_floating(problem.accumulator) ? "+f" : "+r";
  std::string places, sums;
  for (int i = 0; i < registers; ++i) {
    places += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    sums += fmt::format("{}\"{}\"(sums[{}][{}])", i == 0 ? "" : ", ", constraint, i / 4, i % 4);
  }
  out.open("struct {}", name);
  out.open("__device__ static __forceinline__ void multiply({} (&sums)[{}][4], u64 left, u64 right)", sum, columns / 8);
  out.line("asm volatile(\"{{\\n.reg .pred p;\\nsetp.eq.u32 p, 1, 1;\\n\"");
  out.line("             \"wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} \"", columns,
           info(schedule.instruction).depth, to_string(problem.accumulator), to_string(problem.left.dtype),
           to_string(problem.right.dtype));
  out.line("             \"{{{}}}, \"", places);
  out.line("             \"%{}, %{}, {};\\n}}\\n\"", registers, registers + 1, modifiers(problem));
  out.line("             : {}", sums);
  out.line("             : \"l\"(left), \"l\"(right));");
  out.close();
  out.set_depth(0);
  out.line("}};");
}

void print_warpgroup_place(Writer& out, const ContractionSchedule& schedule) {
  const int across = schedule.block_columns / schedule.warp_columns;
  // All lanes know that they have the same warp: descriptors are of a warp.
  out.line("const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);");
  out.line("const int group_row = warp / {} / {} * {}, warp_row = group_row + warp % {} * 16;", warpgroup_warps, across,
           warpgroup_warps * schedule.warp_rows, warpgroup_warps);
  out.line("const int warp_column = warp / {} % {} * {};", warpgroup_warps, across, schedule.warp_columns);
}

void print_warpgroup_loop(Writer& out, const ContractionProblem& problem, const ContractionSchedule& schedule) {
  const ContractionShape shape = kernel::shape_of(problem, schedule);
  const int ahead = schedule.stages - 2;  // tiles that are on their way when one is waited for
  out.line("unsigned char* const right_tiles = shared + {} * LeftTile::bytes;", schedule.stages);
  for (int tile = 0; tile < ahead; ++tile) {
    print_copies(out, schedule, shape.threads, std::to_string(tile));
    out.line("commit_copies();");
  }
  out.line("#pragma unroll 1");
  out.open("for (int k = 0; k < {}; ++k)", shape.depth_tiles);
  out.line("wait_for_groups<{}>();", ahead - 1);
  out.line("share_with_wgmma();");
  out.line("__syncthreads();");
  out.open("if (k + {} < {})", ahead, shape.depth_tiles);
  print_copies(out, schedule, shape.threads, fmt::format("(k + {})", ahead));
  out.close();
  out.line("commit_copies();");
  out.line(
      "cores.begin(shared + k % {0} * LeftTile::bytes, right_tiles + k % {0} * RightTile::bytes, group_row, "
      "warp_column);",
      schedule.stages);
  out.line("wait_for_products<1>();");
  out.close();
  out.line("wait_for_products<0>();");
  out.line("settle_results(cores);");
}

}  // namespace stitch::codegen
