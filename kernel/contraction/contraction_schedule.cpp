#include "kernel/contraction/contraction_schedule.h"

#include <algorithm>
#include <array>

#include "graph/f32_products.h"

namespace stitch::kernel {
namespace {

using graph::DType;
using graph::F32Arithmetic;

bool both_among(const ProductTypes& t, std::initializer_list<DType> types) {
  return std::ranges::find(types, t.left) != types.end() && std::ranges::find(types, t.right) != types.end();
}

bool any_types(const ProductTypes&) { return true; }
bool halves(const ProductTypes& t) {
  return t.left == t.right && both_among(t, {DType::f16, DType::bf16}) && t.accumulator == DType::f32;
}
bool bytes(const ProductTypes& t) { return both_among(t, {DType::s8, DType::u8}) && t.accumulator == DType::s32; }
bool small_floats(const ProductTypes& t) {
  return both_among(t, {DType::f8e4m3, DType::f8e5m2}) && t.accumulator == DType::f32;
}
bool doubles(const ProductTypes& t) { return both_among(t, {DType::f64}) && t.accumulator == DType::f64; }
template <graph::F32Arithmetic way>
bool singles(const ProductTypes& t) {
  return both_among(t, {DType::f32}) && t.accumulator == DType::f32 && t.f32 == way;
}
using enum ContractionInstruction;
constexpr int any = 1 << 20;
// Sums of f8 by wgmma keep some 14 bits on Hopper (DeepSeek-V3, arXiv 2412.19437 §3.5.2); mma.sync multiplies f8 as f16
// there, and sums in f32.
constexpr std::array<InstructionInfo, 16> table = {{
    {cuda_core, "cuda_core", 1, 1, 1, 70, any, 1, any_types},
    {mma_m16n8k16, "mma_m16n8k16", 16, 8, 16, 80, any, 1, halves},
    {mma_m16n8k32, "mma_m16n8k32", 16, 8, 32, 80, any, 1, bytes},
    {mma_m16n8k32_f8, "mma_m16n8k32_f8", 16, 8, 32, 89, any, 1, small_floats},
    {wgmma_m64k16, "wgmma_m64k16", 16, 8, 16, 90, 90, warpgroup_warps, halves},
    {wgmma_m64k32, "wgmma_m64k32", 16, 8, 32, 90, 90, warpgroup_warps, bytes},
    {mma_m16n8k8_tf32, "mma_m16n8k8_tf32", 16, 8, 8, 80, any, 1, singles<F32Arithmetic::tf32>},
    {mma_m16n8k8_tf32x3, "mma_m16n8k8_tf32x3", 16, 8, 8, 80, any, 1, singles<F32Arithmetic::tf32x3>},
    {mma_m16n8k16_bf16x3, "mma_m16n8k16_bf16x3", 16, 8, 16, 80, any, 1, singles<F32Arithmetic::bf16x3>},
    {wgmma_m64k8_tf32, "wgmma_m64k8_tf32", 16, 8, 8, 90, 90, warpgroup_warps, singles<F32Arithmetic::tf32>},
    {mma_m16n8k4_f64, "mma_m16n8k4_f64", 16, 8, 4, 80, any, 1, doubles},
    {tcgen05_m128k16, "tcgen05_m128k16", 32, 8, 16, 100, 103, warpgroup_warps, halves, true},
    {tcgen05_m128k32, "tcgen05_m128k32", 32, 8, 32, 100, 100, warpgroup_warps, bytes, true},
    {tcgen05_m128k32_f8, "tcgen05_m128k32_f8", 32, 8, 32, 100, 103, warpgroup_warps, small_floats, true},
    {tcgen05_m128k8_tf32, "tcgen05_m128k8_tf32", 32, 8, 8, 100, 103, warpgroup_warps, singles<F32Arithmetic::tf32>,
     true},
    {wgmma_m64k32_f8, "wgmma_m64k32_f8", 16, 8, 32, 90, 90, warpgroup_warps, small_floats, false, true},
}};

}  // namespace

std::span<const InstructionInfo> instruction_table() { return table; }

const InstructionInfo& info(ContractionInstruction instruction) { return table[static_cast<std::size_t>(instruction)]; }

ProductTypes types_of(const ContractionProblem& problem) {
  const bool f32 = graph::is_f32_product(*problem.graph, problem.graph->node(problem.root));
  const graph::F32Arithmetic way = f32 ? problem.graph->constraints.f32_arithmetic() : graph::F32Arithmetic::f32;
  // What is scaled before it is added up is summed exactly until then.
  const DType sums = problem.scales && !graph::is_floating(problem.left.dtype) ? DType::s32 : problem.accumulator;
  return {problem.left.dtype, problem.right.dtype, sums, way};
}

std::string to_string(const ContractionSchedule& s) {
  std::string text = fmt::format("{} block {}×{}×{} warp {}×{}", to_string(s.instruction), s.block_rows,
                                 s.block_columns, s.block_depth, s.warp_rows, s.warp_columns);
  if (s.instruction == cuda_core) text += fmt::format(" thread {}×{}", s.thread_rows, s.thread_columns);
  text += fmt::format(" stages {}×{} split {} group {} copy {}{}/{}{} store {}", s.stages, s.fragment_stages, s.split,
                      s.group, s.left_copy, s.left_realigned ? "r" : "", s.right_copy, s.right_realigned ? "r" : "",
                      s.store);
  if (s.blocks_per_sm != 1) text += fmt::format(" blocks {}", s.blocks_per_sm);
  if (!s.swizzle) text += " plain";
  if (s.row_blocks != 1) text += fmt::format(" rows {}", s.row_blocks);
  if (s.streamed != 0) text += fmt::format(" streamed {}", s.streamed);
  if (s.tensor_copies)
    text += fmt::format(" tensor {}cluster {} of {}", s.paired ? "paired " : "", s.cluster, s.resident);
  return text;
}

Hash128 schedule_hash(const ContractionSchedule& s) {
  Hasher hasher;
  hasher.text("stitch-contraction-schedule-1").text(to_string(s.instruction));
  for (const int value : {s.block_rows, s.block_columns, s.block_depth, s.warp_rows, s.warp_columns, s.thread_rows,
                          s.thread_columns, s.stages, s.fragment_stages, s.split, s.group, s.left_copy, s.right_copy,
                          s.store, s.blocks_per_sm, s.swizzle ? 1 : 0})
    hasher.integer(static_cast<std::uint64_t>(value));
  // What was stored before there were tensor copies keeps its name.
  if (s.tensor_copies)
    hasher.text("tensor")
        .integer(static_cast<std::uint64_t>(s.cluster))
        .integer(static_cast<std::uint64_t>(s.resident));
  if (s.paired) hasher.text("paired");
  if (s.left_realigned) hasher.text("left realigned");
  if (s.right_realigned) hasher.text("right realigned");
  if (s.row_blocks != 1) hasher.text("rows").integer(static_cast<std::uint64_t>(s.row_blocks));
  if (s.streamed != 0) hasher.text("streamed").integer(static_cast<std::uint64_t>(s.streamed));
  return hasher.finish();
}

}  // namespace stitch::kernel
