#include "kernel/contraction/schedule.h"

#include <algorithm>
#include <array>

#include "kernel/contraction/strips.h"

namespace stitch::kernel {
namespace {

using graph::DType;

bool both_among(DType left, DType right, std::initializer_list<DType> types) {
  return std::ranges::find(types, left) != types.end() && std::ranges::find(types, right) != types.end();
}

bool any_types(DType, DType, DType) { return true; }
bool halves(DType left, DType right, DType accumulator) {
  return left == right && both_among(left, right, {DType::f16, DType::bf16}) && accumulator == DType::f32;
}
bool bytes(DType left, DType right, DType accumulator) {
  return both_among(left, right, {DType::s8, DType::u8}) && accumulator == DType::s32;
}
bool small_floats(DType left, DType right, DType accumulator) {
  return both_among(left, right, {DType::f8e4m3, DType::f8e5m2}) && accumulator == DType::f32;
}
using enum ContractionInstruction;
constexpr std::array<InstructionInfo, 4> table = {{
    {cuda_core, "cuda_core", 1, 1, 1, 70, any_types},
    {mma_m16n8k16, "mma_m16n8k16", 16, 8, 16, 80, halves},
    {mma_m16n8k32, "mma_m16n8k32", 16, 8, 32, 80, bytes},
    {mma_m16n8k32_f8, "mma_m16n8k32_f8", 16, 8, 32, 89, small_floats},
}};

constexpr std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Along the contracted dimension, what a lane of cuda_core multiplies before it loads again: a row of the contracted
/// dimension is loaded 16 bytes at a time where an operand lies that way.
int core_depth(const ContractionProblem& problem) {
  const auto turned = [](const ContractionOperand& operand) { return contiguity(operand) == Contiguity::free; };
  if (turned(problem.left) && turned(problem.right)) return 1;
  const int size = std::max(graph::byte_size(problem.left.dtype), graph::byte_size(problem.right.dtype));
  return std::min(4, 16 / size);
}

}  // namespace

std::span<const InstructionInfo> instruction_table() { return table; }

const InstructionInfo& info(ContractionInstruction instruction) { return table[static_cast<std::size_t>(instruction)]; }

std::string to_string(const ContractionSchedule& s) {
  std::string text = fmt::format("{} block {}×{}×{} warp {}×{}", to_string(s.instruction), s.block_rows,
                                 s.block_columns, s.block_depth, s.warp_rows, s.warp_columns);
  if (s.instruction == cuda_core) text += fmt::format(" thread {}×{}", s.thread_rows, s.thread_columns);
  text += fmt::format(" stages {}×{} split {} group {} copy {}/{} store {}", s.stages, s.fragment_stages, s.split,
                      s.group, s.left_copy, s.right_copy, s.store);
  if (s.blocks_per_sm != 1) text += fmt::format(" blocks {}", s.blocks_per_sm);
  if (!s.swizzle) text += " plain";
  return text;
}

Hash128 schedule_hash(const ContractionSchedule& s) {
  Hasher hasher;
  hasher.text("stitch-contraction-schedule-1").text(to_string(s.instruction));
  for (const int value : {s.block_rows, s.block_columns, s.block_depth, s.warp_rows, s.warp_columns, s.thread_rows,
                          s.thread_columns, s.stages, s.fragment_stages, s.split, s.group, s.left_copy, s.right_copy,
                          s.store, s.blocks_per_sm, s.swizzle ? 1 : 0})
    hasher.integer(static_cast<std::uint64_t>(value));
  return hasher.finish();
}

ContractionShape shape_of(const ContractionProblem& problem, const ContractionSchedule& s) {
  ContractionShape shape;
  const InstructionInfo& instruction = info(s.instruction);
  shape.warps = s.block_rows / s.warp_rows * (s.block_columns / s.warp_columns);
  shape.threads = 32 * shape.warps;
  shape.row_tiles = divided_up(problem.rows, s.block_rows);
  shape.column_tiles = divided_up(problem.columns, s.block_columns);
  shape.depth_tiles = divided_up(divided_up(problem.contracted, s.block_depth), s.split);
  shape.tiles = problem.batch * shape.row_tiles * shape.column_tiles;
  shape.blocks = std::max<std::int64_t>(1, shape.tiles * s.split);
  shape.fragment_depth = s.instruction == cuda_core ? core_depth(problem) : instruction.depth;
  shape.depth_steps = s.block_depth / shape.fragment_depth;
  const std::int64_t left_size = graph::byte_size(problem.left.dtype);
  const std::int64_t right_size = graph::byte_size(problem.right.dtype);
  shape.left_bytes = s.block_rows * s.block_depth * left_size;
  shape.right_bytes = s.block_columns * s.block_depth * right_size;
  const std::int64_t accumulator = graph::byte_size(problem.accumulator);
  const ContractionStrips strips = strips_of(problem, s);
  shape.shared_bytes = std::max(s.stages * (shape.left_bytes + shape.right_bytes), shape.warps * strips.bytes);
  if (s.split > 1) {
    shape.scratch_bytes = shape.tiles * s.split * s.block_rows * s.block_columns * accumulator;
  }
  shape.accumulators = s.warp_rows * s.warp_columns / 32 * (accumulator / 4);
  const int lane_depth = shape.fragment_depth * s.fragment_stages;
  if (s.instruction == cuda_core) {
    shape.fragments = (s.thread_rows + s.thread_columns) * lane_depth * (accumulator / 4);
  } else {
    shape.fragments = (s.warp_rows * left_size + s.warp_columns * right_size) * lane_depth / 128;
  }
  return shape;
}

}  // namespace stitch::kernel
