#include "profiler/verify/verify_attention.h"

#include <algorithm>

#include "kernel/attention/visible_keys.h"
#include "profiler/verify/row_tile_sample.h"
#include "profiler/verify/verify_contraction.h"

namespace stitch::profiler {
namespace {

using kernel::AttentionProblem;
using kernel::AttentionSchedule;
using kernel::AttentionShape;

/// Operations for a score between the products.
constexpr std::int64_t operations_of_score = 12;

std::int64_t work_of_tile(const AttentionProblem& problem, const AttentionSchedule& s) {
  const AttentionShape shape = kernel::shape_of(problem, s);
  const std::int64_t deep = shape.scores.block_depth + shape.product.block_columns;
  const bool cores = s.instruction == kernel::ContractionInstruction::cuda_core;
  const std::int64_t of_score = (cores ? deep : deep / products_of_operation) + operations_of_score;
  return std::max<std::int64_t>(1, problem.keys() * s.block_rows * of_score);
}

BlockSample sample_rows(const AttentionProblem& problem, const AttentionSchedule& s, std::int64_t budget,
                        std::uint64_t seed) {
  return sample_row_tiles(
      {problem.batch(), kernel::shape_of(problem, s).row_tiles, problem.rows(), s.block_rows,
       problem.width() + std::ssize(problem.statistics), s.split, kernel::key_walk(problem, s).above.has_value(),
       problem.stored_operands() / std::max<std::int64_t>(1, problem.batch())},
      work_of_tile(problem, s), budget, seed);
}

}  // namespace

Execution execution_of(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  const AttentionShape shape = kernel::shape_of(problem, schedule);
  Execution execution;
  // One after the other along a block's keys, or along the depth of a score, then the blocks of a tile.
  execution.serial_additions = std::max<std::int64_t>(
      {32, shape.key_tiles * schedule.block_keys + schedule.split + 32, shape.scores.block_depth + 32});
  execution.work = shape.tiles * work_of_tile(problem, schedule);
  // A whole row of scores for one element; those of its row share it.
  execution.element_operations = problem.keys() * (1 + problem.depth() / std::max<std::int64_t>(1, problem.width()));
  execution.sample = [problem, schedule](std::int64_t budget, std::uint64_t seed) {
    return sample_rows(problem, schedule, budget, seed);
  };
  return execution;
}

}  // namespace stitch::profiler
