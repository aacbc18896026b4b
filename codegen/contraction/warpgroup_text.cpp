#include "codegen/contraction/warpgroup_text.h"

#include "codegen/contraction/computed_text.h"
#include "codegen/contraction/contraction_text.h"
#include "codegen/contraction/realigned_text.h"
#include "codegen/contraction/scale_text.h"
#include "codegen/spelling.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/shown_depth.h"

namespace stitch::codegen {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::ContractionShape;
using kernel::warpgroup_warps;

/// What follows the descriptors: that sums are added to, signs, and which operands are transposed (only those of 16
/// bits can be).
std::string modifiers(const ContractionProblem& problem) {
  if (!graph::is_floating(types_of(problem).accumulator)) return "p";
  if (graph::byte_size(problem.left.dtype) != 2) return "p, 1, 1";
  return fmt::format("p, 1, 1, {}, {}", transposed(problem.left), transposed(problem.right));
}

/// PTX's word for a type as it is multiplied: of f32 it reads what TF32 has of it.
std::string_view multiplied(graph::DType dtype) {
  switch (dtype) {
    case graph::DType::f32: return "tf32";
    case graph::DType::f8e4m3: return "e4m3";
    case graph::DType::f8e5m2: return "e5m2";
    default: return to_string(dtype);
  }
}

/// Both operands' tiles of a turn, or what of them is `load` and `store` of one that is held.
void print_copies(Writer& out, const ContractionProblem& problem, const ContractionSchedule& s, int threads,
                  std::string_view tile, bool load = true, bool store = true) {
  for (const bool left : {true, false}) {
    const std::string place = fmt::format("{} + {} % {} * {}Tile::bytes", left ? "shared" : "right_tiles", tile,
                                          s.stages, left ? "Left" : "Right");
    if (is_held(problem, s, left)) {
      print_staged_copy(out, {left, load, store}, place, tile, s.block_depth);
    } else if (load) {
      print_tile_copy(out, left, threads, place, tile, s.block_depth, !problem.terms.empty());
    }
  }
}

}  // namespace

int transposed(const kernel::ContractionOperand& operand) {
  return kernel::contiguity(operand) == kernel::Contiguity::free ? 1 : 0;
}

void print_wgmma_function(Writer& out, const WgmmaText& text) {
  const std::string constraint = fmt::format("{}{}", text.adds ? "+" : "=", text.sum == "f32" ? "f" : "r");
  std::string places, sums;
  for (int i = 0; i < text.columns / 2; ++i) {
    places += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    sums += fmt::format("{}\"{}\"(sums[{}][{}])", i == 0 ? "" : ", ", constraint, i / 4, i % 4);
  }
  out.open("__device__ static __forceinline__ void {}({} (&sums)[{}][4], {}, u64 right)", text.name, text.sum,
           text.columns / 8, text.left);
  out.line("asm volatile(\"{{\\n.reg .pred p;\\nsetp.eq.u32 p, {}, 1;\\n\"", text.adds ? 1 : 0);
  out.line("             \"wgmma.mma_async.sync.aligned.m64n{}k{}.{} \"", text.columns, text.depth, text.types);
  out.line("             \"{{{}}}, \"", places);
  out.line("             \"{};\\n}}\\n\"", text.operands);
  out.line("             : {}", sums);
  out.line("             : {}, \"l\"(right));", text.inputs);
  out.close();
}

void print_wgmma(Writer& out, std::string_view name, const ContractionProblem& problem,
                 const ContractionSchedule& schedule) {
  const int registers = schedule.warp_columns / 2;
  out.open("struct {}", name);
  // Of sums that are added to others a tile's begin with its first product.
  for (const bool adds : {false, true}) {
    if (!adds && !promotes(schedule.instruction)) continue;
    print_wgmma_function(out, {.name = adds ? "multiply" : "begin",
                               .left = "u64 left",
                               .sum = compute_type(types_of(problem).accumulator),
                               .types = fmt::format("{}.{}.{}", to_string(types_of(problem).accumulator),
                                                    multiplied(problem.left.dtype), multiplied(problem.right.dtype)),
                               .columns = schedule.warp_columns,
                               .depth = info(schedule.instruction).depth,
                               .adds = adds,
                               .operands = fmt::format("%{}, %{}, {}", registers, registers + 1, modifiers(problem)),
                               .inputs = "\"l\"(left)"});
  }
  out.set_depth(0);
  out.line("}};");
}

void print_warpgroup_place(Writer& out, const ContractionSchedule& schedule) {
  const int across = schedule.block_columns / schedule.warp_columns, rows = info(schedule.instruction).rows;
  // All lanes know that they have the same warp: descriptors are of a warp.
  out.line("const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);");
  out.line("const int group_row = warp / {} / {} * {}, warp_row = group_row + warp % {} * {};", warpgroup_warps, across,
           warpgroup_warps * schedule.warp_rows, warpgroup_warps, rows);
  out.line("const int warp_column = warp / {} % {} * {};", warpgroup_warps, across, schedule.warp_columns);
}

void print_warpgroup_loop(Writer& out, const ContractionProblem& problem, const ContractionSchedule& schedule) {
  const ContractionShape shape = kernel::shape_of(problem, schedule);
  const int ahead = schedule.stages - 2;  // tiles that are on their way when one is waited for
  const bool counted = kernel::shown_side(problem) != nullptr || schedule.streamed > 0;
  const std::string turns = counted ? "turns" : std::to_string(shape.depth_tiles);
  out.line("unsigned char* const right_tiles = shared + {} * LeftTile::bytes;", schedule.stages);
  for (int tile = 0; tile < ahead; ++tile) {
    if (schedule.streamed > 0) out.open("if ({} < turns)", tile);  // a tile may have fewer than there are stages
    print_copies(out, problem, schedule, shape.threads, std::to_string(tile));
    if (schedule.streamed > 0) out.close();
    out.line("commit_copies();");
  }
  out.line("#pragma unroll 1");
  out.open("for (int k = 0; k < {}; ++k)", turns);
  out.line("wait_for_groups<{}>();", ahead - 1);
  out.line("share_with_wgmma();");
  out.line("__syncthreads();");
  out.open("if (k + {} < {})", ahead, turns);
  const std::string next = fmt::format("(k + {})", ahead);
  print_copies(out, problem, schedule, shape.threads, next, true, false);
  out.close();
  out.line("commit_copies();");
  out.line(
      "cores.begin(shared + k % {0} * LeftTile::bytes, right_tiles + k % {0} * RightTile::bytes, group_row, "
      "warp_column);",
      schedule.stages);
  if (is_held(problem, schedule, true) ||
      is_held(problem, schedule, false)) {  // what was asked for has come while tiles were multiplied
    out.open("if (k + {} < {})", ahead, turns);
    print_copies(out, problem, schedule, shape.threads, next, false, true);
    out.close();
  }
  if (promotes(schedule.instruction)) {
    print_promoted_part(out, problem, schedule, "k");
  } else if (problem.scales) {
    print_scaled_part(out, problem, schedule, "k", schedule.block_depth, shape.depth_tiles, true);
  } else {
    out.line("wait_for_products<1>();");
  }
  out.close();
  if (promotes(schedule.instruction)) return;
  out.line("wait_for_products<0>();");
  out.line("settle_results(cores);");
}

}  // namespace stitch::codegen
