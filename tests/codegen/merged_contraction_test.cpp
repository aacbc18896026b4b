// Several products of one operand in one kernel, on the emulated device, beside the float64 reference.
#include "kernel/contraction/merged_contraction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernel/contraction/contraction_shape.h"
#include "tests/codegen/merged_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

constexpr auto f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;

class MergedEmulated : public testing::TestWithParam<MergedMatmuls> {};

TEST_P(MergedEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam());
  expect_problem_right(problem, default_of(problem));
}

INSTANTIATE_TEST_SUITE_P(
    Of, MergedEmulated,
    testing::Values(
        MergedMatmuls{"f16", 1, 64, 64, f16, plain, {{64}, {64}, {64}}},
        MergedMatmuls{"f16_grouped", 1, 96, 64, f16, plain, {{256}, {64}, {64}}},
        MergedMatmuls{"f16_two", 2, 64, 96, f16, turned, {{64, turned}, {128, turned}}},
        MergedMatmuls{
            "bf16_odd", 3, 37, 71, bf16, plain, {{53, plain, bf16}, {17, plain, bf16, "bias"}, {130, plain, bf16}}},
        MergedMatmuls{"bf16_unaligned", 1, 40, 72, bf16, plain, {{64, turned, bf16}, {61, turned, f32}}},
        MergedMatmuls{"f32", 1, 48, 40, f32, plain, {{80}, {33}, {7, plain, f32, "bias"}}},
        MergedMatmuls{"f32_turned", 2, 33, 65, f32, turned, {{17, turned}, {40, turned, f32, "gelu"}}},
        MergedMatmuls{"tf32", 1, 64, 64, f32, plain, {{64}, {32, plain, f32, "bias"}}, false, {.tf32 = true}},
        MergedMatmuls{"tf32x3", 1, 40, 72, f32, plain, {{64, turned}, {24, turned}}, false, {.tf32x3 = true}},
        MergedMatmuls{"bf16x3", 1, 40, 72, f32, turned, {{64, turned}, {23, turned}}, false, {.bf16x3 = true}},
        MergedMatmuls{"f64", 1, 32, 20, DType::f64, plain, {{24, plain, DType::f64}, {40, plain, DType::f64}}},
        MergedMatmuls{
            "s8", 1, 64, 96, DType::s8, plain, {{32, turned, DType::s32}, {48, turned, DType::s32, "turned"}}},
        MergedMatmuls{"shared_right", 1, 64, 64, f16, plain, {{96}, {64}, {32}}, true},
        MergedMatmuls{"shared_right_odd", 2, 37, 71, f32, turned, {{53, turned}, {18, turned, f32, "bias"}}, true},
        MergedMatmuls{"epilogues",
                      1,
                      64,
                      64,
                      bf16,
                      plain,
                      {{64, plain, bf16, "bias"}, {96, plain, f32, "gelu"}, {64, plain, f32, "narrow"}}},
        MergedMatmuls{"layouts", 2, 64, 64, f16, plain, {{64, plain, f16, "heads"}, {64, plain, f32, "turned"}, {64}}},
        MergedMatmuls{"residuals", 1, 40, 64, f16, plain, {{24, plain, f16, "residual"}, {72, plain, f16, "residual"}}},
        MergedMatmuls{"no_depth", 1, 8, 0, f32, plain, {{8}, {24}}},
        MergedMatmuls{"eight", 1, 32, 32, f16, plain, {{16}, {32}, {16}, {48}, {16}, {16}, {80}, {16}}}),
    [](const auto& each) { return each.param.name; });

/// All that pipelines and splits do to one product they do to several.
TEST(MergedKernelEmulated, PipelinesAndSplitsAreRight) {
  const ContractionProblem problem =
      problem_of(MergedMatmuls{"", 1, 96, 320, f16, plain, {{64, turned, f16, "bias"}, {160, turned}, {40, turned}}});
  for (const auto& [stages, fragments, splits] : {std::tuple{1, 1, 1}, {3, 2, 1}, {4, 1, 1}, {3, 2, 3}, {2, 1, 4}}) {
    ContractionSchedule s = pipelined(problem, stages, fragments, splits);
    s.group = 2;
    expect_problem_right(problem, s);
  }
}

struct MergedWarpgroups {
  MergedMatmuls products;
  Warpgroups tile;
  int cluster = 0, resident = 0;  ///< 0: without tensor copies
};
void PrintTo(const MergedWarpgroups& each, std::ostream* out) { *out << each.products.name; }

ContractionSchedule schedule_of(const ContractionProblem& problem, const MergedWarpgroups& w) {
  ContractionSchedule s = test::schedule_of(problem, w.tile);
  if (w.cluster == 0) return s;
  s.tensor_copies = true;
  s.cluster = w.cluster;
  s.resident = w.resident;
  fit_accesses(problem, s);
  return s;
}

class MergedWarpgroupsEmulated : public testing::TestWithParam<MergedWarpgroups> {};

TEST_P(MergedWarpgroupsEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam().products);
  expect_problem_right(problem, schedule_of(problem, GetParam()));
}

const std::vector<Side> thirds = {{128, turned, bf16}, {64, turned, bf16, "bias"}, {64, turned, bf16, "gelu"}};
INSTANTIATE_TEST_SUITE_P(
    Of, MergedWarpgroupsEmulated,
    testing::Values(
        MergedWarpgroups{{"one", 1, 64, 256, bf16, plain, thirds}, {"", {}, 64, 64, 64, 16, 64}},
        MergedWarpgroups{{"wide", 1, 128, 320, bf16, plain, thirds}, {"", {}, 128, 128, 64, 16, 128}},
        MergedWarpgroups{{"plain", 1, 64, 256, f16, plain, {{128}, {64}}}, {"", {}, 64, 64, 64, 16, 64, 3}},
        MergedWarpgroups{{"odd", 3, 70, 211, bf16, plain, {{90, turned, bf16}, {33, turned}}},
                         {"", {}, 64, 64, 64, 16, 64, 3}},
        MergedWarpgroups{{"odd_plain", 2, 77, 201, f16, turned, {{130}, {71, plain, f16, "bias"}}},
                         {"", {}, 64, 64, 64, 16, 64, 3}},
        MergedWarpgroups{{"split", 1, 64, 1024, f16, plain, {{64, turned}, {96, turned, f32, "turned"}}},
                         {"", {}, 64, 64, 64, 16, 64, 4, 3}},
        MergedWarpgroups{{"right", 1, 64, 256, f16, plain, {{96, turned}, {64, turned}}, true},
                         {"", {}, 64, 64, 64, 16, 64, 3}},
        MergedWarpgroups{{"copied", 1, 64, 256, bf16, plain, thirds}, {"", {}, 64, 64, 64, 16, 64}, 1, 1},
        MergedWarpgroups{{"copied_stay", 2, 192, 320, bf16, plain, thirds}, {"", {}, 64, 64, 64, 16, 64, 3}, 1, 5},
        MergedWarpgroups{{"copied_pairs", 1, 320, 256, bf16, plain, thirds}, {"", {}, 64, 96, 64, 16, 96, 3}, 2, 4},
        MergedWarpgroups{{"copied_plain", 1, 128, 192, f16, plain, {{256}, {128, plain, f16, "heads"}}},
                         {"", {}, 64, 128, 64, 16, 128, 3},
                         2,
                         4},
        MergedWarpgroups{{"copied_ragged", 3, 72, 200, bf16, plain, {{96, turned, bf16}, {40, turned}, {8, turned}}},
                         {"", {}, 64, 64, 64, 16, 64, 3},
                         1,
                         4}),
    [](const auto& each) { return each.param.products.name; });

/// x: [2, 6, 7, 8] under windows of 3 × 3, padded, features last.
graph::Graph convolutions_of_one_input(const std::vector<std::int64_t>& features, std::int64_t second_padding = 1) {
  Builder b;
  const Value x = b.parameter(f16, {2, 6, 7, 8});
  std::vector<Value> results;
  for (const std::int64_t count : features) {
    graph::ConvolutionAttributes a;
    a.strides = a.input_dilation = a.kernel_dilation = {1, 1};
    a.low = a.high = Dims(2, results.empty() ? 1 : second_padding);
    a.window_reversal = {false, false};
    a.input_batch = a.output_batch = 0;
    a.input_feature = a.output_feature = 3;
    a.input_spatial = a.output_spatial = {1, 2};
    a.kernel_spatial = {0, 1};
    a.kernel_input_feature = 2;
    a.kernel_output_feature = 3;
    a.feature_groups = a.batch_groups = 1;
    a.result = f32;
    results.push_back(b.unary(Op::tanh, b.add(Op::convolution, {x, b.parameter(f16, {3, 3, 8, count})}, a)));
  }
  return *b.finish(results);
}

TEST(MergedKernelEmulated, ConvolutionsOfOneInputAreRight) {
  const ContractionProblem problem = *kernel::derive_merged(convolutions_of_one_input({16, 40}));
  EXPECT_EQ(problem.left.windows.size(), 2U);
  expect_problem_right(problem, default_of(problem));
  const auto unlike = kernel::derive_merged(convolutions_of_one_input({16, 40}, 0));
  ASSERT_FALSE(unlike);
  EXPECT_THAT(unlike.error().message, testing::HasSubstr("result 1: another operand")) << "other windows";
}

/// Widths, layouts, types, epilogues and schedules drawn by a seed; STITCH_MERGED: how many.
TEST(MergedKernelEmulated, RandomProblemsAreRight) {
  constexpr DType dtypes[] = {f16, bf16, f32};
  const char* const epilogues[] = {"", "bias", "residual", "turned", "gelu"};
  Random random(20261127);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const auto extent = [&](int most) { return 1 + static_cast<std::int64_t>(random.below(most)); };
  const char* const asked = std::getenv("STITCH_MERGED");
  const int count = asked != nullptr ? std::atoi(asked) : 40;
  for (int i = 0; i < count; ++i) {
    MergedMatmuls m{"", extent(2), extent(140), extent(150), among(dtypes)};
    m.shared = random.below(2) == 0 ? plain : turned;
    m.shares_right = random.below(3) == 0;
    const Layout layout = random.below(2) == 0 ? plain : turned;
    for (std::int64_t sides = 1 + extent(3); sides > 0; --sides)
      m.sides.push_back({extent(140), layout, random.below(2) == 0 ? f32 : m.dtype, among(epilogues)});
    // Of one column or one of depth a side may lie otherwise than the others.
    auto problem = kernel::derive_merged(graph_of(m));
    if (!problem) continue;
    const ContractionSchedule schedule = drawn_schedule(*problem, random);
    SCOPED_TRACE(fmt::format("{}", i));
    expect_problem_right(*problem, schedule);
    if (testing::Test::HasFailure()) return;
  }
}

/// A tile that takes another member's operand, or columns, is wrong, and something says so.
TEST(MergedKernelEmulated, WhoseATileIsMatters) {
  const ContractionProblem problem =
      problem_of(MergedMatmuls{"", 1, 64, 64, f16, plain, {{128, plain, f16}, {64, plain, f16}, {64, plain, f16}}});
  ContractionSchedule schedule = default_of(problem);
  schedule.block_columns = 64;
  const KernelCase each = case_of(problem, schedule);
  const std::vector<Bytes> inputs = inputs_of(*each.graph);
  const KernelOutcome right = run(each, inputs);
  for (const auto& [what, instead] : {std::pair{"(column_tile >= 2 ? 1 : 0)", "(column_tile >= 1 ? 1 : 0)"},
                                      std::pair{"(column_tile >= 3 ? 1 : 0)", "(column_tile >= 4 ? 1 : 0)"},
                                      std::pair{"member == 0 ? in1 + (0) : member == 1 ? in2 + (0) : in3 + (0)",
                                                "member == 0 ? in1 + (0) : member == 1 ? in3 + (0) : in2 + (0)"},
                                      std::pair{"member == 0 ? 128 : member == 1 ? 64 : 64}", "64}"},
                                      std::pair{"if (member == 2)", "if (member == 3)"}}) {
    KernelCase broken = each;
    const std::size_t at = broken.kernel.source.rfind(what);
    ASSERT_NE(at, std::string::npos) << what << "\n" << broken.kernel.source;
    broken.kernel.source.replace(at, std::string_view(what).size(), instead);
    const KernelOutcome wrong = launch(broken, inputs);
    EXPECT_TRUE(!wrong.findings.empty() || wrong.results != right.results) << what;
  }
}

/// The loop is there once, whatever the number of members.
TEST(MergedKernel, HasOneLoop) {
  const ContractionProblem problem = problem_of(MergedMatmuls{"", 1, 64, 64, f16, plain, {{128}, {64}, {64}}});
  const KernelCase each = case_of(problem, default_of(problem));
  const std::string multiply = "cores.multiply(";
  const std::size_t first = each.kernel.source.find(multiply);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(each.kernel.source.find(multiply, first + 1), std::string::npos);
  EXPECT_EQ(to_string(problem), "f16 1×[64,64]·[64,128+64+64] → f32, f32, f32");
}

/// Addresses and strides that are chosen when the tile is known cost no register that the loop needs.
TEST(MergedKernel, LargeOnesDoNotSpill) {
  for (const DType dtype : {f16, f32}) {
    const ContractionProblem problem = problem_of(MergedMatmuls{
        "", 1, 4096, 4096, dtype, plain, {{4096, turned, dtype}, {1024, turned, dtype}, {1024, turned, dtype}}});
    const CompiledKernel compiled = compiled_for_hopper(problem, default_of(problem));
    EXPECT_FALSE(compiled.resources.spills()) << compiled.resources.describe();
  }
  const ContractionProblem problem = problem_of(MergedMatmuls{
      "", 1, 4096, 4096, bf16, plain, {{4096, turned, bf16}, {1024, turned, bf16}, {1024, turned, bf16}}});
  for (const int cluster : {0, 2}) {
    const MergedWarpgroups large = {{}, {"", {}, 128, 256, 64, 16, 256, 3 + (cluster == 0 ? 1 : 0)}, cluster, 132};
    const CompiledKernel compiled = compiled_for_hopper(problem, schedule_of(problem, large));
    EXPECT_FALSE(compiled.resources.spills()) << compiled.resources.describe();
    EXPECT_THAT(compiled.log, testing::Not(testing::HasSubstr("serialized"))) << compiled.log;
  }
}

}  // namespace
}  // namespace stitch::codegen::test
