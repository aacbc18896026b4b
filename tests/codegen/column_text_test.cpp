// Products whose kernels leave the sums of groups of their rows besides, on the emulated device, beside the float64
// reference.
#include "codegen/contraction/column_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernel/contraction/contraction_shape.h"
#include "tests/codegen/left_out.h"
#include "tests/codegen/matmul_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

constexpr auto f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;

/// What is added: "plain": the product; "bias": that in the result's type; "gradient": an activation's derivative by
/// it; "norm": that and what it is by another tensor, as of a norm's shift and scale; "rows": what is left of it by a
/// mean of its rows, by another tensor; "turned": the result is stored the other way round, the sums are not.
struct AddedMatmul {
  std::string name;
  Shape shape;  ///< batch: rows are joined of two dimensions, of which this is the first
  DType dtype = f16;
  std::string adds = "plain";
  std::int64_t group = 64;
  DType result = f32;
  Layout left = Layout::plain, right = Layout::plain;
};
void PrintTo(const AddedMatmul& each, std::ostream* out) { *out << each.name; }

graph::Graph graph_of(const AddedMatmul& m) {
  const auto [outer, rows, columns, depth] = m.shape;
  const Dims dims = {outer, rows, columns};
  Builder b;
  const bool left_turned = m.left == Layout::turned, right_turned = m.right == Layout::turned;
  const Value left = b.parameter(m.dtype, left_turned ? Dims{depth, outer, rows} : Dims{outer, rows, depth});
  const Value right = b.parameter(m.dtype, right_turned ? Dims{columns, depth} : Dims{depth, columns});
  Value y = b.dot(left, right, {{}, {}, {left_turned ? 0 : 2}, {right_turned ? 1 : 0}, f32});
  const auto sum_of = [&](Value x) {
    const Value apart = b.convert(b.reshape(x, {outer * rows / m.group, m.group, columns}), f32);
    return b.reduce(graph::ReduceKind::sum, apart, {1});
  };
  if (m.adds == "gradient") {
    const Value h = b.unary(Op::tanh, b.convert(b.parameter(m.result, dims), f32));
    y = b.binary(Op::multiply, y, b.binary(Op::subtract, b.filled(f32, dims, 1), b.binary(Op::multiply, h, h)));
  }
  if (m.adds == "rows") {
    const Value mean = b.binary(Op::multiply, b.reduce(graph::ReduceKind::sum, y, {2}),
                                b.filled(f32, {outer, rows}, 1.0 / static_cast<double>(columns)));
    const Value x = b.parameter(f32, dims);
    const Value kept = b.binary(Op::subtract, y, b.broadcast(mean, dims, {0, 1}));
    return *b.finish({b.convert(kept, m.result), sum_of(y), sum_of(b.binary(Op::multiply, y, x))});
  }
  if (m.adds == "norm") {
    const Value x = b.parameter(f32, dims);
    return *b.finish({sum_of(b.binary(Op::multiply, y, x)), b.convert(y, m.result), sum_of(y)});
  }
  if (m.adds == "turned") return *b.finish({b.transpose(y, {2, 0, 1}), sum_of(y)});
  if (m.adds == "plain") return *b.finish({b.convert(y, m.result), sum_of(y)});
  y = b.convert(y, m.result);
  return *b.finish({y, sum_of(y)});
}

ContractionProblem problem_of(const AddedMatmul& m) { return derived(graph_of(m)); }

class ColumnsEmulated : public testing::TestWithParam<AddedMatmul> {};

TEST_P(ColumnsEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam());
  ASSERT_FALSE(problem.column_sums.empty());
  EXPECT_THAT(to_string(problem), testing::HasSubstr("sums of columns"));
  expect_problem_right(problem, default_of(problem));
}

INSTANTIATE_TEST_SUITE_P(
    Of, ColumnsEmulated,
    testing::Values(AddedMatmul{"f16", {1, 128, 128, 64}}, AddedMatmul{"two_dimensions", {3, 64, 96, 40}, bf16},
                    AddedMatmul{"groups_of_both", {4, 32, 72, 40}, bf16, "bias", 64, bf16},
                    AddedMatmul{"groups_across", {4, 48, 72, 40}, bf16, "gradient", 64, bf16},
                    AddedMatmul{"bf16_bias", {1, 192, 136, 64}, bf16, "bias", 64, bf16},
                    AddedMatmul{"bf16_gradient", {2, 128, 264, 48}, bf16, "gradient", 64, bf16},
                    AddedMatmul{"f16_norm", {1, 128, 200, 64}, f16, "norm", 64, f16},
                    AddedMatmul{"bf16_rows", {1, 128, 192, 64}, bf16, "rows", 64, bf16},
                    AddedMatmul{"groups_of_32", {1, 96, 80, 64}, f16, "norm", 32},
                    AddedMatmul{"groups_of_16", {3, 16, 130, 71}, bf16, "gradient", 16, bf16},
                    AddedMatmul{"odd", {1, 64, 77, 33}, f16, "gradient", 64, f16},
                    AddedMatmul{"f32", {1, 64, 80, 40}, f32}, AddedMatmul{"f32_odd", {2, 64, 67, 20}, f32, "norm"},
                    AddedMatmul{"f32_gradient", {1, 128, 264, 24}, f32, "gradient"},
                    AddedMatmul{"layouts", {2, 64, 192, 64}, f16, "gradient", 64, f16, Layout::turned, Layout::turned},
                    AddedMatmul{"no_depth", {1, 64, 24, 0}, f32}),
    [](const auto& each) { return each.param.name; });

/// All that pipelines do to a product they do to one with sums.
TEST(ColumnKernelEmulated, PipelinesAreRight) {
  const ContractionProblem problem = problem_of({"", {2, 96, 168, 200}, f16, "norm", 32, f16});
  for (const auto& [rows, warp_rows, stages, fragments] :
       {std::tuple{32, 16, 1, 1}, {64, 64, 3, 2}, {128, 32, 4, 1}, {64, 16, 2, 2}, {32, 32, 3, 2}}) {
    ContractionSchedule s = default_of(problem);
    s.block_rows = rows;
    s.block_columns = 64;
    s.block_depth = 32;
    s.warp_rows = warp_rows;
    s.warp_columns = 32;
    s.stages = stages;
    s.fragment_stages = fragments;
    fit_accesses(problem, s);
    expect_problem_right(problem, s);
  }
}

struct AddedWarpgroups {
  AddedMatmul product;
  Warpgroups tile;
  int resident = 0;  ///< 0: without tensor copies
  int cluster = 1;
};
void PrintTo(const AddedWarpgroups& each, std::ostream* out) { *out << each.product.name; }

ContractionSchedule schedule_of(const ContractionProblem& problem, const AddedWarpgroups& w) {
  ContractionSchedule s = test::schedule_of(problem, w.tile);
  s.tensor_copies = w.resident > 0;
  s.resident = w.resident;
  s.cluster = w.cluster;
  fit_accesses(problem, s);
  return s;
}

class ColumnWarpgroupsEmulated : public testing::TestWithParam<AddedWarpgroups> {};

TEST_P(ColumnWarpgroupsEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam().product);
  expect_problem_right(problem, schedule_of(problem, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    Of, ColumnWarpgroupsEmulated,
    testing::Values(
        AddedWarpgroups{{"one", {1, 64, 64, 256}, bf16, "gradient", 64, bf16}, {"", {}, 64, 64, 64, 16, 64}},
        AddedWarpgroups{{"tall", {1, 192, 136, 192}, f16, "norm", 64, f16}, {"", {}, 128, 128, 64, 32, 128, 3}},
        AddedWarpgroups{{"beside", {2, 64, 256, 192}, bf16, "bias", 64, bf16}, {"", {}, 64, 256, 64, 16, 128, 3}},
        AddedWarpgroups{{"wide_groups", {2, 128, 64, 192}, bf16, "norm", 128}, {"", {}, 128, 64, 64, 32, 64, 3}},
        AddedWarpgroups{{"copied", {1, 128, 128, 192}, bf16, "gradient", 64, bf16}, {"", {}, 64, 64, 64, 16, 64, 3}, 1},
        AddedWarpgroups{{"copied_stay", {5, 64, 128, 128}, bf16, "norm", 64, bf16}, {"", {}, 64, 64, 64, 16, 64, 3}, 2},
        AddedWarpgroups{{"copied_pairs", {4, 64, 136, 128}, f16, "gradient", 64, f16, Layout::plain, Layout::turned},
                        {"", {}, 64, 80, 64, 16, 80, 3},
                        4,
                        2},
        AddedWarpgroups{
            {"copied_wide", {6, 64, 256, 128}, bf16, "bias", 64, bf16}, {"", {}, 192, 128, 64, 16, 128, 3}, 2},
        AddedWarpgroups{{"copied_rows", {4, 64, 128, 192}, f16, "rows", 64, f16}, {"", {}, 64, 64, 64, 16, 64, 3}, 2}),
    [](const auto& each) { return each.param.product.name; });

/// From tensor memory a warp has 32 rows.
TEST(ColumnKernelEmulated, SumsFromTensorMemoryAreRight) {
  const DeviceSpec b200 = *find_device("b200");
  for (const std::int64_t group : {32, 64, 128}) {
    const ContractionProblem problem =
        problem_of({"", {3, 128, 80, 128}, bf16, "norm", group, bf16, Layout::plain, Layout::turned});
    ContractionSchedule s;
    s.instruction = kernel::tensor_memory_instruction_for(problem, b200).value();
    s.block_rows = 128;
    s.block_columns = s.warp_columns = 80;
    s.block_depth = 64;
    s.warp_rows = 32;
    s.thread_rows = s.thread_columns = 0;
    s.stages = 3;
    s.tensor_copies = true;
    s.resident = 2;
    fit_accesses(problem, s);
    SCOPED_TRACE(to_string(s));
    const KernelCase each = case_of(problem, s, b200);
    expect_right(each, inputs_of(*each.graph));
    s.block_rows = 256;
    s.block_columns = s.warp_columns = 160;  // which leave tensor memory in two parts
    const Status legal = kernel::check_legality(problem, s, b200);
    ASSERT_FALSE(legal);
    EXPECT_THAT(legal.error().message, testing::HasSubstr("registers one part after another"));
  }
}

/// Extents, types and schedules drawn by a seed; STITCH_COLUMNS: how many.
TEST(ColumnKernelEmulated, RandomProblemsAreRight) {
  constexpr DType dtypes[] = {f16, bf16, f32};
  const char* const adds[] = {"plain", "bias", "gradient", "norm", "rows"};
  constexpr std::int64_t groups[] = {16, 32, 64};
  Random random(20261130);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const auto extent = [&](int most) { return 1 + static_cast<std::int64_t>(random.below(most)); };
  const char* const asked = std::getenv("STITCH_COLUMNS");
  const int count = asked != nullptr ? std::atoi(asked) : 25;
  for (int i = 0; i < count; ++i) {
    AddedMatmul m{"", {extent(3), 0, 1 + extent(300), extent(100)}, among(dtypes), among(adds), among(groups)};
    m.shape.rows = m.group * extent(static_cast<int>(192 / m.group));
    m.result = random.below(2) == 0 ? f32 : m.dtype;
    m.left = random.below(2) == 0 ? Layout::plain : Layout::turned;
    m.right = random.below(2) == 0 ? Layout::plain : Layout::turned;
    const ContractionProblem problem = problem_of(m);
    SCOPED_TRACE(fmt::format("{}", i));
    expect_problem_right(problem, drawn_schedule(problem, random));
    if (testing::Test::HasFailure()) return;
  }
}

/// Where sums of columns are left.
constexpr std::string_view columns_begin = "f32* const column_parts";

TEST(ColumnKernelEmulated, ABarrierThatIsLeftOutIsMissed) {
  const ContractionProblem problem = problem_of({"", {1, 128, 64, 64}, f16, "norm"});
  ContractionSchedule s = default_of(problem);
  s.block_rows = s.block_columns = 64;
  s.warp_rows = 32;
  fit_accesses(problem, s);
  constexpr std::string_view statements[] = {"__syncthreads();"};
  expect_missed(case_of(problem, s), columns_begin, statements, 1);
}

/// Of blocks that stay one stands before parts are left, too: those of the tile before are still read.
TEST(ColumnKernelEmulated, BarriersThatAreLeftOutOfBlocksThatStayAreMissed) {
  const AddedWarpgroups each{{"", {5, 64, 64, 64}, bf16, "norm"}, {"", {}, 64, 64, 64, 16, 64, 3}, 1};
  const ContractionProblem problem = problem_of(each.product);
  constexpr std::string_view statements[] = {"barrier_of_first<"};
  expect_missed(case_of(problem, schedule_of(problem, each)), columns_begin, statements, 2);
}

/// What is added is what is stored anyway, not made anew.
TEST(ColumnKernelEmulated, AResultIsReadOnceForItsSum) {
  const ContractionProblem problem = problem_of({"", {1, 128, 128, 64}, bf16, "gradient", 64, bf16});
  const KernelCase each = case_of(problem, default_of(problem));
  EXPECT_THAT(each.kernel.source, testing::HasSubstr("epilogue1.run(values0, batch, row, column, values1);"));
}

TEST(ColumnKernel, RefusesWhatHasNoWholeGroups) {
  const ContractionProblem problem = problem_of({"", {1, 256, 128, 64}, f16, "gradient", 64, f16});
  const DeviceSpec h100 = *find_device("h100");
  const auto refused = [&](void (*change)(ContractionSchedule&)) {
    ContractionSchedule s = default_of(problem);
    change(s);
    fit_accesses(problem, s);
    const Status legal = kernel::check_legality(problem, s, h100);
    return legal ? std::string() : legal.error().message;
  };
  EXPECT_EQ(refused([](ContractionSchedule&) {}), "");
  EXPECT_EQ(refused([](ContractionSchedule& s) { s.block_rows = s.warp_rows = 32; }),
            "columns: groups of 64 rows in tiles of 32, 32 of a warp");
  EXPECT_EQ(refused([](ContractionSchedule& s) { s.split = 2, s.stages = s.fragment_stages = 1; }),
            "columns: sums of columns of what is a part of a sum");
  const ContractionProblem turned = problem_of({"", {1, 64, 128, 64}, f16, "turned"});
  const auto along = kernel::default_schedule(turned, h100);
  ASSERT_FALSE(along);
  EXPECT_EQ(along.error().message, "columns: sums of columns of results that lie along rows");
}

/// What is no sum over groups of whole rows, or is more than that, is no product's.
TEST(ColumnKernel, OtherSumsAreNone) {
  const auto reason = [](const std::function<std::vector<Value>(Builder&, Value)>& results) {
    Builder b;
    const Value y = b.dot(b.parameter(f16, {4, 32, 16}), b.parameter(f16, {16, 24}), {{}, {}, {2}, {0}, f32});
    const auto problem = kernel::derive_contraction(*b.finish(results(b, y)));
    return problem ? std::string() : problem.error().message;
  };
  const auto sum = graph::ReduceKind::sum;
  EXPECT_EQ(reason([&](Builder& b, Value y) { return std::vector{y, b.reduce(sum, y, {1})}; }), "");
  EXPECT_EQ(reason([&](Builder& b, Value y) { return std::vector{y, b.reduce(sum, y, {0, 1})}; }), "");
  EXPECT_NE(reason([&](Builder& b, Value y) { return std::vector{y, b.reduce(sum, y, {0})}; }), "");
  EXPECT_NE(reason([&](Builder& b, Value y) { return std::vector{y, b.reduce(graph::ReduceKind::max, y, {1})}; }), "");
  EXPECT_NE(reason([&](Builder& b, Value y) { return std::vector{b.reduce(sum, y, {1})}; }), "");
  EXPECT_NE(reason([&](Builder& b, Value y) {
              const Value of_groups = b.reduce(sum, y, {1});
              return std::vector{y, of_groups, b.reduce(sum, of_groups, {0})};
            }),
            "");
  EXPECT_NE(reason([&](Builder& b, Value y) { return std::vector{y, b.unary(Op::exp, b.reduce(sum, y, {1}))}; }), "");
}

}  // namespace
}  // namespace stitch::codegen::test
