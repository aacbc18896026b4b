// Products of operands whose rows are not aligned to what is copied at once, on the emulated device, beside the float64
// reference.
#include "kernel/contraction/realigned_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "costmodel/contraction/contraction_time.h"
#include "search/contraction/contraction_space.h"
#include "tests/codegen/matmul_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using testing::HasSubstr;

constexpr auto f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32, s8 = DType::s8, u8 = DType::u8, s32 = DType::s32,
               f64 = DType::f64, f8 = DType::f8e4m3;

/// Small tiles, with copies realigned that can be; all operands, unless the name says which one is aligned.
ContractionSchedule small_tiles(const ContractionProblem& problem, int stages = 3) {
  ContractionSchedule s = default_of(problem);
  s.block_rows = s.block_columns = s.warp_rows = s.warp_columns = 32;
  s.block_depth = 64 / std::min(4, graph::byte_size(problem.left.dtype));
  if (s.instruction == kernel::ContractionInstruction::cuda_core) s.thread_rows = 8, s.thread_columns = 4;
  s.stages = s.fragment_stages = 1;
  fit_accesses(problem, s);
  s = kernel::realigned(problem, s, true, true);
  for (int more = 2; more <= stages; ++more) {
    ContractionSchedule next = s;
    next.stages = more;
    if (kernel::check_legality(problem, next, *find_device("h100"))) s = next;
  }
  return s;
}

class RealignedEmulated : public testing::TestWithParam<Matmul> {};

TEST_P(RealignedEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam());
  const ContractionSchedule schedule = small_tiles(problem);
  EXPECT_EQ(schedule.left_realigned, GetParam().name.find("left_aligned") == std::string::npos);
  EXPECT_EQ(schedule.right_realigned, GetParam().name.find("right_aligned") == std::string::npos);
  EXPECT_THAT(case_of(problem, schedule).kernel.source, HasSubstr("RealignedTile<"));
  expect_problem_right(problem, schedule);
}

INSTANTIATE_TEST_SUITE_P(
    Of, RealignedEmulated,
    testing::Values(
        Matmul{"f16", {1, 37, 53, 71}, f16, plain, turned}, Matmul{"f16_plain", {1, 37, 53, 71}, f16, plain, plain},
        Matmul{"f16_left_turned", {1, 37, 53, 71}, f16, turned, turned},
        Matmul{"f16_turned", {1, 37, 53, 71}, f16, turned, plain}, Matmul{"bf16", {3, 37, 53, 71}, bf16, plain, turned},
        Matmul{"bf16_plain", {3, 35, 51, 69}, bf16, plain, plain, bf16, "bias"},
        Matmul{"bf16_by_4", {2, 34, 50, 70}, bf16, turned, plain, bf16, "residual"},
        Matmul{"bf16_by_8", {2, 36, 52, 68}, bf16, plain, turned, bf16},
        Matmul{"left_aligned", {1, 40, 53, 64}, f16, plain, plain},
        Matmul{"right_aligned", {1, 37, 64, 40}, f16, turned, plain},
        Matmul{"s8", {1, 37, 53, 71}, s8, plain, turned, s32},
        Matmul{"s8_turned", {2, 37, 53, 71}, s8, turned, plain, s32},
        Matmul{"u8", {1, 33, 49, 83}, u8, plain, turned, s32},
        Matmul{"s8_by_4", {1, 36, 44, 52}, s8, plain, plain, s32}, Matmul{"f8", {2, 37, 53, 71}, f8, plain, turned},
        Matmul{"f8_plain", {1, 37, 53, 71}, f8, plain, plain}, Matmul{"f32", {1, 37, 53, 71}, f32, plain, turned},
        Matmul{"f32_plain", {2, 37, 53, 71}, f32, plain, plain},
        Matmul{"f32_by_8", {1, 38, 54, 70}, f32, turned, turned},
        Matmul{"tf32", {1, 37, 53, 71}, f32, plain, turned, f32, "", {.tf32 = true}},
        Matmul{"f64", {1, 37, 53, 71}, f64, plain, turned, f64},
        Matmul{"f64_turned", {2, 37, 53, 71}, f64, turned, plain, f64},
        // A line has fewer bytes than a word, one element, or whole words and one element.
        Matmul{"depth_1", {1, 39, 37, 1}, f16, plain, turned}, Matmul{"depth_3", {1, 40, 37, 3}, f16, plain, turned},
        Matmul{"depth_65", {1, 33, 37, 65}, f16, plain, turned},
        Matmul{"depth_7", {2, 9, 5, 7}, s8, plain, turned, s32}, Matmul{"column_1", {1, 37, 1, 71}, f16, plain, plain},
        Matmul{"row_1", {1, 1, 53, 71}, f16, turned, plain}, Matmul{"batches_of_one", {7, 1, 1, 3}, f16},
        Matmul{"batches_of_line", {5, 1, 33, 65}, bf16, plain, turned}),
    [](const auto& each) { return each.param.name; });

struct Pipelined {
  int stages, fragment_stages, split, streamed = 0;
};
class RealignedPipelinesEmulated : public testing::TestWithParam<Pipelined> {
 protected:
  RealignedPipelinesEmulated() {
    schedule = small_tiles(problem, GetParam().stages);
    schedule.fragment_stages = GetParam().fragment_stages;
    schedule.split = GetParam().split;
    schedule.streamed = GetParam().streamed;
  }
  const ContractionProblem problem = problem_of({"", {1, 67, 41, 325}, f16, plain, plain});
  ContractionSchedule schedule;
};

TEST_P(RealignedPipelinesEmulated, AreRight) {
  EXPECT_EQ(schedule.stages, GetParam().stages);
  expect_problem_right(problem, schedule);
}

/// Without the barrier before what is multiplied others have not stored yet.
TEST_P(RealignedPipelinesEmulated, BarriersAreNeeded) {
  const KernelCase each = case_of(problem, schedule);
  KernelCase broken = each;
  const std::string barrier = "__syncthreads();";
  const std::size_t at = each.kernel.source.rfind(barrier, each.kernel.source.find("cores.multiply"));
  ASSERT_NE(at, std::string::npos);
  broken.kernel.source.replace(at, barrier.size(), "");
  EXPECT_THAT(launch(broken, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty()))
      << broken.kernel.source;
}

INSTANTIATE_TEST_SUITE_P(Stages, RealignedPipelinesEmulated,
                         testing::Values(Pipelined{1, 1, 1}, Pipelined{2, 1, 1}, Pipelined{3, 1, 1}, Pipelined{4, 2, 1},
                                         Pipelined{2, 2, 1}, Pipelined{3, 2, 3}, Pipelined{2, 1, 4},
                                         Pipelined{3, 1, 1, 4}),
                         [](const auto& each) {
                           return fmt::format("shared_{}_registers_{}_split_{}_streamed_{}", each.param.stages,
                                              each.param.fragment_stages, each.param.split, each.param.streamed);
                         });

class RealignedWarpgroupsEmulated : public testing::TestWithParam<Warpgroups> {};

TEST_P(RealignedWarpgroupsEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam().matmul);
  const ContractionSchedule schedule = kernel::realigned(problem, schedule_of(problem, GetParam()), true, true);
  EXPECT_TRUE(schedule.left_realigned && schedule.right_realigned);
  EXPECT_THAT(case_of(problem, schedule).kernel.source, HasSubstr("wgmma.mma_async"));
  expect_problem_right(problem, schedule);
}

INSTANTIATE_TEST_SUITE_P(
    Of, RealignedWarpgroupsEmulated,
    testing::Values(
        Warpgroups{"odd", {"", {3, 70, 91, 211}, bf16, plain, turned, bf16}, 64, 64, 64, 16, 64, 3},
        Warpgroups{"odd_plain", {"", {2, 77, 131, 201}, bf16, plain, plain, bf16}, 64, 128, 64, 16, 64, 3},
        Warpgroups{"odd_left_turned", {"", {1, 77, 67, 201}, f16, turned, turned}, 64, 64, 64, 16, 64, 4},
        Warpgroups{"lines_of_64", {"", {1, 129, 67, 201}, f16, plain, plain}, 128, 64, 32, 32, 64, 5},
        Warpgroups{"split", {"", {1, 65, 63, 1023}, f16, plain, turned}, 64, 64, 64, 16, 64, 4, 3},
        Warpgroups{"s8", {"", {1, 65, 31, 509}, s8, plain, turned, s32}, 64, 32, 64, 16, 32, 4},
        Warpgroups{
            "tf32", {"", {2, 70, 90, 211}, f32, plain, turned, f32, "bias", {.tf32 = true}}, 64, 64, 16, 16, 64, 3}),
    [](const auto& each) { return each.param.name; });

/// Without its waits, its barrier or its fence the loop multiplies what is not there, or overwrites what is read.
TEST(RealignedWarpgroupKernelEmulated, EveryWaitIsNeeded) {
  const Warpgroups one = {"", {"", {1, 127, 63, 641}, f16, plain, turned}, 128, 64, 64, 16, 64, 4};
  const ContractionProblem problem = problem_of(one.matmul);
  const KernelCase each = case_of(problem, kernel::realigned(problem, schedule_of(problem, one), true, true));
  EXPECT_THAT(launch(each, inputs_of(*each.graph)).findings, testing::IsEmpty());
  for (const char* wait :
       {"share_with_wgmma();", "__syncthreads();", "wait_for_products<1>();", "wait_for_products<0>();"}) {
    KernelCase broken = each;
    const std::size_t at = broken.kernel.source.find(wait);
    ASSERT_NE(at, std::string::npos) << wait;
    broken.kernel.source.replace(at, std::string_view(wait).size(), "");
    EXPECT_THAT(launch(broken, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty())) << wait;
  }
}

/// A part of wider rows, from an odd place on: what lies around it is not a number.
struct Part {
  std::string name;
  DType dtype;
  std::int64_t before, behind;  ///< elements of a row
  bool free;                    ///< along rows and columns, or else along the depth
};
void PrintTo(const Part& each, std::ostream* out) { *out << each.name; }

class RealignedPartsEmulated : public testing::TestWithParam<Part> {};

TEST_P(RealignedPartsEmulated, NothingElseCounts) {
  const auto [name, dtype, before, behind, free] = GetParam();
  const std::int64_t rows = 37, columns = 45, depth = 75;
  Builder b;
  const auto part = [&](std::int64_t lines, std::int64_t elements) {
    const Value whole = b.parameter(dtype, {2, lines, before + elements + behind});
    return b.slice(whole, {0, 0, before}, {2, lines, before + elements});
  };
  const Value left = free ? part(depth, rows) : part(rows, depth);
  const Value right = free ? part(depth, columns) : part(columns, depth);
  graph::DotAttributes a;
  a.lhs_batch = a.rhs_batch = {0};
  a.lhs_contracting = a.rhs_contracting = {free ? 1 : 2};
  a.result = f32;
  const ContractionProblem problem = derived(b.finish({b.dot(left, right, a)}));
  const ContractionSchedule schedule = small_tiles(problem);
  ASSERT_TRUE(schedule.left_realigned && schedule.right_realigned) << to_string(problem);
  const KernelCase each = case_of(problem, schedule);
  std::vector<Bytes> inputs = inputs_of(*each.graph);
  const std::size_t size = graph::byte_size(dtype);
  for (std::size_t p = 0; p < inputs.size(); ++p) {
    const graph::Dims dims = each.graph->node(each.graph->parameters()[p]).type().dims;
    const std::int64_t width = dims[2];
    for (std::int64_t i = 0; i < dims[0] * dims[1] * width; ++i) {
      if (i % width < before || i % width >= width - behind)
        graph::store_element(dtype, std::numeric_limits<double>::quiet_NaN(), &inputs[p][i * size]);
    }
  }
  expect_right(each, inputs);
}

INSTANTIATE_TEST_SUITE_P(Of, RealignedPartsEmulated,
                         testing::Values(Part{"f16", f16, 1, 2, false}, Part{"f16_free", f16, 3, 1, true},
                                         Part{"bf16_behind", bf16, 0, 5, false}, Part{"bf16_before", bf16, 5, 0, true},
                                         Part{"even_rows", f16, 3, 2, false}, Part{"same_shift", f16, 1, 4, false},
                                         Part{"f32", f32, 1, 1, false}, Part{"f32_free", f32, 2, 1, true}),
                         [](const auto& each) { return each.param.name; });

/// A convolution over images with the features last.
struct Windowed {
  std::string name;
  std::int64_t images, features, results;
  Dims extents, window, strides, padding;
  DType dtype = f16;
};
void PrintTo(const Windowed& each, std::ostream* out) { *out << each.name; }

ContractionProblem convolution_of(const Windowed& w) {
  graph::ConvolutionAttributes a;
  a.strides = w.strides;
  a.low = a.high = w.padding;
  a.input_dilation = a.kernel_dilation = Dims(2, 1);
  a.window_reversal.assign(2, false);
  a.result = w.dtype == s8 ? s32 : f32;
  a.input_batch = a.output_batch = 0;
  a.input_feature = a.output_feature = 3;
  a.input_spatial = a.output_spatial = {1, 2};
  a.kernel_spatial = {0, 1};
  a.kernel_input_feature = 2;
  a.kernel_output_feature = 3;
  Builder b;
  const Value x = b.parameter(w.dtype, {w.images, w.extents[0], w.extents[1], w.features});
  const Value kernel = b.parameter(w.dtype, {w.window[0], w.window[1], w.features, w.results});
  return derived(b.finish({b.add(Op::convolution, {x, kernel}, a)}));
}

class RealignedWindowsEmulated : public testing::TestWithParam<Windowed> {};

TEST_P(RealignedWindowsEmulated, AreRight) {
  const ContractionProblem problem = convolution_of(GetParam());
  ContractionSchedule schedule = small_tiles(problem);
  ASSERT_TRUE(schedule.left_realigned) << to_string(problem);
  EXPECT_THAT(case_of(problem, schedule).kernel.source, HasSubstr("PartedTile<LeftTile"));
  expect_problem_right(problem, schedule);
}

INSTANTIATE_TEST_SUITE_P(Of, RealignedWindowsEmulated,
                         testing::Values(Windowed{"resnet50", 2, 3, 64, {19, 21}, {7, 7}, {2, 2}, {3, 3}},
                                         Windowed{"bf16_narrow", 1, 3, 16, {3, 4}, {7, 7}, {1, 1}, {3, 3}, bf16},
                                         Windowed{"no_padding", 3, 3, 24, {9, 11}, {3, 3}, {1, 1}, {0, 0}},
                                         Windowed{"five", 2, 5, 17, {9, 8}, {3, 3}, {2, 1}, {1, 1}},
                                         Windowed{"wide_padding", 1, 3, 16, {5, 6}, {3, 5}, {1, 2}, {4, 7}},
                                         Windowed{"one_row", 2, 3, 16, {9, 8}, {1, 5}, {1, 1}, {0, 2}},
                                         Windowed{"s8", 2, 3, 16, {9, 13}, {3, 7}, {1, 2}, {1, 3}, s8},
                                         Windowed{"f32", 2, 3, 16, {9, 7}, {5, 3}, {2, 2}, {2, 1}, f32}),
                         [](const auto& each) { return each.param.name; });

/// Of heads side by side, each of whose rows lies elsewhere.
TEST(RealignedKernelEmulated, LinesThatGoOnElsewhereAreRight) {
  Builder b;
  const Value x = b.parameter(f16, {5, 37, 33});
  const Value joined = b.reshape(b.transpose(x, {1, 0, 2}), {37, 5 * 33});
  graph::DotAttributes dot;
  dot.lhs_contracting = {1};
  dot.rhs_contracting = {0};
  dot.result = f32;
  const ContractionProblem problem = derived(b.finish({b.dot(joined, b.parameter(f16, {5 * 33, 40}), dot)}));
  const ContractionSchedule schedule = small_tiles(problem);
  ASSERT_TRUE(schedule.left_realigned) << to_string(problem);
  EXPECT_THAT(case_of(problem, schedule).kernel.source, HasSubstr("PartedTile<LeftTile"));
  expect_problem_right(problem, schedule);
}

/// What is said of the last word is needed: taken for whole, it is read beyond the tensor.
TEST(RealignedKernelEmulated, TheLastWordIsNotReadBeyondTheTensor) {
  for (const Layout layout : {plain, turned}) {
    const ContractionProblem problem = problem_of({"", {1, 37, 53, 71}, f16, layout, layout});
    const KernelCase each = case_of(problem, small_tiles(problem));
    KernelCase broken = each;
    const std::string ragged = "ragged = 6;";  // 37 · 71 elements
    const std::size_t at = each.kernel.source.find(ragged);
    ASSERT_NE(at, std::string::npos) << each.kernel.source;
    broken.kernel.source.replace(at, ragged.size(), "ragged = 0;");
    EXPECT_THAT(launch(broken, inputs_of(*each.graph)).findings, testing::Contains(HasSubstr("out_of_bounds")));
    // Nor is it where nobody looks whether a tile reaches it.
    KernelCase blind = each;
    const std::string reaches = "return data + at(row, k) >= end - 3;";
    blind.kernel.source.replace(each.kernel.source.find(reaches), reaches.size(), "return false;");
    EXPECT_THAT(launch(blind, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty()));
  }
}

std::uint64_t conflicts_of(const Matmul& matmul) {
  const ContractionProblem problem = problem_of(matmul);
  const KernelCase each = case_of(problem, small_tiles(problem));
  return run(each, inputs_of(*each.graph)).counters.shared_extra_wavefronts;
}

TEST(RealignedKernelEmulated, MainLoopsHaveNoBankConflicts) {
  for (const Layout left : {plain, turned}) {
    for (const Layout right : {plain, turned}) {
      const auto of_depth = [&](std::int64_t depth) {
        return conflicts_of({"", {1, 63, 63, depth}, f16, left, right});
      };
      EXPECT_EQ(of_depth(255), of_depth(511)) << (left == turned) << (right == turned);
    }
  }
}

/// Shapes, layouts, types and schedules drawn by a seed; STITCH_REALIGNED: how many.
TEST(RealignedKernelEmulated, RandomProblemsAreRight) {
  constexpr DType dtypes[] = {f16, bf16, f32, f64, s8, f8};
  const char* const epilogues[] = {"", "bias", "residual", "turned"};
  Random random(20261130);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const char* const asked = std::getenv("STITCH_REALIGNED");
  const int count = asked != nullptr ? std::atoi(asked) : 24;
  int realigned = 0;
  for (int i = 0; i < count; ++i) {
    const auto extent = [&](std::uint64_t most) { return 1 + static_cast<std::int64_t>(random.below(most)); };
    Matmul m;
    m.shape = {extent(3), extent(140), extent(140), extent(150)};
    m.dtype = among(dtypes);
    m.left = random.below(2) == 0 ? plain : turned;
    m.right = random.below(2) == 0 ? plain : turned;
    m.result = m.dtype == s8 ? s32 : m.dtype == f64 ? f64 : random.below(2) == 0 || m.dtype == f8 ? f32 : m.dtype;
    m.epilogue = among(epilogues);
    if (m.dtype == s8 && m.epilogue == "residual") m.epilogue = "bias";
    const ContractionProblem problem = problem_of(m);
    const bool left = random.below(4) != 0, right = random.below(4) != 0;
    ContractionSchedule schedule = kernel::realigned(problem, drawn_schedule(problem, random), left, right);
    if (!kernel::check_legality(problem, schedule, *find_device("h100"))) continue;
    realigned += kernel::holds_realigned(schedule) ? 1 : 0;
    SCOPED_TRACE(fmt::format("{}: {}\n{}", i, to_string(problem), to_string(schedule)));
    const KernelCase each = case_of(problem, schedule);
    expect_right(each, inputs_of(*each.graph));
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(realigned, count / 2);
}

/// Of an odd product the best schedules realign, one operand or both, and what threads hold is as much as those count
/// on.
TEST(RealignedKernel, ChosenOnesDoNotSpill) {
  const ContractionProblem problem = problem_of({"", {1, 2047, 2049, 2051}, f16, plain, turned, f16});
  for (const char* target : {"a100", "l4", "h100"}) {
    const DeviceSpec device = *find_device(target);
    const auto predict = [&](const ContractionSchedule& s) {
      return costmodel::contraction_time(problem, s, device).total;
    };
    const auto ranked = search::best_contractions(problem, device, predict);
    ASSERT_TRUE(ranked) << ranked.error().message;
    EXPECT_TRUE(kernel::holds_realigned(ranked->best.front().schedule)) << to_string(ranked->best.front().schedule);
    const auto both = std::ranges::find_if(ranked->best, [](const search::RankedContraction& each) {
      return each.schedule.left_realigned && each.schedule.right_realigned;
    });
    ASSERT_NE(both, ranked->best.end());
    for (const ContractionSchedule& s : {ranked->best.front().schedule, both->schedule}) {
      const CompiledKernel compiled = compiled_for(device.architecture(), problem, s);
      EXPECT_FALSE(compiled.resources.spills()) << to_string(s) << compiled.resources.describe();
      EXPECT_THAT(compiled.log, testing::Not(HasSubstr("serialized"))) << compiled.log;
    }
  }
}

}  // namespace
}  // namespace stitch::codegen::test
