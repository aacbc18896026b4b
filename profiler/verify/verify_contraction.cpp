#include "profiler/verify/verify_contraction.h"

#include <algorithm>
#include <set>

#include "base/random.h"
#include "kernel/contraction/contraction_shape.h"

namespace stitch::profiler {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::ContractionShape;

std::int64_t tile_work(const ContractionProblem& problem, const ContractionSchedule& s) {
  const std::int64_t products = std::max<std::int64_t>(1, problem.contracted) * s.block_rows * s.block_columns;
  const bool cores = s.instruction == kernel::ContractionInstruction::cuda_core;
  return std::max<std::int64_t>(1, cores ? products : products / products_of_operation);
}

/// Number of the tile in its batch, by the walk that codegen/contraction/contraction_kernel prints.
std::int64_t number_of(std::int64_t row, std::int64_t column, const ContractionShape& shape, int group) {
  const std::int64_t across = std::min<std::int64_t>(group, shape.row_tiles);
  const std::int64_t band = row / across;
  const std::int64_t height = std::min(across, shape.row_tiles - band * across);
  return band * across * shape.column_tiles + column * height + row % across;
}

/// Row and column of such a tile.
std::pair<std::int64_t, std::int64_t> place_of(std::int64_t number, const ContractionShape& shape, int group) {
  const std::int64_t across = std::min<std::int64_t>(group, shape.row_tiles);
  const std::int64_t band = number / (across * shape.column_tiles), within = number % (across * shape.column_tiles);
  const std::int64_t height = std::min(across, shape.row_tiles - band * across);
  return {band * across + within % height, within / height};
}

BlockSample sample_tiles(const ContractionProblem& problem, const ContractionSchedule& s, std::int64_t budget,
                         std::uint64_t seed) {
  const ContractionShape shape = kernel::shape_of(problem, s);
  const std::int64_t wanted = budget / tile_work(problem, s);
  if (shape.tiles <= wanted || shape.tiles == 0) return {};
  Random random(seed);
  const std::int64_t of_batch = shape.row_tiles * shape.column_tiles;
  const std::int64_t batch = static_cast<std::int64_t>(random.below(shape.tiles / of_batch)) * of_batch;
  std::set<std::int64_t> tiles;
  for (const std::int64_t row : {std::int64_t{0}, shape.row_tiles - 1}) {
    for (const std::int64_t column : {std::int64_t{0}, shape.column_tiles - 1})
      tiles.insert(batch + number_of(row, column, shape, s.group));
  }
  while (std::ssize(tiles) < std::min(wanted, shape.tiles)) tiles.insert(random.below(shape.tiles));
  if (std::ssize(tiles) == shape.tiles) return {};
  BlockSample sample;
  for (const std::int64_t tile : tiles) {
    const auto [row, column] = place_of(tile % of_batch, shape, s.group);
    sample.writes += std::min<std::int64_t>(s.block_rows, problem.rows - row * s.block_rows) *
                     std::min<std::int64_t>(s.block_columns, problem.columns - column * s.block_columns);
    for (int part = 0; part < s.split; ++part) sample.blocks.push_back(tile * s.split + part);
  }
  return sample;
}

}  // namespace

Execution execution_of(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  const ContractionShape shape = kernel::shape_of(problem, schedule);
  Execution execution;
  // One after the other along a block's depth, then the blocks of a tile.
  execution.serial_additions =
      std::max<std::int64_t>(32, shape.depth_tiles * schedule.block_depth + schedule.split + 32);
  execution.work = shape.tiles * tile_work(problem, schedule);
  execution.element_operations = std::max<std::int64_t>(1, problem.contracted);
  execution.sample = [problem, schedule](std::int64_t budget, std::uint64_t seed) {
    return sample_tiles(problem, schedule, budget, seed);
  };
  return execution;
}

}  // namespace stitch::profiler
