// Products of groups of rows, each with a matrix of its own, on the emulated device, beside the float64 reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/contraction/computed_operand.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/merged_contraction.h"
#include "kernel/contraction/shown_depth.h"
#include "lab/products/grouped_matmul.h"
#include "tests/codegen/matmul_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

constexpr auto f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32, s32 = DType::s32;

struct Grouped {
  std::string name;
  std::int64_t rows, depth, columns;
  std::vector<int> sizes;  ///< of the groups
  DType dtype = f32;
  bool gathered = false, scaled = false, gradient = false;
  int products = 1;
  bool batched = false;
};
void PrintTo(const Grouped& each, std::ostream* out) { *out << each.name; }

graph::Graph graph_of(const Grouped& m) {
  Builder b;
  const lab::GroupedMatmul each{m.rows,     m.depth,  m.columns,  std::ssize(m.sizes), m.dtype,
                                m.gathered, m.scaled, m.gradient, m.products,          m.batched};
  auto graph = b.finish(results_of(b, each));
  if (!graph) throw std::runtime_error(graph.error().message);
  return *std::move(graph);
}

ContractionProblem problem_of(const Grouped& m) {
  auto problem = m.products > 1 ? kernel::derive_computed(graph_of(m), kernel::derive_merged)
                                : kernel::derive_computed(graph_of(m));
  if (!problem) throw std::runtime_error(problem.error().message);
  return *std::move(problem);
}

/// Where groups of these sizes begin and end, and small numbers.
std::vector<Bytes> inputs_of(const Grouped& m, const std::vector<int>& sizes) {
  const graph::Graph graph = graph_of(m);
  std::vector<Bytes> inputs = test::inputs_of(graph);
  std::vector<double> begin, end;
  double row = 0;
  for (const int size : sizes) {
    begin.push_back(row);
    end.push_back(row += size);
  }
  inputs[0] = bytes_of(s32, begin);
  inputs[1] = bytes_of(s32, end);
  if (m.gathered) {  // some beyond what there is
    std::vector<double> places;
    for (std::int64_t i = 0; i < m.rows; ++i) places.push_back(static_cast<double>(i * 7 % (m.rows / 2 + 2) - 1));
    inputs[3] = bytes_of(s32, places);
  }
  return inputs;
}

ContractionSchedule small_tiles(const ContractionProblem& problem, int stages, int fragment_stages, int split = 1) {
  ContractionSchedule s = pipelined(problem, stages, fragment_stages, split);
  if (s.instruction == kernel::ContractionInstruction::cuda_core) s = default_of(problem);
  s.stages = stages;
  s.fragment_stages = fragment_stages;
  s.split = split;
  return s;
}

void expect_grouped_right(const Grouped& m, const ContractionProblem& problem, const ContractionSchedule& schedule) {
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  expect_right(case_of(problem, schedule), inputs_of(m, m.sizes));
}

class GroupedEmulated : public testing::TestWithParam<Grouped> {};

TEST_P(GroupedEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam());
  ASSERT_NE(kernel::shown_side(problem), nullptr);
  expect_grouped_right(GetParam(), problem, small_tiles(problem, 3, 2));
  expect_grouped_right(GetParam(), problem, small_tiles(problem, 2, 1, 2));
}

INSTANTIATE_TEST_SUITE_P(
    Of, GroupedEmulated,
    testing::Values(Grouped{"even", 64, 32, 48, {16, 16, 16, 16}}, Grouped{"odd", 90, 37, 29, {13, 40, 1, 36}},
                    Grouped{"empty", 96, 32, 40, {0, 50, 0, 46, 0}}, Grouped{"one", 48, 64, 33, {20, 28}},
                    Grouped{"all_in_last", 70, 32, 32, {0, 0, 0, 70}}, Grouped{"none", 40, 32, 32, {0, 0, 0}},
                    Grouped{"fewer_than_rows", 96, 24, 40, {20, 0, 31}},
                    Grouped{"f16", 128, 64, 64, {30, 66, 0, 32}, f16}, Grouped{"bf16_odd", 100, 72, 56, {99, 1}, bf16},
                    Grouped{"bf16_few", 7, 64, 96, {1, 0, 3, 0, 2, 1}, bf16},
                    Grouped{"gathered", 64, 32, 48, {10, 0, 54}, f32, true},
                    Grouped{"gathered_f16", 96, 64, 64, {33, 0, 40, 23}, f16, true, true},
                    Grouped{"scaled", 60, 104, 24, {7, 53}, bf16, false, true},
                    Grouped{"two_of_the_same", 80, 64, 64, {40, 0, 25}, bf16, true, false, false, 2},
                    Grouped{"gradient", 200, 32, 48, {60, 0, 100, 40}, f32, false, false, true},
                    Grouped{"gradient_f16", 256, 64, 64, {0, 130, 90}, f16, false, false, true},
                    Grouped{"gradient_gathered", 120, 32, 40, {50, 1, 69}, bf16, true, false, true},
                    Grouped{"gradient_batches", 200, 32, 48, {60, 0, 100, 40}, f32, false, false, true, 1, true},
                    Grouped{"gradient_batches_bf16", 256, 64, 64, {0, 130, 90}, bf16, false, false, true, 1, true}),
    [](const auto& each) { return each.param.name; });

/// By wgmma, which has a loop of its own.
TEST(GroupedKernelEmulated, WarpgroupsAreRight) {
  for (const auto& [stages, split] : {std::pair{3, 1}, {4, 1}, {3, 2}}) {
    for (const std::vector<int>& sizes : {std::vector{70, 0, 58}, {0, 0, 128}, {0, 0, 0}, {5, 6, 7}}) {
      const Grouped m{"", 128, 128, 64, sizes, bf16, true};
      const ContractionProblem problem = problem_of(m);
      expect_grouped_right(m, problem, schedule_of(problem, {"", {}, 64, 64, 64, 16, 64, stages, split}));
    }
  }
}

/// Of tiles whose rows are one group's nothing of another group's matrix is copied.
TEST(GroupedKernelEmulated, WalksWhatItsRowsAreShown) {
  const Grouped m{"", 64, 128, 64, {0, 0, 0, 0}, f16};
  const ContractionProblem problem = problem_of(m);
  ContractionSchedule schedule = small_tiles(problem, 1, 1);
  ASSERT_EQ(schedule.block_rows, 64);
  const KernelCase each = case_of(problem, schedule);
  const auto copied = [&](const std::vector<int>& sizes) {
    return run(each, inputs_of(m, sizes)).counters.async_copy_bytes;
  };
  const std::uint64_t matrix = 128 * 64 * 2;
  EXPECT_EQ(copied({64, 0, 0, 0}), matrix);
  EXPECT_EQ(copied({0, 0, 64, 0}), matrix);
  EXPECT_EQ(copied({0, 30, 34, 0}), 2 * matrix);
  EXPECT_EQ(copied({16, 16, 16, 16}), 4 * matrix);
  EXPECT_EQ(copied({0, 0, 0, 0}), 0U);
}

/// Sums of a group do not depend on what other groups there are, nor on how blocks share them.
TEST(GroupedKernelEmulated, PipelinesAreRight) {
  const Grouped m{"", 96, 160, 64, {90, 1, 5}, f16};
  const ContractionProblem problem = problem_of(m);
  for (const auto& [stages, fragments, splits] : {std::tuple{1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {4, 2, 1}, {4, 1, 4}})
    expect_grouped_right(m, problem, small_tiles(problem, stages, fragments, splits));
}

/// A turn has as many steps as a block would have turns if all were shown: guards of steps are none of turns.
TEST(GroupedKernelEmulated, StepsAreNotCountedByTurns) {
  const Grouped m{"", 64, 32, 64, {20, 30, 0, 14}, f16};
  const ContractionProblem problem = problem_of(m);
  ContractionSchedule schedule = small_tiles(problem, 1, 2, 2);
  schedule.block_rows = schedule.warp_rows = 16;
  schedule.block_depth = 32;
  ASSERT_EQ(kernel::shape_of(problem, schedule).depth_tiles, kernel::shape_of(problem, schedule).depth_steps);
  EXPECT_THAT(launch(case_of(problem, schedule), inputs_of(m, m.sizes)).findings, testing::IsEmpty());
  expect_grouped_right(m, problem, schedule);
}

TEST(GroupedKernelEmulated, EveryBarrierIsNeeded) {
  const Grouped m{"", 64, 160, 64, {40, 24}, f16};
  const ContractionProblem problem = problem_of(m);
  for (const auto& [stages, fragments] : {std::pair{2, 1}, {2, 2}, {3, 2}}) {
    const KernelCase each = case_of(problem, small_tiles(problem, stages, fragments));
    const std::string& source = each.kernel.source;
    EXPECT_THAT(launch(each, inputs_of(m, m.sizes)).findings, testing::IsEmpty());
    const std::string barrier = "__syncthreads();";
    KernelCase broken = each;
    broken.kernel.source.replace(source.rfind(barrier, source.find("cores.multiply")), barrier.size(), "");
    EXPECT_THAT(launch(broken, inputs_of(m, m.sizes)).findings, testing::Not(testing::IsEmpty()))
        << broken.kernel.source;
  }
}

/// What is asked for nearly every element is no condition of tiles, nor is one without places to leave out.
TEST(GroupedContraction, ConditionsAreOfManyElements) {
  const auto condition_of = [](const Grouped& m) { return problem_of(m).computed[0].condition; };
  EXPECT_EQ(condition_of({"", 64, 32, 16, {1, 2, 3}}), (kernel::ComputedOperand::Condition{1, 32}));
  EXPECT_EQ(condition_of({"", 64, 32, 16, {1, 2, 3}, f32, false, false, true}),
            (kernel::ComputedOperand::Condition{32, 1}));
  EXPECT_EQ(condition_of({"", 64, 8, 16, {1, 2, 3}}), kernel::ComputedOperand::Condition{});
  EXPECT_EQ(condition_of({"", 64, 32, 16, {1}}), kernel::ComputedOperand::Condition{});
}

/// Groups that are more than a tile's rows lose what is left of their last tile, and smaller ones share tiles.
TEST(GroupedContraction, WalkedShareIsOfTheTilesGroups) {
  const ContractionProblem problem = problem_of({"", 1024, 64, 64, {1, 2, 3, 4, 5, 6, 7, 8}, f16});
  ContractionSchedule schedule = default_of(problem);
  schedule.block_rows = 128;
  EXPECT_DOUBLE_EQ(kernel::walked_share(problem, schedule), (1 + 7 * 128 / 1024.0) / 8);
  schedule.block_rows = 1024;
  EXPECT_DOUBLE_EQ(kernel::walked_share(problem, schedule), 1);
  const ContractionProblem batches =
      problem_of({"", 1024, 64, 64, {1, 2, 3, 4, 5, 6, 7, 8}, f16, false, false, true, 1, true});
  schedule.block_depth = 32;
  EXPECT_DOUBLE_EQ(kernel::walked_share(batches, schedule), 1 / 8.0 + 32 / 1024.0);
}

}  // namespace
}  // namespace stitch::codegen::test
