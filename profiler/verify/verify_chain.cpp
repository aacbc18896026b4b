#include "profiler/verify/verify_chain.h"

#include <algorithm>

#include "profiler/verify/row_tile_sample.h"
#include "profiler/verify/verify_contraction.h"

namespace stitch::profiler {
namespace {

using kernel::ChainSchedule;
using kernel::ProductChain;

/// Operations for a weight between the products.
constexpr std::int64_t operations_of_weight = 16;

std::int64_t work_of_rows(const ProductChain& chain, const ChainSchedule& s) {
  const kernel::ChainShape shape = kernel::shape_of(chain, s);
  std::int64_t deep = 0;
  for (const kernel::ContractionSchedule& score : shape.scores) deep += score.block_depth;
  for (const kernel::ContractionSchedule& product : shape.products) deep += product.block_columns;
  const bool cores = s.instruction == kernel::ContractionInstruction::cuda_core;
  const std::int64_t of_weight = (cores ? deep : deep / products_of_operation) + operations_of_weight;
  return std::max<std::int64_t>(1, chain.columns() * s.block_rows * of_weight);
}

std::int64_t results_of_row(const ProductChain& chain) {
  std::int64_t results = 0;
  for (const kernel::ContractionProblem& product : chain.products) results += product.columns;
  return results;
}

}  // namespace

Execution execution_of(const ProductChain& chain, const ChainSchedule& schedule) {
  const kernel::ChainShape shape = kernel::shape_of(chain, schedule);
  Execution execution;
  std::int64_t deepest = 0, deep = 0;
  for (const kernel::ContractionProblem& score : chain.scores) {
    deepest = std::max(deepest, score.contracted);
    deep += score.contracted;
  }
  // One after the other along what a block walks, or along the depth of a score.
  execution.serial_additions =
      std::max<std::int64_t>({32, shape.column_tiles * schedule.block_columns + 32, deepest + 32});
  execution.work = shape.tiles * work_of_rows(chain, schedule);
  // A whole row of weights for one element; those of its row share it.
  execution.element_operations = chain.columns() * (1 + deep / std::max<std::int64_t>(1, results_of_row(chain)));
  execution.sample = [chain, schedule](std::int64_t budget, std::uint64_t seed) {
    const std::int64_t row_tiles = kernel::shape_of(chain, schedule).row_tiles;
    return sample_row_tiles({chain.batch(), row_tiles, chain.rows(), schedule.block_rows, results_of_row(chain), 1,
                             kernel::chain_walk(chain, schedule).above.has_value()},
                            work_of_rows(chain, schedule), budget, seed);
  };
  return execution;
}

}  // namespace stitch::profiler
