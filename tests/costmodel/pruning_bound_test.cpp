// What DeepCuts' bound has to say of tiles, and that no schedule is beyond it by our own prediction.
#include "costmodel/contraction/pruning_bound.h"

#include <gtest/gtest.h>

#include "costmodel/contraction/contraction_time.h"
#include "costmodel/contraction/product_rates.h"
#include "tests/costmodel/usual_schedule.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::costmodel::test {
namespace {

using graph::DType;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::test::matmul;

const DeviceSpec& a100() {
  static const DeviceSpec device = *find_device("a100-80gb");
  return device;
}

ContractionProblem problem_of(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  return *kernel::derive_contraction(matmul(DType::f16, rows, columns, depth));
}

TEST(PruningBound, SmallTilesLoadMoreThanL2Has) {
  const ContractionProblem problem = problem_of(4096, 4096, 4096);
  ContractionSchedule s = usual(problem);  // 128 × 128
  const double large = pruning_bound(problem, s, a100()).global;
  s.block_rows = s.block_columns = s.warp_rows = s.warp_columns = 32;
  const PruningBound small = pruning_bound(problem, s, a100());
  // A multiply-add of f16 takes 2 × 2 bytes ÷ 32 of either operand, and a result 2 bytes once in 4,096 of them.
  const double bytes = 2.0 / 32 + 2.0 / 32 + 2.0 / 4096;
  const double rate = 1024.0 * a100().sm_count * a100().clock_hz;
  EXPECT_NEAR(small.global, tile_bandwidth(a100()) / (rate * bytes), 0.15 * small.global);
  EXPECT_LT(small.global, 0.5 * large);
}

TEST(PruningBound, TheLastRoundCounts) {
  const ContractionProblem problem = problem_of(128 * 109, 128, 512);
  EXPECT_NEAR(pruning_bound(problem, usual(problem), a100()).last_wave, 109.0 / 216, 1e-9);
  const ContractionProblem whole = problem_of(128 * 108, 128, 512);
  EXPECT_EQ(pruning_bound(whole, usual(whole), a100()).last_wave, 1);
}

TEST(PruningBound, LoadsAreHiddenByProductsOfOtherWarps) {
  const ContractionProblem problem = problem_of(4096, 4096, 512), tile = problem_of(16, 16, 512);
  ContractionSchedule s = usual(problem);
  EXPECT_EQ(pruning_bound(problem, s, a100()).shared, 1);
  s.block_rows = s.block_columns = s.warp_rows = s.warp_columns = 16;
  EXPECT_EQ(pruning_bound(problem, s, a100()).shared, 1) << "many blocks of an SM";
  const PruningBound alone = pruning_bound(tile, s, a100());
  EXPECT_LT(alone.shared, 0.5);
  EXPECT_EQ(alone.product(), alone.global * alone.shared * alone.last_wave);
}

TEST(PruningBound, NothingIsComputedOfNothing) {
  const ContractionProblem problem = problem_of(0, 64, 64);
  EXPECT_EQ(pruning_bound(problem, usual(problem), a100()).product(), 1);
}

}  // namespace
}  // namespace stitch::costmodel::test
