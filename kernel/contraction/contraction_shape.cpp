#include "kernel/contraction/contraction_shape.h"

#include <algorithm>
#include <bit>

#include "kernel/contraction/computed_operand.h"
#include "kernel/contraction/realigned_copy.h"
#include "kernel/contraction/row_reductions.h"
#include "kernel/contraction/strips.h"
#include "kernel/contraction/window_walk.h"

namespace stitch::kernel {
namespace {

using enum ContractionInstruction;

/// Addresses, bounds and loop variables beside accumulators and fragments. A lane of cuda_core has an address for each
/// of its runs, and what it loaded before it is widened. Where fragments are loaded ahead, addresses of each step of a
/// tile stay.
constexpr int other_registers = 40, other_registers_of_cores = 72, step_registers = 2;
/// Of each copy of a turn whose place follows from none of the others': its address on both sides; and what it is
/// made of under a window. What lies evenly has one address (device/contraction.cuh, copy_tile). By registers and
/// spills of ptxas 13.0 (stitch contractions --registers).
constexpr int copy_registers = 4, window_registers = 6;
/// Where sums are there twice and nothing else is: of 128 × 128 results by two warpgroups a thread has 143 registers
/// for sm_90a (CUDA 13.0), 128 of them sums.
constexpr int other_registers_of_promoted = 24;

/// Whether all of them lie evenly, and equally far apart.
bool lie_evenly(const std::vector<const ContractionOperand*>& operands) {
  const auto step = [](const ContractionDigits& digits) { return digits.empty() ? 0 : digits[0].stride; };
  return std::ranges::all_of(operands, [&](const ContractionOperand* each) {
    return each->windows.empty() && each->free.size() <= 1 && each->contracted.size() <= 1 &&
           step(each->free) == step(operands[0]->free) && step(each->contracted) == step(operands[0]->contracted);
  });
}

int copying_registers(const ContractionProblem& problem, const ContractionSchedule& s, const ContractionShape& shape) {
  if (s.tensor_copies) return 0;
  int registers = 0;
  for (const bool left : {true, false}) {
    // What threads make or realign is in registers of its own (`held`).
    const bool computes = computed_side(problem, left) != nullptr || (left ? s.left_realigned : s.right_realigned);
    const int copy = left ? s.left_copy : s.right_copy;
    // Fewer bytes go through registers some at a time.
    if (computes || copy < 4) continue;
    const ContractionOperand& operand = left ? problem.left : problem.right;
    const bool of_gates = !left && problem.other_right.has_value();
    if (!of_gates && lie_evenly(left ? left_operands(problem) : right_operands(problem))) continue;
    const std::int64_t copies = divided_up((left ? shape.left_bytes : shape.right_bytes) / copy, shape.threads);
    registers += static_cast<int>(copies) * (operand.windows.empty() ? copy_registers : window_registers);
  }
  return registers;
}

/// Along the contracted dimension, what a lane of cuda_core multiplies before it loads again: a row of the contracted
/// dimension is loaded 16 bytes at a time where an operand lies that way.
int core_depth(const ContractionProblem& problem) {
  const auto turned = [](const ContractionOperand& operand) { return contiguity(operand) == Contiguity::free; };
  if (turned(problem.left) && turned(problem.right)) return 1;
  const int size = std::max(graph::byte_size(problem.left.dtype), graph::byte_size(problem.right.dtype));
  return std::min(4, 16 / size);
}

constexpr int most_sum_turns = 2;

/// Of the block's sums in tensor memory.
void place_sums(const ContractionSchedule& s, ContractionShape& shape) {
  if (!in_tensor_memory(s.instruction)) return;
  shape.sum_columns = s.block_rows / tensor_memory_lanes * s.block_columns;
  const auto all = [&](int turns) {
    return static_cast<int>(
        std::bit_ceil(static_cast<unsigned>(std::max(least_tensor_columns, turns * shape.sum_columns))));
  };
  const bool two = all(most_sum_turns) * s.blocks_per_sm <= tensor_memory_columns && shape.grid < shape.blocks;
  shape.sum_turns = two ? most_sum_turns : 1;
  shape.tensor_columns = all(shape.sum_turns);
}

}  // namespace

std::int64_t tensor_maps(const ContractionProblem& problem) {
  return std::ssize(left_operands(problem)) + std::ssize(right_operands(problem));
}

std::int64_t tensor_copy_bytes(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  const int sums = in_tensor_memory(schedule.instruction) ? 2 * 8 * most_sum_turns + 8 : 0;
  return tensor_maps(problem) * tensor_map_bytes + divided_up(2 * 8 * schedule.stages + sums, 128) * 128;
}

std::vector<std::int64_t> first_tiles(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  std::vector<std::int64_t> first;
  std::int64_t tiles = 0;
  for (const ContractionProblem& part : parts_of(problem)) {
    first.push_back(tiles);
    tiles += divided_up(part.columns, schedule.block_columns);
  }
  return first;
}

std::int64_t row_bytes(const ContractionProblem& problem, const ContractionSchedule& s) {
  const std::int64_t across = s.block_columns / s.warp_columns, turns = s.tensor_copies ? 2 : 1;
  const std::int64_t shares = s.row_blocks > 1 ? turns * s.row_blocks : 0;
  const std::int64_t barriers =
      s.row_blocks > 1 && s.tensor_copies ? turns * row_levels(problem.row_reductions) * 8 : 0;
  return std::ssize(problem.row_reductions) * s.block_rows * (across + shares + 1) * 4 + barriers;
}

int column_group_rows(const ContractionProblem& problem) {
  int rows = 1;
  for (const ColumnSum& sum : problem.column_sums) rows = std::max(rows, results_of(problem)[sum.result].summed);
  return rows;
}

int column_part_rows(const ContractionProblem& problem, const ContractionSchedule& s) {
  // Of wgmma strips of a warp are 64 rows apart.
  const int together = is_warpgroup(s.instruction) ? info(s.instruction).rows : s.warp_rows;
  return std::min(together, column_group_rows(problem));
}

std::int64_t column_bytes(const ContractionProblem& problem, const ContractionSchedule& s) {
  return std::ssize(problem.column_sums) * divided_up(s.block_rows, column_part_rows(problem, s)) * s.block_columns * 4;
}

bool has_one_row_factor(const ContractionProblem& problem, const ContractionSchedule& s) {
  return problem.scales->same_rows % s.block_rows == 0;
}

bool has_one_column_factor(const ContractionProblem& problem, const ContractionSchedule& s) {
  return problem.scales->same_columns % s.warp_columns == 0;
}

ContractionShape shape_of(const ContractionProblem& problem, const ContractionSchedule& s) {
  ContractionShape shape;
  const InstructionInfo& instruction = info(s.instruction);
  shape.warps = s.block_rows / s.warp_rows * (s.block_columns / s.warp_columns);
  shape.threads = 32 * (shape.warps + (s.tensor_copies ? 1 : 0) + (in_tensor_memory(s.instruction) ? 1 : 0));
  std::int64_t row_tiles = divided_up(problem.rows, s.block_rows), turns = kernel::depth_tiles(problem, s.block_depth);
  if (walks_windows(problem, s)) {
    if (const Result<WindowWalk> walk = window_walk(problem, s.block_rows)) {
      row_tiles = walk->row_tiles();
      turns = walk->turns(s.block_depth);
    }
  }
  shape.row_tiles = divided_up(row_tiles, s.cluster) * s.cluster;
  for (const ContractionProblem& part : parts_of(problem))
    shape.column_tiles += divided_up(part.columns, s.block_columns);
  shape.depth_tiles = divided_up(turns, s.split);
  shape.tiles = problem.batch * shape.row_tiles * shape.column_tiles;
  shape.blocks = std::max<std::int64_t>(1, shape.tiles * s.split);
  if (s.streamed > 0) {
    shape.streamed = StreamedDepth::of(shape.tiles, shape.depth_tiles, s.streamed);
    shape.blocks = s.streamed + shape.streamed.whole;
  }
  shape.grid = s.resident > 0 ? std::min<std::int64_t>(s.resident, shape.blocks) : shape.blocks;
  place_sums(s, shape);
  shape.fragment_depth = s.instruction == cuda_core ? core_depth(problem) : instruction.depth;
  shape.depth_steps = s.block_depth / shape.fragment_depth;
  const std::int64_t left_size = graph::byte_size(problem.left.dtype);
  const std::int64_t right_size = graph::byte_size(problem.right.dtype);
  shape.left_bytes = s.block_rows * s.block_depth * left_size;
  shape.right_bytes = right_columns(s) * s.block_depth * right_size;
  const std::int64_t accumulator = graph::byte_size(problem.accumulator);
  const ContractionStrips strips = strips_of(problem, s);
  const std::int64_t stages = s.stages * (shape.left_bytes + shape.right_bytes);
  shape.strips_at = s.tensor_copies ? stages + tensor_copy_bytes(problem, s) : 0;
  shape.shared_bytes = std::max(stages, shape.strips_at + shape.warps * strips.bytes);
  if (!problem.row_reductions.empty()) {
    shape.rows_at = divided_up(shape.shared_bytes, 16) * 16;
    shape.shared_bytes = shape.rows_at + row_bytes(problem, s);
  }
  if (!problem.column_sums.empty()) {
    shape.columns_at = divided_up(shape.shared_bytes, 16) * 16;
    shape.shared_bytes = shape.columns_at + column_bytes(problem, s);
  }
  if (s.split > 1 || shape.streamed.turns > 1) {
    const std::int64_t places = s.split > 1 ? shape.tiles * s.split : shape.streamed.places();
    shape.scratch_bytes = places * s.block_rows * s.block_columns * accumulator;
    shape.arrivals = s.split > 1 ? shape.tiles : shape.streamed.tiles;
  }
  shape.accumulators = s.warp_rows * taken_columns(s) / 32 * (accumulator / 4);
  const int lane_depth = shape.fragment_depth * s.fragment_stages;
  if (s.instruction == cuda_core) {
    shape.fragments = (s.thread_rows + s.thread_columns) * lane_depth * (accumulator / 4);
  } else if (!reads_tiles(s.instruction)) {
    shape.fragments = (s.warp_rows * left_size + s.warp_columns * right_size) * lane_depth / 128;
    // Beside what was loaded, rounded values and what they lost. Of bf16 two of either share a register, but ptxas
    // loads as much ahead of splitting it: of 32 × 64 results a thread has 202 to 211 registers in one stage for
    // sm_90a, and spills in two (CUDA 13.0).
    const int rounded = s.instruction == mma_m16n8k8_tf32 ? 1 : s.instruction == mma_m16n8k8_tf32x3 ? 2 : 0;
    shape.fragments += rounded * shape.fragments / s.fragment_stages;
    if (s.instruction == mma_m16n8k16_bf16x3) shape.fragments *= 2;
  }
  for (const ComputedOperand& computed : problem.computed) {
    const ContractionOperand& operand = computed.left ? problem.left : problem.right;
    const int run = std::max(1, (computed.left ? s.left_copy : s.right_copy) / graph::byte_size(operand.dtype));
    const std::int64_t elements = std::int64_t{computed.left ? s.block_rows : s.block_columns} * s.block_depth;
    const std::int64_t runs = divided_up(divided_up(elements, run), shape.threads);
    shape.held += static_cast<int>(runs) * held_registers(computed, run);
  }
  shape.held += realigned_registers(problem, s, shape.left_bytes, shape.right_bytes, shape.threads);
  if (problem.scales) {
    const bool cores = s.instruction == cuda_core;
    shape.row_factors = has_one_row_factor(problem, s) ? 1 : cores ? s.thread_rows : s.warp_rows / 8;
    shape.column_factors = has_one_column_factor(problem, s) ? 1 : cores ? s.thread_columns : s.warp_columns / 4;
  }
  int scaled = shape.row_factors + shape.column_factors;
  if (problem.scales || promotes(s.instruction)) scaled += shape.accumulators;  // a second set
  shape.registers = shape.held + scaled + shape.accumulators + shape.fragments +
                    (s.instruction == cuda_core                   ? other_registers_of_cores
                     : s.tensor_copies && promotes(s.instruction) ? other_registers_of_promoted
                                                                  : other_registers) +
                    copying_registers(problem, s, shape);
  if (s.instruction != cuda_core && s.fragment_stages > 1) shape.registers += step_registers * shape.depth_steps;
  // Sums of the columns of a store.
  if (!problem.column_sums.empty())
    shape.registers += static_cast<int>(std::ssize(problem.column_sums)) * store_of(problem, s);
  return shape;
}

}  // namespace stitch::kernel
