// Products of operands that are computed while they are loaded, on the emulated device, beside the float64 reference.
#include "kernel/contraction/computed_operand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernel/contraction/gated_contraction.h"
#include "kernel/contraction/merged_contraction.h"
#include "tests/codegen/computed_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

constexpr auto f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32, s8 = DType::s8;

class ComputedEmulated : public testing::TestWithParam<ComputedMatmul> {};

TEST_P(ComputedEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam());
  EXPECT_EQ(problem.computed.size(), GetParam().both ? 2U : 1U);
  expect_problem_right(problem, default_of(problem));
}

INSTANTIATE_TEST_SUITE_P(
    Of, ComputedEmulated,
    testing::Values(
        ComputedMatmul{"f16_of_f32", {"", {1, 64, 64, 128}, f16, plain, turned}, f32, "convert"},
        ComputedMatmul{"bf16_of_f32_turned", {"", {2, 96, 64, 96}, bf16, turned, plain, bf16, "bias"}, f32, "convert"},
        ComputedMatmul{"right_of_f32", {"", {1, 64, 96, 64}, bf16, plain, plain}, f32, "convert", true},
        ComputedMatmul{"both_of_f32", {"", {1, 72, 40, 88}, f16, plain, turned}, f32, "convert", true, true},
        ComputedMatmul{"scaled", {"", {1, 64, 64, 64}, f16, plain, turned}, f16, "scale"},
        ComputedMatmul{"scaled_turned", {"", {2, 64, 32, 64}, bf16, turned, turned}, bf16, "scale"},
        ComputedMatmul{"scaled_odd", {"", {3, 37, 53, 71}, bf16, plain, plain, bf16}, f32, "scale"},
        ComputedMatmul{"right_scaled_odd", {"", {2, 33, 17, 65}, f16, turned, turned, f32, "bias"}, f16, "scale", true},
        ComputedMatmul{"derivative", {"", {1, 64, 48, 96}, bf16, plain, turned, bf16, "residual"}, bf16, "derivative"},
        ComputedMatmul{"derivative_f32", {"", {1, 40, 33, 48}, f32, plain, plain}, f32, "derivative"},
        ComputedMatmul{"masked", {"", {1, 48, 32, 64}, f16, plain, plain}, f16, "mask"},
        ComputedMatmul{"causal", {"", {2, 64, 32, 64}, f32, plain, plain}, f32, "places"},
        ComputedMatmul{"dequantised", {"", {1, 48, 64, 128}, f16, plain, turned}, s8, "dequantise", true},
        ComputedMatmul{"dequantised_plain", {"", {1, 33, 64, 96}, bf16, plain, plain}, s8, "dequantise", true},
        ComputedMatmul{"normed", {"", {1, 64, 64, 128}, bf16, plain, turned, bf16, "gelu"}, bf16, "norm"},
        ComputedMatmul{"normed_f32", {"", {2, 40, 48, 72}, f32, plain, plain, f32, "bias"}, f32, "norm"},
        ComputedMatmul{"normed_wide", {"", {1, 70, 40, 100}, f16, plain, plain, f16}, f32, "norm"},
        ComputedMatmul{"other_way", {"", {1, 48, 32, 64}, f16, plain, turned}, f16, "other_way"},
        ComputedMatmul{"tf32", {"", {1, 64, 48, 64}, f32, plain, turned, f32, "", {.tf32 = true}}, f32, "scale"},
        ComputedMatmul{"bf16x3", {"", {1, 64, 48, 72}, f32, plain, turned, f32, "", {.bf16x3 = true}}, f32, "scale"},
        ComputedMatmul{"f64", {"", {1, 32, 20, 24}, DType::f64, plain, plain, DType::f64}, DType::f64, "scale"}),
    [](const auto& each) { return each.param.name; });

/// All that pipelines and splits do to tiles that are copied they do to such as are computed.
TEST(ComputedKernelEmulated, PipelinesAndSplitsAreRight) {
  for (const bool of_right : {false, true}) {
    const ContractionProblem problem =
        problem_of(ComputedMatmul{"", {"", {1, 96, 64, 330}, f16, plain, turned}, f32, "scale", of_right});
    for (const auto& [stages, fragments, splits] :
         {std::tuple{1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {2, 2, 1}, {3, 2, 1}, {4, 1, 1}, {3, 2, 3}, {2, 1, 4}}) {
      expect_problem_right(problem, pipelined(problem, stages, fragments, splits));
    }
  }
}

/// Without one of its barriers the loop multiplies what is not stored yet, or stores over what others still read.
TEST(ComputedKernelEmulated, EveryBarrierIsNeeded) {
  const ContractionProblem problem =
      problem_of(ComputedMatmul{"", {"", {1, 64, 64, 320}, f16, plain, turned}, f32, "convert", true, true});
  for (const auto& [stages, fragments] : {std::pair{2, 1}, {2, 2}, {3, 2}, {1, 1}}) {
    const KernelCase each = case_of(problem, pipelined(problem, stages, fragments));
    const std::string& source = each.kernel.source;
    EXPECT_THAT(launch(each, inputs_of(*each.graph)).findings, testing::IsEmpty());
    const std::string barrier = "__syncthreads();";
    KernelCase broken = each;
    broken.kernel.source.replace(source.rfind(barrier, source.find("cores.multiply")), barrier.size(), "");
    EXPECT_THAT(launch(broken, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty()))
        << broken.kernel.source;
  }
}

struct ComputedWarpgroups {
  ComputedMatmul product;
  Warpgroups tile;
};
void PrintTo(const ComputedWarpgroups& each, std::ostream* out) { *out << each.product.name; }

class ComputedWarpgroupsEmulated : public testing::TestWithParam<ComputedWarpgroups> {};

TEST_P(ComputedWarpgroupsEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam().product);
  const ContractionSchedule schedule = schedule_of(problem, GetParam().tile);
  EXPECT_THAT(case_of(problem, schedule).kernel.source, testing::HasSubstr("wgmma.mma_async"));
  expect_problem_right(problem, schedule);
}

INSTANTIATE_TEST_SUITE_P(
    Of, ComputedWarpgroupsEmulated,
    testing::Values(
        ComputedWarpgroups{{"converted", {"", {1, 64, 64, 256}, bf16, plain, turned, bf16, "bias"}, f32, "convert"},
                           {"", {}, 64, 64, 64, 16, 64}},
        ComputedWarpgroups{{"panels", {"", {2, 128, 64, 224}, f16, turned, plain}, f16, "scale"},
                           {"", {}, 128, 64, 64, 16, 64, 3}},
        ComputedWarpgroups{{"right", {"", {1, 64, 128, 256}, f16, plain, plain}, f32, "convert", true},
                           {"", {}, 64, 128, 64, 16, 128, 3}},
        ComputedWarpgroups{{"odd", {"", {2, 70, 33, 211}, bf16, plain, turned, bf16}, f32, "norm"},
                           {"", {}, 64, 64, 64, 16, 64, 3}},
        ComputedWarpgroups{{"both_split", {"", {1, 64, 64, 512}, f16, plain, turned}, f32, "convert", true, true},
                           {"", {}, 64, 64, 64, 16, 64, 3, 2}}),
    [](const auto& each) { return each.param.product.name; });

/// Twice as many turns of the loop have no conflict more: what is computed is stored where it would be copied.
TEST(ComputedKernelEmulated, MainLoopsHaveNoBankConflicts) {
  const auto conflicts_of = [](std::int64_t depth, Layout layout) {
    const ContractionProblem problem =
        problem_of(ComputedMatmul{"", {"", {1, 64, 64, depth}, f16, layout, turned}, f32, "convert"});
    ContractionSchedule schedule = default_of(problem);
    schedule.stages = 3;
    const KernelCase each = case_of(problem, schedule);
    return run(each, inputs_of(*each.graph)).counters.shared_extra_wavefronts;
  };
  for (const Layout layout : {plain, turned}) EXPECT_EQ(conflicts_of(256, layout), conflicts_of(512, layout));
}

/// What products share is computed for all of them; of gates, too, and before rows.
TEST(ComputedKernelEmulated, WhatProductsShareIsComputedOnce) {
  Builder b;
  const Dims dims = {48, 64};
  const Value x = b.add(Op::multiply, {b.parameter(f16, dims), b.broadcast(b.parameter(f16, {64}), dims, {1})});
  const auto product = [&](std::int64_t columns) {
    return b.dot(x, b.parameter(f16, {64, columns}), {{}, {}, {1}, {0}, f16});
  };
  const auto graph = b.finish({product(64), product(32), product(40)});
  ASSERT_TRUE(graph) << graph.error().message;
  const auto problem = kernel::derive_computed(*graph, kernel::derive_merged);
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->members.size(), 3U);
  expect_problem_right(*problem, default_of(*problem));
}

TEST(ComputedKernelEmulated, GatesAreOfWhatIsComputed) {
  Builder b;
  const Dims dims = {48, 64};
  const Value x = b.add(Op::multiply, {b.parameter(f16, dims), b.broadcast(b.parameter(f16, {48}), dims, {0})});
  const auto product = [&] { return b.dot(x, b.parameter(f16, {64, 32}), {{}, {}, {1}, {0}, f16}); };
  const Value gate = product();
  const auto graph =
      b.finish({b.add(Op::multiply, {b.add(Op::multiply, {gate, b.unary(Op::logistic, gate)}), product()})});
  ASSERT_TRUE(graph) << graph.error().message;
  const auto problem = kernel::derive_computed(*graph, kernel::derive_gated);
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->gates, 2);
  expect_problem_right(*problem, default_of(*problem));
}

/// A convolution by windows of one position: the norm and activation before it, features last or first, in steps of 2.
TEST(ComputedKernelEmulated, ConvolutionsOfOnePositionAreRight) {
  for (const bool features_last : {false, true}) {
    for (const std::int64_t step : {1, 2}) {
      Builder b;
      const std::int64_t feature = features_last ? 3 : 1, down = features_last ? 1 : 2;
      const Dims dims = features_last ? Dims{2, 6, 8, 32} : Dims{2, 32, 6, 8};
      const Value scaled =
          b.add(Op::multiply, {b.parameter(f16, dims), b.broadcast(b.parameter(f16, {32}), dims, {feature})});
      const Value x = b.add(Op::maximum, {scaled, b.filled(f16, dims, 0)});
      graph::ConvolutionAttributes a;
      a.strides = {step, step};
      a.low = a.high = {0, 0};
      a.input_dilation = a.kernel_dilation = {1, 1};
      a.window_reversal = {false, false};
      a.input_batch = a.output_batch = 0;
      a.input_feature = a.output_feature = feature;
      a.input_spatial = a.output_spatial = {down, down + 1};
      a.kernel_spatial = {0, 1};
      a.kernel_input_feature = 2;
      a.kernel_output_feature = 3;
      a.result = f16;
      const auto graph = b.finish({b.add(Op::convolution, {x, b.parameter(f16, {1, 1, 32, 24})}, a)});
      ASSERT_TRUE(graph) << graph.error().message;
      const auto problem = kernel::derive_computed(*graph);
      ASSERT_TRUE(problem) << problem.error().message;
      expect_problem_right(*problem, default_of(*problem));
    }
  }
}

/// Shapes, layouts, types, what is computed and schedules drawn by a seed; STITCH_COMPUTED: how many.
TEST(ComputedKernelEmulated, RandomProblemsAreRight) {
  constexpr DType dtypes[] = {f16, bf16, f32};
  const char* const ways[] = {"convert", "scale", "derivative", "mask", "places", "norm", "other_way"};
  const char* const epilogues[] = {"", "bias", "residual", "turned"};
  Random random(20261129);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const char* const asked = std::getenv("STITCH_COMPUTED");
  const int count = asked != nullptr ? std::atoi(asked) : 16;
  for (int i = 0; i < count; ++i) {
    ComputedMatmul m;
    const auto extent = [&](int most) { return 1 + static_cast<std::int64_t>(random.below(most)); };
    m.matmul.shape = {extent(3), extent(120), extent(120), extent(150)};
    m.matmul.dtype = among(dtypes);
    m.source = random.below(2) == 0 ? m.matmul.dtype : f32;
    m.matmul.left = random.below(2) == 0 ? plain : turned;
    m.matmul.right = random.below(2) == 0 ? plain : turned;
    m.matmul.result = random.below(2) == 0 ? f32 : m.matmul.dtype;
    m.matmul.epilogue = among(epilogues);
    m.how = among(ways);
    if (m.how == "convert") m.source = m.matmul.dtype == f32 ? bf16 : f32;
    m.of_right = random.below(2) == 0;
    m.both = random.below(4) == 0;
    const ContractionProblem problem = problem_of(m);
    const ContractionSchedule schedule = drawn_schedule(problem, random);
    SCOPED_TRACE(fmt::format("{}: {} {}", i, m.how, m.of_right));
    expect_problem_right(problem, schedule);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace stitch::codegen::test
