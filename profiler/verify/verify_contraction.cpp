#include "profiler/verify/verify_contraction.h"

#include <algorithm>
#include <set>

#include "base/random.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/window_walk.h"

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

/// How the tiles of a batch are walked (codegen/contraction/contraction_text: print_tile_place), clusters of them at a
/// time.
class TileWalk {
 public:
  TileWalk(const ContractionShape& shape, const ContractionSchedule& s)
      : rows_(shape.row_tiles / s.cluster),
        columns_(shape.column_tiles),
        across_(std::min<std::int64_t>(s.group, rows_)) {}

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] std::int64_t number_of(std::int64_t row, std::int64_t column) const {
    const std::int64_t band = row / across_;
    return band * across_ * columns_ + column * height(band) + row % across_;
  }
  /// Row and column.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> place_of(std::int64_t number) const {
    const std::int64_t band = number / (across_ * columns_), within = number % (across_ * columns_);
    return {band * across_ + within % height(band), within / height(band)};
  }

 private:
  [[nodiscard]] std::int64_t height(std::int64_t band) const { return std::min(across_, rows_ - band * across_); }

  std::int64_t rows_, columns_, across_;
};

/// The first and the last column of tiles of each product.
std::set<std::int64_t> outer_columns(const ContractionProblem& problem, const ContractionSchedule& s) {
  std::set<std::int64_t> outer = {kernel::shape_of(problem, s).column_tiles - 1};
  for (const std::int64_t first : kernel::first_tiles(problem, s)) outer.insert({first, first - 1});
  outer.erase(-1);
  return outer;
}

/// Columns in a column of tiles, of which a result is made of as many as it has gates: the last of a product has what
/// is left.
std::int64_t columns_of_tile(const ContractionProblem& problem, const ContractionSchedule& s, std::int64_t column) {
  const std::vector<std::int64_t> first = kernel::first_tiles(problem, s);
  const auto part = std::ranges::upper_bound(first, column) - first.begin() - 1;
  const std::int64_t left = kernel::parts_of(problem)[part].columns - (column - first[part]) * s.block_columns;
  return std::clamp<std::int64_t>(left, 0, s.block_columns);
}

/// The blocks that have turns of these tiles, where turns are shared; and `tiles` become all that these blocks
/// complete: counters of others begin at zero again in every launch.
BlockSample sample_streamed(const kernel::StreamedDepth& streamed, std::set<std::int64_t>& tiles) {
  std::set<std::int64_t> shared, alone;
  for (const std::int64_t tile : tiles) {
    if (tile >= streamed.tiles) {
      alone.insert(streamed.blocks + tile - streamed.tiles);
      continue;
    }
    for (std::int64_t block = streamed.first_block(tile); block <= streamed.last_block(tile); ++block)
      shared.insert(block);
  }
  for (const std::int64_t block : shared) {
    const std::int64_t first = streamed.begin(block) / streamed.turns;
    const std::int64_t last = (streamed.begin(block + 1) - 1) / streamed.turns;
    for (std::int64_t tile = first; tile <= last; ++tile) {
      bool whole = true;
      for (std::int64_t each = streamed.first_block(tile); each <= streamed.last_block(tile); ++each)
        whole = whole && shared.contains(each);
      if (whole) tiles.insert(tile);
    }
  }
  BlockSample sample;
  sample.blocks.assign(shared.begin(), shared.end());
  sample.blocks.insert(sample.blocks.end(), alone.begin(), alone.end());
  if (streamed.turns > 1) sample.presets = {{1, 0, 4, streamed.tiles, 0}};
  return sample;
}

BlockSample sample_tiles(const ContractionProblem& problem, const ContractionSchedule& s, std::int64_t budget,
                         std::uint64_t seed) {
  const ContractionShape shape = kernel::shape_of(problem, s);
  const TileWalk walk(shape, s);
  const std::int64_t together = s.cluster * s.row_blocks;
  // Blocks that share turns have those of other tiles, too: of one and a half on either side.
  const std::int64_t times = s.streamed > 0 ? 4 : 1;
  const std::int64_t wanted = budget / (tile_work(problem, s) * together * times), all = shape.tiles / s.cluster;
  if (all <= wanted * s.row_blocks || all == 0) return {};
  Random random(seed);
  const std::int64_t of_batch = walk.rows() * walk.columns();
  const std::int64_t batch = static_cast<std::int64_t>(random.below(all / of_batch)) * of_batch;
  std::set<std::int64_t> tiles, places;
  // Blocks that would leave their tensor maps in one place do not run together.
  const auto take = [&](std::int64_t tile) {
    if (s.tensor_copies && !places.insert(tile * s.cluster % shape.grid).second) return;
    // Blocks that share rows wait for one another; they follow one another, too.
    const std::int64_t first = tile - tile % s.row_blocks;
    for (std::int64_t each = first; each < first + s.row_blocks; ++each) tiles.insert(each);
  };
  for (const std::int64_t row : {std::int64_t{0}, walk.rows() - 1}) {
    for (const std::int64_t column : outer_columns(problem, s)) take(batch + walk.number_of(row, column));
  }
  const std::int64_t most = s.tensor_copies ? shape.grid / s.cluster : all;
  const std::int64_t enough = std::min(wanted * s.row_blocks, most);
  for (std::int64_t tries = 0; std::ssize(tiles) < enough && tries < 4 * all; ++tries) take(random.below(all));
  if (std::ssize(tiles) == all) return {};
  BlockSample sample;
  if (s.streamed > 0) sample = sample_streamed(shape.streamed, tiles);
  // Blocks that stay for several tiles have one each where there are as many of them.
  if (s.resident > 0) sample.grid = shape.blocks;
  const auto rows_of = [&](std::int64_t row_tile) {
    if (kernel::walks_windows(problem, s)) {
      if (const Result<kernel::WindowWalk> walk = kernel::window_walk(problem, s.block_rows))
        return walk->rows_of(row_tile);
    }
    return std::clamp<std::int64_t>(problem.rows - row_tile * s.block_rows, 0, s.block_rows);
  };
  for (const std::int64_t tile : tiles) {
    const auto [row, column] = walk.place_of(tile % of_batch);
    for (int block = 0; block < s.cluster; ++block) {
      // What a row has is left by the first of its blocks.
      const std::int64_t of_element = results_of_element(problem), of_row = column == 0 ? results_of_row(problem) : 0;
      sample.writes += rows_of(row * s.cluster + block) *
                       (of_element * columns_of_tile(problem, s, column) / problem.gates + of_row);
      for (const kernel::ColumnSum& sum : problem.column_sums)
        sample.writes += rows_of(row * s.cluster + block) / kernel::results_of(problem)[sum.result].summed *
                         columns_of_tile(problem, s, column);
      for (int part = 0; part < s.split && s.streamed == 0; ++part)
        sample.blocks.push_back((tile * s.cluster + block) * s.split + part);
    }
  }
  return sample;
}

}  // namespace

Execution execution_of(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  const ContractionShape shape = kernel::shape_of(problem, schedule);
  Execution execution;
  // One after the other along a block's depth, then the blocks of a tile; of a row those of a lane, of warps and
  // blocks.
  const std::int64_t of_row = problem.row_reductions.empty() ? 0 : schedule.block_columns + schedule.row_blocks;
  const std::int64_t of_column = kernel::column_group_rows(problem);
  const std::int64_t parts = schedule.streamed > 0 ? streamed_parts(shape.streamed).most : schedule.split;
  execution.serial_additions =
      std::max<std::int64_t>({32, shape.depth_tiles * schedule.block_depth + parts + 32, of_row, of_column});
  if (promotes(schedule.instruction)) execution.narrow_part = kernel::promoted_depth;
  execution.work = shape.tiles * tile_work(problem, schedule);
  execution.element_operations = std::max<std::int64_t>(1, problem.contracted);
  execution.sample = [problem, schedule](std::int64_t budget, std::uint64_t seed) {
    return sample_tiles(problem, schedule, budget, seed);
  };
  return execution;
}

}  // namespace stitch::profiler
