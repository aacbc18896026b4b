#include "costmodel/contraction/turn_cost.h"

#include <algorithm>

#include "costmodel/contraction/product_rates.h"
#include "kernel/contraction/contraction_shape.h"

namespace stitch::costmodel {
namespace {

bool is_cores(const kernel::ContractionSchedule& part) {
  return part.instruction == kernel::ContractionInstruction::cuda_core;
}

}  // namespace

double turn_shared_cycles(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& part, int warps,
                          bool with_left, const DeviceSpec& device) {
  const double left = with_left ? graph::byte_size(problem.left.dtype) : 0,
               right = graph::byte_size(problem.right.dtype);
  if (is_warpgroup(part.instruction)) {
    // Every 64 rows read what they share with others by themselves.
    const double groups = static_cast<double>(warps) / kernel::warpgroup_warps;
    const double read = groups * part.warp_rows / 16 * (64 * left + part.warp_columns * right) * part.block_depth;
    return read / device.shared_bytes_per_clock;
  }
  if (is_cores(part)) {
    return warps * part.block_depth *
           (core_load_cycles(part.thread_rows, left) + core_load_cycles(part.thread_columns, right));
  }
  return warps * part.block_depth * (part.warp_rows * left + part.warp_columns * right) / device.shared_bytes_per_clock;
}

double turn_instructions(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& part) {
  const double depth = part.block_depth;
  if (is_cores(part)) {
    return depth * (part.thread_rows * part.thread_columns + (part.thread_rows + part.thread_columns) / 4.0);
  }
  const kernel::InstructionInfo& instruction = info(part.instruction);
  const double steps = depth / instruction.depth;
  if (is_warpgroup(part.instruction)) return 2 * steps * part.warp_rows / instruction.rows;  // with its descriptor
  const double products = part.warp_rows / instruction.rows * (part.warp_columns / instruction.columns);
  return steps * (products + (part.warp_rows + part.warp_columns) / 16.0) + kernel::shape_of(problem, part).depth_steps;
}

double TurnPace::turn(double x, double use) const {
  const bool hidden = load(x) <= (stages * x - 1) * use / x;
  const double each = hidden ? std::max(use, transfer(x)) : std::max({use, transfer(x), (load(x) + use / x) / stages});
  return each + barrier / x;
}

PipelineTurn TurnPace::pipeline(std::int64_t turns, int x, double use, double us_per_cycle) const {
  const double between = barrier / x, busy = std::max(use, transfer(x)) + between;
  return {
      turns, stages, 1, x, load(x) * us_per_cycle, use / x * us_per_cycle, busy * us_per_cycle, between * us_per_cycle};
}

double results_cycles(const kernel::ContractionProblem& problem, double results, double l2_rate,
                      const DeviceSpec& device) {
  const double strips = 2 * results * 4 / device.shared_bytes_per_clock;
  const double stored = results * graph::byte_size(problem.result.dtype) / l2_rate;
  const double instructions =
      results / 32 * (result_instructions + operator_instructions * epilogue_operators(problem)) / schedulers;
  return std::max({strips, stored, instructions});
}

}  // namespace stitch::costmodel
