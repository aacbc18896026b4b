// Products whose rows are combined before their results leave, on the emulated device, beside the float64 reference.
#include "codegen/contraction/row_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernel/contraction/contraction_shape.h"
#include "tests/codegen/left_out.h"
#include "tests/codegen/normed_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

constexpr auto f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;

class RowsEmulated : public testing::TestWithParam<NormedMatmul> {};

TEST_P(RowsEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam());
  ASSERT_FALSE(problem.row_reductions.empty());
  expect_problem_right(problem, default_of(problem));
}

INSTANTIATE_TEST_SUITE_P(
    Of, RowsEmulated,
    testing::Values(NormedMatmul{"f16", {1, 64, 128, 64}, f16}, NormedMatmul{"f16_wide", {1, 40, 768, 64}, f16, "rms"},
                    NormedMatmul{"bf16_keeps", {1, 64, 256, 64}, bf16, "rms", bf16, true, true},
                    NormedMatmul{"bf16_keeps_wide", {2, 37, 320, 71}, bf16, "layer", bf16, true, true},
                    NormedMatmul{"bf16_narrow", {1, 33, 96, 64}, bf16, "narrow", bf16},
                    NormedMatmul{"f32", {1, 48, 80, 40}, f32}, NormedMatmul{"f32_wide", {2, 33, 530, 20}, f32, "layer"},
                    NormedMatmul{"f32_softmax", {3, 20, 77, 16}, f32, "softmax", f32, false},
                    NormedMatmul{"f16_softmax", {2, 20, 300, 32}, f16, "softmax", f16, false},
                    NormedMatmul{"f16_turned", {2, 40, 130, 32}, f16, "turned", f32},
                    NormedMatmul{"f16_layouts", {1, 64, 192, 64}, f16, "layer", f32, true, true, turned, turned},
                    NormedMatmul{"f16_keeps_rows", {2, 40, 192, 64}, f16, "layer", f16, true, true, plain, plain, true},
                    NormedMatmul{
                        "bf16_keeps_rows", {3, 37, 320, 64}, bf16, "narrow", bf16, true, false, plain, plain, true},
                    NormedMatmul{"no_depth", {1, 8, 24, 0}, f32, "layer"},
                    NormedMatmul{"f16_statistics", {2, 40, 192, 64}, f16, "statistics", f32, false},
                    NormedMatmul{"bf16_statistics_wide", {1, 37, 530, 71}, bf16, "statistics"},
                    NormedMatmul{"f32_greatest", {3, 20, 77, 16}, f32, "greatest", f32, false}),
    [](const auto& each) { return each.param.name; });

/// All that pipelines do to a product they do to one with rows; blocks of a row in clusters of any size.
TEST(RowKernelEmulated, PipelinesAndClustersAreRight) {
  const ContractionProblem problem = problem_of(NormedMatmul{"", {1, 80, 224, 200}, f16, "layer", f16, true, true});
  for (const auto& [columns, stages, fragments] :
       {std::tuple{256, 1, 1}, {128, 3, 2}, {64, 4, 1}, {32, 2, 2}, {64, 3, 2}}) {
    ContractionSchedule s = default_of(problem);
    s.block_rows = 32;
    s.block_columns = columns;
    s.block_depth = 32;
    s.warp_rows = 16;
    s.warp_columns = 32;
    s.stages = stages;
    s.fragment_stages = fragments;
    fit_accesses(problem, s);
    EXPECT_EQ(s.row_blocks, (224 + columns - 1) / columns);
    expect_problem_right(problem, s);
  }
}

/// A product seen from the other side: what is combined are the columns of its first operand.
TEST(RowKernelEmulated, RowsOfTheOtherSideAreRight) {
  Builder b;
  const Value w = b.parameter(f16, {64, 96}), x = b.parameter(f16, {96, 40});
  const Value sum = b.dot(w, x, {{}, {}, {1}, {0}, f32});
  const Value most = b.broadcast(b.reduce(graph::ReduceKind::max, sum, {0}), {64, 40}, {1});
  const ContractionProblem problem = derived(b.finish({b.binary(Op::subtract, sum, most)}));
  EXPECT_EQ(problem.rows, 40);
  expect_problem_right(problem, default_of(problem));
}

struct RowWarpgroups {
  NormedMatmul product;
  Warpgroups tile;
  int resident = 0;  ///< 0: without tensor copies
};
void PrintTo(const RowWarpgroups& each, std::ostream* out) { *out << each.product.name; }

ContractionSchedule schedule_of(const ContractionProblem& problem, const RowWarpgroups& w) {
  ContractionSchedule s = test::schedule_of(problem, w.tile);
  s.tensor_copies = w.resident > 0;
  s.resident = w.resident;
  fit_accesses(problem, s);
  return s;
}

class RowWarpgroupsEmulated : public testing::TestWithParam<RowWarpgroups> {};

TEST_P(RowWarpgroupsEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam().product);
  const ContractionSchedule s = schedule_of(problem, GetParam());
  EXPECT_EQ(s.group, 1);
  expect_problem_right(problem, s);
}

INSTANTIATE_TEST_SUITE_P(
    Of, RowWarpgroupsEmulated,
    testing::Values(
        RowWarpgroups{{"one", {1, 64, 64, 256}, bf16, "layer", bf16, true, true}, {"", {}, 64, 64, 64, 16, 64}},
        RowWarpgroups{{"three", {1, 128, 192, 320}, bf16, "rms", bf16, true, true}, {"", {}, 64, 64, 64, 16, 64, 3}},
        RowWarpgroups{{"tall", {1, 130, 256, 192}, f16, "layer"}, {"", {}, 128, 128, 64, 32, 128, 3}},
        RowWarpgroups{{"odd", {3, 70, 90, 211}, bf16, "softmax", f32, false}, {"", {}, 64, 64, 64, 16, 64, 3}},
        RowWarpgroups{{"side_by_side", {1, 64, 256, 256}, f16, "layer", f16}, {"", {}, 64, 256, 64, 16, 128, 3}},
        RowWarpgroups{{"statistics", {2, 70, 128, 256}, bf16, "statistics", f32, false},
                      {"", {}, 64, 128, 64, 16, 128}},
        RowWarpgroups{{"copied_statistics", {3, 130, 64, 128}, f16, "statistics", f32, false},
                      {"", {}, 64, 64, 64, 16, 64, 3},
                      2},
        RowWarpgroups{{"copied", {1, 64, 64, 256}, bf16, "layer", bf16, true, true}, {"", {}, 64, 64, 64, 16, 64}, 1},
        RowWarpgroups{{"copied_stay", {1, 330, 64, 128}, bf16, "rms", bf16}, {"", {}, 64, 64, 64, 16, 64, 3}, 2},
        RowWarpgroups{
            {"copied_pair", {1, 320, 128, 192}, f16, "rms", f16, true, true}, {"", {}, 64, 64, 64, 16, 64, 3}, 2},
        RowWarpgroups{{"copied_pairs_stay", {2, 392, 128, 128}, bf16, "layer", bf16, true, true},
                      {"", {}, 64, 64, 64, 16, 64, 3},
                      4},
        RowWarpgroups{{"copied_five", {1, 200, 400, 128}, f16, "softmax", f16, false, false, plain, turned},
                      {"", {}, 128, 80, 64, 16, 80, 3},
                      5},
        RowWarpgroups{{"copied_side_by_side", {1, 256, 384, 64}, bf16, "layer", f32, true, true, plain, turned},
                      {"", {}, 64, 192, 64, 16, 96, 3},
                      4},
        RowWarpgroups{{"copied_keeps_rows", {1, 328, 128, 192}, f16, "rms", f16, true, true, plain, plain, true},
                      {"", {}, 64, 64, 64, 16, 64, 3},
                      2},
        RowWarpgroups{{"copied_plain", {1, 128, 256, 192}, f16, "rms", f16, true, false, plain, plain},
                      {"", {}, 64, 128, 64, 16, 128, 3},
                      2}),
    [](const auto& each) { return each.param.product.name; });

/// Extents, types, norms and schedules drawn by a seed; STITCH_ROWS: how many.
TEST(RowKernelEmulated, RandomProblemsAreRight) {
  constexpr DType dtypes[] = {f16, bf16, f32};
  const char* const norms[] = {"layer", "rms", "softmax", "narrow", "turned"};
  Random random(20261128);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const auto extent = [&](int most) { return 1 + static_cast<std::int64_t>(random.below(most)); };
  const char* const asked = std::getenv("STITCH_ROWS");
  const int count = asked != nullptr ? std::atoi(asked) : 30;
  for (int i = 0; i < count; ++i) {
    NormedMatmul m{"", {extent(2), extent(90), 1 + extent(400), extent(100)}, among(dtypes), among(norms)};
    m.result = random.below(2) == 0 ? f32 : m.dtype;
    m.residual = random.below(2) == 0;
    m.keeps_rows = random.below(3) == 0;
    m.keeps_sum = m.norm != "turned" && random.below(2) == 0;
    m.left = random.below(2) == 0 ? plain : turned;
    m.right = random.below(2) == 0 ? plain : turned;
    const ContractionProblem problem = problem_of(m);
    ContractionSchedule s = drawn_schedule(problem, random);
    for (const int columns : {32, 64, 128, 256}) {
      ContractionSchedule wider = s;
      wider.block_columns = columns;
      fit_accesses(problem, wider);
      if (random.below(3) == 0 && kernel::check_legality(problem, wider, *find_device("h100"))) s = wider;
    }
    SCOPED_TRACE(fmt::format("{}", i));
    expect_problem_right(problem, s);
    if (testing::Test::HasFailure()) return;
  }
}

/// Where rows are combined.
constexpr std::string_view rows_begin = "f32* const parts";

/// What rows need of one another is seen to be needed: parts of lanes, warps and blocks, and each barrier.
TEST(RowKernelEmulated, WhatIsLeftOutIsMissed) {
  const ContractionProblem problem = problem_of(NormedMatmul{"", {1, 32, 128, 64}, f16, "layer"});
  ContractionSchedule s = default_of(problem);
  s.block_columns = 64;
  s.warp_columns = 32;
  fit_accesses(problem, s);
  ASSERT_EQ(s.row_blocks, 2);
  constexpr std::string_view statements[] = {"__syncthreads();", "cluster_wait();",    "cluster_barrier();",
                                             "share_row_parts<", "combine_row_parts<", "carried.run("};
  expect_missed(case_of(problem, s), rows_begin, statements, 4 + 1 + 2 + 2 + 2 + 1);
}

/// The same of blocks that stay, which meet at barriers of their own.
TEST(RowKernelEmulated, WhatIsLeftOutOfBlocksThatStayIsMissed) {
  const RowWarpgroups each{{"", {1, 200, 128, 192}, f16, "layer"}, {"", {}, 64, 64, 64, 16, 64, 3}, 4};
  const ContractionProblem problem = problem_of(each.product);
  constexpr std::string_view statements[] = {"barrier_of_first<",  "await_row_parts(", "share_row_parts<",
                                             "combine_row_parts<", "carried.run(",     "++turn"};
  expect_missed(case_of(problem, schedule_of(problem, each)), rows_begin, statements, 4 + 2 + 2 + 2 + 1 + 1);
}

/// Several results that are made element by element, in other layouts and types.
TEST(RowKernelEmulated, SeveralResultsAreRight) {
  Builder b;
  const Value sum = b.dot(b.parameter(f16, {2, 40, 32}), b.parameter(f16, {32, 72}), {{}, {}, {2}, {0}, f32});
  const Value bias = b.binary(Op::add, sum, b.broadcast(b.parameter(f32, {72}), {2, 40, 72}, {2}));
  const Value turned_sum = b.transpose(b.convert(sum, f16), {0, 2, 1});
  const ContractionProblem problem = derived(b.finish({turned_sum, bias, b.convert(b.unary(Op::tanh, bias), bf16)}));
  EXPECT_TRUE(problem.row_reductions.empty());
  EXPECT_EQ(problem.results.size(), 3U);
  expect_problem_right(problem, default_of(problem));
}

/// Norms of a model's width: sums stay in registers between two levels. What is put aside for the passes over them is
/// little, and once a tile.
TEST(RowKernel, SpillsNextToNothing) {
  for (const auto& [columns, tile] : {std::pair{768, 192}, {2048, 256}, {1024, 256}}) {
    RowWarpgroups each{{"", {1, 4096, columns, 768}, f16, "layer", f16, true, true}, {"", {}, 128, tile, 64, 16, tile}};
    each.product.right = turned;
    each.tile.stages = 3;
    each.resident = 128;
    const ContractionProblem problem = problem_of(each.product);
    ContractionSchedule s = schedule_of(problem, each);
    s.resident = 132 / s.row_blocks * s.row_blocks;
    const CompiledKernel compiled = compiled_for_hopper(problem, s);
    EXPECT_LE(compiled.resources.spill_store_bytes, 64) << to_string(s) << ": " << compiled.resources.describe();
  }
}

/// What the residual stream is made of is read once, however often rows are combined.
TEST(RowKernel, ReadsWhatIsAddedOnce) {
  const ContractionProblem problem = problem_of(NormedMatmul{"", {1, 32, 128, 64}, f16, "layer", f32, true, true});
  const KernelCase each = case_of(problem, default_of(problem));
  EXPECT_EQ(problem.row_reductions.size(), 2U);
  const std::string& source = each.kernel.source;
  const std::string read = "load_one<Cached::streamed>(in2";
  const std::size_t first = source.find(read);
  ASSERT_NE(first, std::string::npos) << source;
  EXPECT_EQ(source.find(read, first + 1), std::string::npos) << source;
}

}  // namespace
}  // namespace stitch::codegen::test
