// Sums of products in one kernel, on the emulated device, beside the float64 reference.
#include "kernel/contraction/summed_contraction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernel/contraction/contraction_shape.h"
#include "tests/codegen/summed_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

constexpr auto f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;

class SummedEmulated : public testing::TestWithParam<SummedMatmuls> {};

TEST_P(SummedEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam());
  EXPECT_EQ(problem.terms.size(), GetParam().terms.size());
  expect_problem_right(problem, default_of(problem));
}

INSTANTIATE_TEST_SUITE_P(
    Of, SummedEmulated,
    testing::Values(SummedMatmuls{"f16", 1, 64, 64, f16, plain, turned, {{64}, {64}, {64}}},
                    SummedMatmuls{"f16_grouped", 1, 96, 128, f16, plain, turned, {{128}, {32}, {32}}},
                    SummedMatmuls{"f16_weights", 1, 64, 96, f16, turned, plain, {{64}, {64}}},
                    SummedMatmuls{"bf16_odd", 3, 37, 53, bf16, plain, plain, {{71}, {17}, {33}}, bf16, "bias"},
                    SummedMatmuls{"bf16_unaligned", 1, 40, 61, bf16, plain, turned, {{72}, {61}, {8}}, bf16},
                    SummedMatmuls{"f32", 1, 48, 33, f32, plain, plain, {{40}, {7}}, f32, "before"},
                    SummedMatmuls{"f32_turned", 2, 33, 17, f32, turned, turned, {{65}, {3}, {2}}, f32, "gelu"},
                    SummedMatmuls{"across", 1, 48, 80, f32, plain, plain, {{32}, {32, true}, {16}}, f32, "residual"},
                    SummedMatmuls{"across_half", 2, 64, 96, f16, plain, turned, {{64}, {96, true}}, f16, "turned"},
                    SummedMatmuls{"tf32", 1, 64, 64, f32, plain, plain, {{64}, {32}}, f32, "bias", {.tf32 = true}},
                    SummedMatmuls{"tf32x3", 1, 40, 72, f32, plain, turned, {{64}, {24}}, f32, "", {.tf32x3 = true}},
                    SummedMatmuls{"bf16x3", 1, 40, 72, f32, plain, turned, {{64}, {23}}, f32, "", {.bf16x3 = true}},
                    SummedMatmuls{"f64", 1, 32, 20, DType::f64, plain, plain, {{24}, {40}}, DType::f64},
                    SummedMatmuls{"s8", 1, 64, 96, DType::s8, plain, turned, {{32}, {48}}, DType::s32},
                    SummedMatmuls{"rows", 1, 40, 96, f16, plain, turned, {{64}, {48}}, f32, "norm"},
                    SummedMatmuls{"seven", 1, 32, 32, f16, plain, plain, {{16}, {32}, {16}, {48}, {16}, {16}, {80}}}),
    [](const auto& each) { return each.param.name; });

/// All that pipelines and splits do to one product they do to a sum: terms end within stages and within parts.
TEST(SummedKernelEmulated, PipelinesAndSplitsAreRight) {
  const ContractionProblem problem =
      problem_of(SummedMatmuls{"", 1, 96, 160, f16, plain, turned, {{160}, {72}, {40}, {96}}, f16, "bias"});
  for (const auto& [stages, fragments, splits] : {std::tuple{1, 1, 1}, {3, 2, 1}, {4, 1, 1}, {3, 2, 3}, {2, 1, 4}}) {
    ContractionSchedule s = pipelined(problem, stages, fragments, splits);
    s.group = 2;
    expect_problem_right(problem, s);
  }
}

struct SummedWarpgroups {
  SummedMatmuls products;
  Warpgroups tile;
  int cluster = 0, resident = 0;  ///< 0: without tensor copies
};
void PrintTo(const SummedWarpgroups& each, std::ostream* out) { *out << each.products.name; }

ContractionSchedule schedule_of(const ContractionProblem& problem, const SummedWarpgroups& w) {
  ContractionSchedule s = test::schedule_of(problem, w.tile);
  if (w.cluster == 0) return s;
  s.tensor_copies = true;
  s.cluster = w.cluster;
  s.resident = w.resident;
  fit_accesses(problem, s);
  return s;
}

class SummedWarpgroupsEmulated : public testing::TestWithParam<SummedWarpgroups> {};

TEST_P(SummedWarpgroupsEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam().products);
  expect_problem_right(problem, schedule_of(problem, GetParam()));
}

const std::vector<Term> unequal = {{256}, {64}, {128}};
INSTANTIATE_TEST_SUITE_P(
    Of, SummedWarpgroupsEmulated,
    testing::Values(
        SummedWarpgroups{{"one", 1, 64, 64, bf16, plain, turned, unequal, bf16, "bias"}, {"", {}, 64, 64, 64, 16, 64}},
        SummedWarpgroups{{"plain", 2, 128, 64, f16, turned, plain, {{96}, {64}}}, {"", {}, 64, 64, 64, 16, 64, 3}},
        SummedWarpgroups{{"odd", 2, 70, 33, bf16, plain, turned, {{211}, {50}}, bf16}, {"", {}, 64, 64, 64, 16, 64, 3}},
        SummedWarpgroups{{"split", 1, 64, 96, f16, plain, turned, {{512}, {320}, {64}}},
                         {"", {}, 64, 64, 64, 16, 64, 4, 3}},
        SummedWarpgroups{{"copied", 1, 64, 64, bf16, plain, turned, unequal, bf16}, {"", {}, 64, 64, 64, 16, 64}, 1, 1},
        SummedWarpgroups{{"copied_stay", 2, 192, 128, bf16, plain, turned, unequal, bf16, "bias"},
                         {"", {}, 64, 64, 64, 16, 64, 3},
                         1,
                         5},
        SummedWarpgroups{
            {"copied_pairs", 1, 320, 192, bf16, plain, turned, unequal, bf16}, {"", {}, 64, 96, 64, 16, 96, 3}, 2, 4},
        SummedWarpgroups{
            {"copied_plain", 1, 128, 256, f16, turned, plain, {{192}, {64}}}, {"", {}, 64, 128, 64, 16, 128, 3}, 2, 4},
        SummedWarpgroups{{"copied_ragged", 3, 72, 40, bf16, plain, turned, {{200}, {72}, {8}}, bf16},
                         {"", {}, 64, 64, 64, 16, 64, 3},
                         1,
                         4}),
    [](const auto& each) { return each.param.products.name; });

/// Depths, layouts, types, epilogues and schedules drawn by a seed; STITCH_SUMMED: how many.
TEST(SummedKernelEmulated, RandomProblemsAreRight) {
  constexpr DType dtypes[] = {f16, bf16, f32};
  const char* const epilogues[] = {"", "bias", "residual", "turned", "gelu", "before"};
  Random random(20261128);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const auto extent = [&](int most) { return 1 + static_cast<std::int64_t>(random.below(most)); };
  const char* const asked = std::getenv("STITCH_SUMMED");
  const int count = asked != nullptr ? std::atoi(asked) : 16;
  int tried = 0;
  for (int i = 0; i < count; ++i) {
    SummedMatmuls m{"", extent(2), extent(140), extent(140), among(dtypes)};
    m.left = random.below(2) == 0 ? plain : turned;
    m.right = random.below(2) == 0 ? plain : turned;
    m.result = random.below(2) == 0 ? f32 : m.dtype;
    m.epilogue = among(epilogues);
    for (std::int64_t terms = 1 + extent(3); terms > 0; --terms) m.terms.push_back({extent(150)});
    // Of one row, one column or one of depth a term may lie otherwise than the others.
    auto problem = kernel::derive_summed(graph_of(m));
    if (!problem) continue;
    ++tried;
    const ContractionSchedule schedule = drawn_schedule(*problem, random);
    SCOPED_TRACE(fmt::format("{}", i));
    expect_problem_right(*problem, schedule);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(tried, count / 2);
}

/// A tile that takes another term's operand, depth or place is wrong, and something says so.
TEST(SummedKernelEmulated, WhoseATileIsMatters) {
  const ContractionProblem problem =
      problem_of(SummedMatmuls{"", 1, 64, 64, f16, plain, turned, {{128}, {64}, {64}}, f32});
  ContractionSchedule schedule = default_of(problem);
  schedule.block_depth = 32;
  const KernelCase each = case_of(problem, schedule);
  const std::vector<Bytes> inputs = inputs_of(*each.graph);
  const KernelOutcome right = run(each, inputs);
  for (const auto& [what, instead] :
       {std::pair{"(tile_of_all >= 4 ? 1 : 0)", "(tile_of_all >= 3 ? 1 : 0)"},
        std::pair{"(tile_of_all >= 6 ? 1 : 0)", "(tile_of_all >= 7 ? 1 : 0)"},
        std::pair{"tile_of_all - (term == 0 ? 0 : term == 1 ? 4 : 6)", "tile_of_all - (term == 0 ? 0 : 4)"},
        std::pair{"term == 0 ? in0 + (0) : term == 1 ? in2 + (0) : in4 + (0)",
                  "term == 0 ? in0 + (0) : term == 1 ? in4 + (0) : in2 + (0)"}}) {
    KernelCase broken = each;
    const std::size_t at = broken.kernel.source.find(what);
    ASSERT_NE(at, std::string::npos) << what << "\n" << broken.kernel.source;
    broken.kernel.source.replace(at, std::string_view(what).size(), instead);
    const KernelOutcome wrong = launch(broken, inputs);
    EXPECT_TRUE(!wrong.findings.empty() || wrong.results != right.results) << what;
  }
}

/// A wait that is missing is found, whichever term the tile is of.
TEST(SummedKernelEmulated, WaitsAreNeeded) {
  const ContractionProblem problem = problem_of(SummedMatmuls{"", 1, 64, 64, f16, plain, turned, {{128}, {64}}, f32});
  ContractionSchedule schedule = default_of(problem);
  schedule.block_depth = 32;
  schedule.stages = 3;
  const KernelCase each = case_of(problem, schedule);
  const std::vector<Bytes> inputs = inputs_of(*each.graph);
  const KernelOutcome right = run(each, inputs);
  const std::string wait = "wait_for_groups<1>();";
  KernelCase broken = each;
  const std::size_t at = broken.kernel.source.find(wait);
  ASSERT_NE(at, std::string::npos) << broken.kernel.source;
  broken.kernel.source.erase(at, wait.size());
  const KernelOutcome wrong = launch(broken, inputs);
  EXPECT_TRUE(!wrong.findings.empty() || wrong.results != right.results);
}

/// The loop is there once, whatever the number of terms.
TEST(SummedKernel, HasOneLoop) {
  const ContractionProblem problem =
      problem_of(SummedMatmuls{"", 1, 64, 64, f16, plain, turned, {{128}, {64}, {64}}, f32});
  const KernelCase each = case_of(problem, default_of(problem));
  const std::string multiply = "cores.multiply(";
  const std::size_t first = each.kernel.source.find(multiply);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(each.kernel.source.find(multiply, first + 1), std::string::npos);
  EXPECT_EQ(to_string(problem), "f16 1×[64,128+64+64]·[64,128+64+64]ᵀ → f32");
}

/// Addresses and strides that are chosen tile by tile cost no register that the loop needs.
TEST(SummedKernel, LargeOnesDoNotSpill) {
  const std::vector<Term> terms = {{4096}, {1024}, {1024}};
  for (const DType dtype : {f16, f32}) {
    const ContractionProblem problem = problem_of(SummedMatmuls{"", 1, 4096, 4096, dtype, plain, turned, terms, dtype});
    const CompiledKernel compiled = compiled_for_hopper(problem, default_of(problem));
    EXPECT_FALSE(compiled.resources.spills()) << compiled.resources.describe();
  }
  const ContractionProblem problem = problem_of(SummedMatmuls{"", 1, 4096, 4096, bf16, plain, turned, terms, bf16});
  for (const int cluster : {0, 2}) {
    const SummedWarpgroups large = {{}, {"", {}, 128, 256, 64, 16, 256, 3 + (cluster == 0 ? 1 : 0)}, cluster, 132};
    const CompiledKernel compiled = compiled_for_hopper(problem, schedule_of(problem, large));
    EXPECT_FALSE(compiled.resources.spills()) << compiled.resources.describe();
    EXPECT_THAT(compiled.log, testing::Not(testing::HasSubstr("serialized"))) << compiled.log;
  }
}

}  // namespace
}  // namespace stitch::codegen::test
