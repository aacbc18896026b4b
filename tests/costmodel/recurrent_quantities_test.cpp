#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/analytical.h"
#include "costmodel/kernel_quantities.h"
#include "search/schedule/stitch_explorer.h"
#include "tests/kernel/recurrent_graphs.h"

// What a kernel that runs a whole loop is charged for: all turns of all blocks.
namespace stitch::costmodel::test {
namespace {

using kernel::test::RecurrentShape;

GroupFeatures totals(const KernelQuantities& kernel) {
  GroupFeatures total;
  for (const PhaseQuantities& phase : kernel.phases) {
    for (const GroupFeatures& group : phase.groups) {
      total.dram_read_bytes += group.dram_read_bytes;
      total.dram_write_bytes += group.dram_write_bytes;
      total.shared_bytes += group.shared_bytes;
      total.barriers += group.barriers + group.cluster_barriers;
      total.latency_cycles += group.latency_cycles;
    }
  }
  return total;
}

struct Kernel {
  graph::Graph graph;
  search::StitchCandidate best;
  explicit Kernel(const RecurrentShape& shape) : graph(kernel::test::gru(shape)) {
    auto found = search::explore_stitches(graph, AnalyticalScorer(*find_device("h100")), {});
    if (!found) {
      throw std::runtime_error(found.error().message);
    }
    best = std::move(found->front());
  }
  [[nodiscard]] KernelQuantities quantities() const {
    return kernel_quantities(graph, best.program, *find_device("h100"));
  }
};

TEST(RecurrentQuantities, SequencesAreReadOnceAndWeightsAtMost) {
  const RecurrentShape shape{.turns = 20, .rows = 256, .width = 32};
  const GroupFeatures total = totals(Kernel(shape).quantities());
  const double sequence = 20.0 * 256 * 3 * 32 * 4, weights = 32.0 * 96 * 4, results = 20.0 * 256 * 32 * 4;
  EXPECT_NEAR(total.dram_read_bytes, sequence + weights, 0.01 * sequence);
  EXPECT_NEAR(total.dram_write_bytes, results, 1);
  // The state goes through shared memory, by all threads that need it.
  EXPECT_GE(total.shared_bytes, 20.0 * 256 * 32 * 4 * 2);
}

TEST(RecurrentQuantities, WeightsBeyondL1AreReadInEveryTurn) {
  const RecurrentShape shape{.turns = 20, .rows = 256, .width = 256};
  const GroupFeatures total = totals(Kernel(shape).quantities());
  const double weights = 256.0 * 768 * 4;
  EXPECT_GT(total.dram_read_bytes, 20 * weights);
}

TEST(RecurrentQuantities, TurnsTakeTurns) {
  const Kernel few({.turns = 10, .rows = 128, .width = 16}), many({.turns = 40, .rows = 128, .width = 16});
  const double launch = find_device("h100")->launch_us;
  const double ratio = (many.best.predicted_us - launch) / (few.best.predicted_us - launch);
  EXPECT_GT(ratio, 3.0);
  EXPECT_LT(ratio, 4.1);
  EXPECT_NEAR(totals(many.quantities()).latency_cycles / totals(few.quantities()).latency_cycles, 4, 0.2);
  // A barrier behind every group of a turn at least.
  EXPECT_GE(totals(many.quantities()).barriers, 40);
}

TEST(RecurrentQuantities, TheExplanationAddsUpToThePrediction) {
  const Kernel kernel({.turns = 10, .rows = 128, .width = 16});
  const AnalyticalScorer scorer(*find_device("h100"));
  EXPECT_EQ(scorer.explain(kernel.graph, kernel.best.program).us, kernel.best.predicted_us);
}

bool uses_tensor_cores(const kernel::KernelProgram& program) {
  return std::ranges::any_of(program.phases, [](const kernel::PhaseProgram& phase) {
    return std::ranges::any_of(phase.groups, [](const auto& group) { return group.mapping.tensor_cores; });
  });
}

TEST(RecurrentQuantities, TensorCoresAreTakenWhereTheyArePredictedToBeFaster) {
  const RecurrentShape shape{.turns = 20, .rows = 512, .width = 256, .dtype = graph::DType::f16};
  const graph::Graph graph = kernel::test::lstm(shape);
  const DeviceSpec device = *find_device("h100");
  const auto found = search::explore_stitches(graph, AnalyticalScorer(device), {.keep = 10000});
  ASSERT_TRUE(found) << found.error().message;
  const search::StitchCandidate& best = found->front();
  EXPECT_TRUE(uses_tensor_cores(best.program));
  const auto cores = std::ranges::find_if(
      *found, [](const search::StitchCandidate& each) { return !uses_tensor_cores(each.program); });
  ASSERT_NE(cores, found->end());
  EXPECT_LT(2 * best.predicted_us, cores->predicted_us);
  // All multiply-adds of all turns, which fill whole instructions here; those on CUDA cores are none of them.
  double multiplied = 0, multiplied_by_cores = 0;
  for (const PhaseQuantities& phase : kernel_quantities(graph, best.program, device).phases) {
    for (const GroupFeatures& group : phase.groups) multiplied += group.tensor_multiply_adds;
  }
  for (const PhaseQuantities& phase : kernel_quantities(graph, cores->program, device).phases) {
    for (const GroupFeatures& group : phase.groups) multiplied_by_cores += group.tensor_multiply_adds;
  }
  EXPECT_EQ(multiplied, 20.0 * 512 * 256 * 1024);
  EXPECT_EQ(multiplied_by_cores, 0);
}

}  // namespace
}  // namespace stitch::costmodel::test
