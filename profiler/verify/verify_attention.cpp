#include "profiler/verify/verify_attention.h"

#include <algorithm>
#include <set>

#include "base/random.h"
#include "kernel/attention/visible_keys.h"
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
  const AttentionShape shape = kernel::shape_of(problem, s);
  const std::int64_t wanted = std::max<std::int64_t>(2, budget / work_of_tile(problem, s));
  if (shape.tiles <= wanted || shape.tiles == 0) return {};
  Random random(seed);
  const std::int64_t batch = static_cast<std::int64_t>(random.below(problem.batch())) * shape.row_tiles;
  std::set<std::int64_t> tiles = {batch, batch + shape.row_tiles - 1};
  while (std::ssize(tiles) < wanted) tiles.insert(static_cast<std::int64_t>(random.below(shape.tiles)));
  if (std::ssize(tiles) == shape.tiles) return {};
  const bool last_first = kernel::key_walk(problem, s).above.has_value();
  BlockSample sample;
  for (const std::int64_t tile : tiles) {
    const std::int64_t place = tile % shape.row_tiles, row_tile = last_first ? shape.row_tiles - 1 - place : place;
    const std::int64_t of_row = problem.width() + std::ssize(problem.statistics);
    sample.writes += std::min<std::int64_t>(s.block_rows, problem.rows() - row_tile * s.block_rows) * of_row;
    for (int part = 0; part < s.split; ++part) sample.blocks.push_back(tile * s.split + part);
  }
  return sample;
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
