// Products with gates in one kernel with what is made of them, on the emulated device, beside the float64 reference.
#include "kernel/contraction/gated_contraction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/verify/verify_contraction.h"
#include "tests/codegen/gated_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

constexpr auto f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;

class GatedEmulated : public testing::TestWithParam<Gated> {};

TEST_P(GatedEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam());
  expect_problem_right(problem, default_of(problem));
}

INSTANTIATE_TEST_SUITE_P(
    Of, GatedEmulated,
    testing::Values(Gated{"lstm", 1, 64, 64, 48, 4, f32, f32, plain, "", true},
                    Gated{"lstm_f16", 1, 64, 64, 64, 4, f16, f16, plain, "", true},
                    Gated{"lstm_ragged", 1, 37, 24, 71, 4, f32, f32, turned, "", true},
                    Gated{"unit", 1, 48, 96, 64, 2, f16, f32},
                    Gated{"unit_turned", 1, 96, 64, 64, 2, bf16, bf16, turned},
                    Gated{"unit_ragged", 2, 33, 40, 72, 2, f16, f16},
                    Gated{"split", 1, 64, 64, 64, 4, bf16, f32, plain, "split", true},
                    Gated{"split_batches", 3, 40, 32, 64, 2, f16, f16, turned, "split"},
                    Gated{"apart", 1, 64, 64, 64, 2, f16, f16, plain, "apart"},
                    Gated{"apart_f32", 1, 48, 72, 40, 2, f32, f32, plain, "apart"},
                    Gated{"apart_turned", 2, 40, 64, 96, 2, bf16, f32, turned, "apart", true},
                    Gated{"tf32", 1, 64, 64, 64, 2, f32, f32, plain, "apart", false, {.tf32 = true}},
                    Gated{"bf16x3", 1, 48, 64, 72, 2, f32, f32, turned, "apart", false, {.bf16x3 = true}}),
    [](const auto& each) { return each.param.name; });

/// All that pipelines, tiles and splits do to a product they do to its gates.
TEST(GatedKernelEmulated, PipelinesAndSplitsAreRight) {
  for (const std::string form : {"", "apart"}) {
    const ContractionProblem problem = problem_of({"", 1, 96, 64, 320, 2, f16, f16, plain, form});
    for (const auto& [stages, fragments, splits] : {std::tuple{1, 1, 1}, {3, 2, 1}, {4, 1, 1}, {3, 2, 3}}) {
      ContractionSchedule s = pipelined(problem, stages, fragments, splits);
      s.group = 2;
      expect_problem_right(problem, s);
    }
  }
}

TEST(GatedKernelEmulated, WarpgroupsAreRight) {
  const Warpgroups tile = {"", {}, 64, 64, 64, 16, 64, 3};
  for (const Gated& each : {Gated{"", 1, 128, 64, 256, 2, bf16, bf16, turned, "apart"},
                            Gated{"", 1, 70, 40, 200, 4, f16, f16, plain, "", true}}) {
    const ContractionProblem problem = problem_of(each);
    expect_problem_right(problem, schedule_of(problem, tile));
  }
}

/// Or verification takes what a sample of the blocks leaves for half of what it should be.
TEST(GatedKernel, BlocksOfASampleWriteOneResultForAllGates) {
  const ContractionProblem problem = problem_of(Gated{"", 1, 512, 256, 64, 2, f16, f16, plain, "split"});
  const kernel::ContractionSchedule schedule = default_of(problem);
  const profiler::BlockSample sample = profiler::execution_of(problem, schedule).sample(1, 1);
  ASSERT_GE(sample.blocks.size(), 4U) << "the corners";
  const auto tiles = std::ssize(sample.blocks) / schedule.split;
  EXPECT_EQ(sample.writes, tiles * schedule.block_rows * schedule.block_columns / 2);
}

TEST(GatedKernelEmulated, RandomOnesAreRight) {
  Random random(11);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  constexpr DType types[] = {f32, f16, bf16};
  constexpr Layout layouts[] = {plain, turned};
  const std::string forms[] = {"", "split", "apart"};
  for (int i = 0; i < 12; ++i) {
    Gated g{"", 1 + static_cast<std::int64_t>(random.below(2)), 1 + static_cast<std::int64_t>(random.below(70)),
            8 * (1 + static_cast<std::int64_t>(random.below(9))), 1 + static_cast<std::int64_t>(random.below(100))};
    g.dtype = among(types);
    g.result = random.below(2) == 0 ? f32 : g.dtype;
    g.right = among(layouts);
    g.form = among(forms);
    g.gates = g.form == "apart" || random.below(2) == 0 ? 2 : 4;
    g.cell = random.below(2) == 0;
    const ContractionProblem problem = problem_of(g);
    expect_problem_right(problem, drawn_schedule(problem, random));
  }
}

}  // namespace
}  // namespace stitch::codegen::test
