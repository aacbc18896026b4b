#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "kernel/loop/step_builder.h"
#include "tests/kernel/recurrent_graphs.h"
#include "tests/profiler/kernel_case.h"

// Whole loops in one kernel, generated, compiled, run on the emulated device and compared with the loop as the
// reference runs it.
namespace stitch::profiler::test {
namespace {

using kernel::test::RecurrentShape;

struct Cell {
  std::string name;
  std::function<graph::Graph(const RecurrentShape&)> graph;
  RecurrentShape shape;
};

void PrintTo(const Cell& cell, std::ostream* out) { *out << cell.name; }

class RecurrentEmulated : public testing::TestWithParam<Cell> {};

TEST_P(RecurrentEmulated, KernelsAreRight) {
  const auto graph = std::make_shared<const graph::Graph>(GetParam().graph(GetParam().shape));
  const auto space = search::explore_space(*graph, GridScorer(), {.keep = 4000, .wide = true});
  ASSERT_TRUE(space.ok()) << space.error().message;
  // Of every number of rows, threads and blocks of a cluster the first, and as much again of those with loops over what
  // threads do not cover.
  std::set<std::tuple<std::int64_t, int, int, bool>> seen;
  for (const search::StitchCandidate& candidate : space->candidates) {
    const kernel::Schedule& schedule = candidate.schedule;
    ASSERT_NE(candidate.program.recurrent, nullptr);
    const bool loops = std::ranges::any_of(candidate.program.phases, [](const kernel::PhaseProgram& phase) {
      return std::ranges::any_of(phase.groups, [](const kernel::GroupProgram& g) { return !g.outer_loops.empty(); });
    });
    if (schedule.threads > 256 || !seen.emplace(schedule.rows, schedule.threads, schedule.cluster, loops).second)
      continue;
    const auto kernel = codegen::generate(*graph, candidate.program, {});
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    EXPECT_EQ(kernel->blocks / kernel->cluster * schedule.rows, GetParam().shape.rows);
    const Verification run = verify({graph, candidate.program, *kernel});
    EXPECT_TRUE(run.correct) << run.failure << "\n" << kernel->source;
    EXPECT_GT(run.compared, 0);
  }
  EXPECT_GE(seen.size(), 4U);
  const bool clusters = std::ranges::any_of(seen, [](const auto& each) { return std::get<2>(each) > 1; });
  EXPECT_EQ(clusters, GetParam().shape.width >= 8);
}

INSTANTIATE_TEST_SUITE_P(
    Cells, RecurrentEmulated,
    testing::Values(Cell{"gru", kernel::test::gru, {}},
                    Cell{"gru_reversed", kernel::test::gru, {.turns = 4, .reversed = true}},
                    Cell{"gru_36", kernel::test::gru, {.turns = 3, .rows = 6, .width = 36}},
                    Cell{"gru_f16", kernel::test::gru, {.width = 6, .dtype = graph::DType::f16}},
                    Cell{"gru_f16_wide", kernel::test::gru, {.width = 32, .dtype = graph::DType::f16}},
                    Cell{"lstm", kernel::test::lstm, {.turns = 7}},
                    Cell{"lstm_bf16", kernel::test::lstm, {.width = 16, .dtype = graph::DType::bf16}},
                    Cell{"reset_before", kernel::test::gru_reset_before, {}},
                    Cell{"backward", kernel::test::cell_backward, {.reversed = true}},
                    Cell{"one_turn", kernel::test::lstm, {.turns = 1, .rows = 4}}),
    [](const auto& each) { return each.param.name; });

// ---- products by tensor cores -------------------------------------------------------------------------------------

const kernel::StateProducts* first_product(const kernel::KernelProgram& program) {
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups) {
      if (!group.products.empty()) return &group.products[0];
    }
  }
  return nullptr;
}

/// Likes groups best whose products tensor cores take, and of those all alike. Its device has few SMs, so that blocks
/// of many rows are looked at.
class TensorCoreScorer final : public search::Scorer {
 public:
  explicit TensorCoreScorer(DeviceSpec device) : device_(std::move(device)) { device_.sm_count = 4; }

  [[nodiscard]] double predict_us(const graph::Graph&, const kernel::KernelProgram& program) const override {
    return first_product(program) != nullptr ? 1 : 2;
  }
  [[nodiscard]] search::Score explain(const graph::Graph&, const kernel::KernelProgram&) const override { return {}; }
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }

 private:
  DeviceSpec device_;
};

class RecurrentTensorCoresEmulated : public testing::TestWithParam<Cell> {};

TEST_P(RecurrentTensorCoresEmulated, KernelsAreRight) {
  const auto graph = std::make_shared<const graph::Graph>(GetParam().graph(GetParam().shape));
  for (const char* device : {"h100", "a100"}) {
    const auto space = search::explore_space(*graph, TensorCoreScorer(*find_device(device)), {.keep = 4000});
    ASSERT_TRUE(space.ok()) << space.error().message;
    // Of every way in which warps share the work, the first.
    std::set<std::tuple<std::int64_t, int, bool, bool>> seen;
    for (const search::StitchCandidate& candidate : space->candidates) {
      const kernel::StateProducts* product = first_product(candidate.program);
      const kernel::Schedule& schedule = candidate.schedule;
      if (product == nullptr || (schedule.threads != 128 && schedule.threads != 256)) continue;
      EXPECT_GE(product->rows, kernel::StateProducts::least_rows);
      if (!seen.emplace(product->rows, schedule.cluster, product->depth_warps > 1, product->in_registers).second)
        continue;
      const auto kernel = codegen::generate(*graph, candidate.program, {});
      ASSERT_TRUE(kernel.ok()) << kernel.error().message;
      VerifyOptions options;
      options.distributions = {Distribution::mixed, Distribution::small};
      const std::string architecture = device == std::string("a100") ? "sm_80" : "sm_90a";
      const Verification run = verify({graph, candidate.program, *kernel, architecture}, options);
      EXPECT_TRUE(run.correct) << run.failure << "\n" << kernel->source;
      EXPECT_GT(run.compared, 0);
    }
    // All of the weights must fit an SM of an A100.
    const bool fits = GetParam().shape.width < 256 || device == std::string("h100");
    EXPECT_EQ(!seen.empty(), fits) << device;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cells, RecurrentTensorCoresEmulated,
    testing::Values(
        Cell{"gru_64", kernel::test::gru, {.turns = 4, .rows = 16, .width = 64, .dtype = graph::DType::f16}},
        Cell{"gru_96_bf16", kernel::test::gru, {.turns = 3, .rows = 24, .width = 96, .dtype = graph::DType::bf16}},
        Cell{"gru_36", kernel::test::gru, {.turns = 3, .rows = 8, .width = 36, .dtype = graph::DType::f16}},
        Cell{"lstm_96", kernel::test::lstm, {.turns = 4, .rows = 16, .width = 96, .dtype = graph::DType::f16}},
        Cell{"lstm_256", kernel::test::lstm, {.turns = 3, .rows = 16, .width = 256, .dtype = graph::DType::f16}},
        // Of what a phase has computed, over a concatenation.
        Cell{"backward",
             kernel::test::cell_backward,
             {.turns = 4, .rows = 16, .width = 64, .reversed = true, .dtype = graph::DType::f16}}),
    [](const auto& each) { return each.param.name; });

TEST(RecurrentTensorCoresEmulated, AMissingBarrierIsFound) {
  const RecurrentShape shape{.turns = 3, .rows = 8, .width = 64, .dtype = graph::DType::f16};
  const auto wish = [](const kernel::KernelProgram& program) {
    return first_product(program) != nullptr && program.schedule.threads == 128 && program.schedule.cluster == 1;
  };
  const KernelCase whole =
      make_case(kernel::test::gru(shape), wish, {.keep = 4000, .wide = true}, TensorCoreScorer(*find_device("h100")));
  EXPECT_TRUE(verify(whole).correct);
  // Between the warps that multiply and the threads that take the sums.
  const Verification without = verify(mutated(whole, "sums0);\n  __syncthreads();", "sums0);"));
  EXPECT_FALSE(without.correct);
  EXPECT_NE(without.failure.find("race"), std::string::npos) << without.failure;
}

TEST(RecurrentTensorCores, TakeNoProductsOfF32) {
  const graph::Graph graph = kernel::test::gru({.turns = 3, .rows = 16, .width = 64});
  const auto space = search::explore_space(graph, TensorCoreScorer(*find_device("h100")), {.keep = 4000, .wide = true});
  ASSERT_TRUE(space.ok()) << space.error().message;
  for (const search::StitchCandidate& candidate : space->candidates)
    EXPECT_EQ(first_product(candidate.program), nullptr);
}

class RandomRecurrentEmulated : public testing::TestWithParam<int> {};

TEST_P(RandomRecurrentEmulated, KernelsAreRight) {
  constexpr int seeds = 30;  // of each test; about every fifth has rows of its own
  int verified = 0;
  for (int seed = GetParam() * seeds; seed < (GetParam() + 1) * seeds; ++seed) {
    const auto graph =
        std::make_shared<const graph::Graph>(kernel::test::random_loop(static_cast<std::uint64_t>(seed) + 1));
    if (graph->results().empty() || !kernel::recurrent_step(*graph, 1)) continue;
    const auto space = search::explore_space(*graph, GridScorer(), {.keep = 2, .sample = 2});
    if (!space) {
      EXPECT_EQ(space.error().kind, ErrorKind::constraint) << space.error().message;
      continue;
    }
    for (const auto* list : {&space->candidates, &space->others}) {
      for (const search::StitchCandidate& candidate : *list) {
        const auto kernel = codegen::generate(*graph, candidate.program, {});
        ASSERT_TRUE(kernel.ok()) << kernel.error().message;
        VerifyOptions options;
        options.distributions = {Distribution::mixed, Distribution::small};
        const Verification run = verify({graph, candidate.program, *kernel}, options);
        EXPECT_TRUE(run.correct) << "seed " << seed << ": " << run.failure << "\n" << kernel->source;
        ++verified;
      }
    }
  }
  EXPECT_GE(verified, 6);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRecurrentEmulated, testing::Range(0, 4));

}  // namespace
}  // namespace stitch::profiler::test
