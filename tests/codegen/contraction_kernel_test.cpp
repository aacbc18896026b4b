// Matmul-class kernels on the emulated device, beside the float64 reference.
#include "codegen/contraction/contraction_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/random.h"
#include "graph/builder.h"
#include "kernel/contraction/contraction_rules.h"
#include "tests/codegen/matmul_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionInstruction;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;

class ContractionEmulated : public testing::TestWithParam<Matmul> {};

TEST_P(ContractionEmulated, IsRight) {
  const ContractionProblem problem = problem_of(GetParam());
  const ContractionSchedule schedule = default_of(problem);
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(problem, schedule);
  expect_right(each, GetParam().constraints.any() ? fine_inputs_of(*each.graph) : inputs_of(*each.graph));
}

INSTANTIATE_TEST_SUITE_P(
    Of, ContractionEmulated,
    testing::Values(
        Matmul{"f16", {1, 64, 64, 64}}, Matmul{"f16_turned_left", {1, 64, 64, 64}, DType::f16, turned},
        Matmul{"f16_turned_right", {1, 64, 64, 64}, DType::f16, plain, turned},
        Matmul{"f16_turned", {2, 96, 64, 96}, DType::f16, turned, turned},
        Matmul{"bf16_deep", {1, 128, 128, 256}, DType::bf16},
        Matmul{"bf16_odd", {3, 37, 53, 71}, DType::bf16, plain, plain, DType::bf16},
        Matmul{"bf16_ragged", {1, 72, 40, 88}, DType::bf16, plain, turned, DType::bf16},
        Matmul{"f32", {1, 48, 80, 40}, DType::f32}, Matmul{"f32_turned", {2, 33, 17, 65}, DType::f32, turned, turned},
        Matmul{"tf32", {1, 64, 64, 64}, DType::f32, plain, turned, DType::f32, "", {.tf32 = true}},
        Matmul{"tf32_plain", {2, 37, 53, 71}, DType::f32, plain, plain, DType::f32, "bias", {.tf32 = true}},
        Matmul{"tf32_turned", {1, 72, 40, 88}, DType::f32, turned, plain, DType::f32, "", {.tf32 = true}},
        Matmul{"tf32x3", {1, 64, 64, 64}, DType::f32, plain, turned, DType::f32, "", {.tf32x3 = true}},
        Matmul{"tf32x3_plain", {2, 37, 53, 71}, DType::f32, turned, plain, DType::f32, "", {.tf32x3 = true}},
        Matmul{"bf16x3", {1, 64, 64, 64}, DType::f32, plain, turned, DType::f32, "", {.bf16x3 = true}},
        Matmul{"bf16x3_plain", {1, 48, 64, 80}, DType::f32, plain, plain, DType::f32, "", {.bf16x3 = true}},
        Matmul{"bf16x3_left_turned", {2, 37, 53, 71}, DType::f32, turned, plain, DType::f32, "bias", {.bf16x3 = true}},
        Matmul{"bf16x3_turned", {2, 53, 37, 72}, DType::f32, turned, turned, DType::f32, "", {.bf16x3 = true}},
        Matmul{"bf16x3_odd", {3, 17, 33, 65}, DType::f32, plain, turned, DType::f32, "", {.bf16x3 = true}},
        Matmul{"bf16x3_one", {1, 1, 1, 1}, DType::f32, plain, plain, DType::f32, "", {.bf16x3 = true}},
        Matmul{"bf16x3_narrow", {1, 40, 7, 3}, DType::f32, plain, plain, DType::f32, "", {.bf16x3 = true}},
        Matmul{"bf16x3_no_depth", {1, 8, 8, 0}, DType::f32, plain, plain, DType::f32, "", {.bf16x3 = true}},
        Matmul{"f64", {1, 32, 24, 20}, DType::f64, plain, plain, DType::f64},
        Matmul{"f64_turned", {2, 37, 53, 71}, DType::f64, turned, turned, DType::f64, "bias"},
        Matmul{"f64_mixed", {1, 64, 64, 64}, DType::f64, plain, turned, DType::f64},
        Matmul{"s8", {1, 64, 32, 96}, DType::s8, plain, turned, DType::s32},
        Matmul{"s8_turned", {1, 48, 32, 64}, DType::s8, turned, plain, DType::s32},
        Matmul{"u8", {1, 32, 32, 64}, DType::u8, plain, turned, DType::s32},
        Matmul{"f8", {1, 64, 32, 64}, DType::f8e4m3, plain, turned},
        Matmul{"s32", {1, 20, 12, 9}, DType::s32, plain, plain, DType::s32}, Matmul{"one", {1, 1, 1, 1}, DType::f32},
        Matmul{"row", {1, 1, 200, 64}, DType::f16}, Matmul{"column", {2, 130, 1, 48}, DType::f16},
        Matmul{"outer", {1, 40, 40, 1}, DType::f32}, Matmul{"no_depth", {1, 8, 8, 0}, DType::f32},
        Matmul{"no_rows", {1, 0, 8, 8}, DType::f16},
        Matmul{"bias", {1, 64, 64, 64}, DType::bf16, plain, plain, DType::bf16, "bias"},
        Matmul{"gelu", {2, 64, 32, 64}, DType::f16, plain, plain, DType::f32, "gelu"},
        Matmul{"residual", {1, 40, 24, 64}, DType::f16, plain, plain, DType::f16, "residual"},
        Matmul{"converted", {1, 64, 64, 32}, DType::bf16, plain, plain, DType::f32, "narrow"},
        Matmul{"result_turned", {2, 64, 48, 64}, DType::f16, plain, plain, DType::f32, "turned"}),
    [](const auto& each) { return each.param.name; });

struct Pipelined {
  int stages, fragment_stages, split;
};

class ContractionPipelinesEmulated : public testing::TestWithParam<Pipelined> {
 protected:
  ContractionPipelinesEmulated() {
    schedule.block_rows = schedule.block_columns = 64;
    schedule.block_depth = 32;
    schedule.warp_rows = schedule.warp_columns = 32;
    schedule.stages = GetParam().stages;
    schedule.fragment_stages = GetParam().fragment_stages;
    schedule.split = GetParam().split;
  }
  const ContractionProblem problem = problem_of({"", {1, 96, 64, 320}, DType::f16, Layout::plain, Layout::turned});
  ContractionSchedule schedule = default_of(problem);
};

TEST_P(ContractionPipelinesEmulated, AreRight) {
  const KernelCase each = case_of(problem, schedule);
  expect_right(each, inputs_of(*each.graph));
}

/// Without one of its waits the loop reads what is not there yet, or overwrites what others still read.
TEST_P(ContractionPipelinesEmulated, EveryWaitIsNeeded) {
  const KernelCase each = case_of(problem, schedule);
  const std::string& source = each.kernel.source;
  const std::string barrier = "__syncthreads();";
  int waits = 0;
  for (std::size_t at = source.find("wait_for_groups<"); at != std::string::npos;
       at = source.find("wait_for_groups<", at + 1)) {
    const std::size_t end = source.find('\n', at);
    if (source.find("the strips", at) < source.find('\n', end + 1)) break;  // behind the loop
    KernelCase broken = each;
    broken.kernel.source.replace(at, end - at, "");
    EXPECT_THAT(launch(broken, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty()))
        << broken.kernel.source;
    ++waits;
  }
  EXPECT_GE(waits, 1);
  KernelCase unordered = each;
  unordered.kernel.source.replace(source.rfind(barrier, source.find("cores.multiply")), barrier.size(), "");
  EXPECT_THAT(launch(unordered, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty()))
      << unordered.kernel.source;
}

INSTANTIATE_TEST_SUITE_P(Stages, ContractionPipelinesEmulated,
                         testing::Values(Pipelined{1, 1, 1}, Pipelined{2, 1, 1}, Pipelined{3, 1, 1}, Pipelined{4, 2, 1},
                                         Pipelined{2, 2, 1}, Pipelined{1, 2, 1}, Pipelined{3, 2, 3},
                                         Pipelined{2, 1, 4}),
                         [](const auto& each) {
                           return fmt::format("shared_{}_registers_{}_split_{}", each.param.stages,
                                              each.param.fragment_stages, each.param.split);
                         });

std::uint64_t conflicts_of(const Matmul& matmul, bool swizzle) {
  const ContractionProblem problem = problem_of(matmul);
  ContractionSchedule schedule = default_of(problem);
  schedule.stages = 3;
  schedule.swizzle = swizzle;
  const KernelCase each = case_of(problem, schedule);
  return run(each, inputs_of(*each.graph)).counters.shared_extra_wavefronts;
}

/// Twice as many turns of the loop have no conflict more: none is of the loop.
TEST(ContractionKernelEmulated, MainLoopsHaveNoBankConflicts) {
  for (const DType dtype : {DType::f16, DType::f32, DType::f64}) {
    for (const Layout left : {plain, turned}) {
      for (const Layout right : {plain, turned}) {
        SCOPED_TRACE(fmt::format("{} {} {}", graph::to_string(dtype), left == turned, right == turned));
        const DType result = dtype == DType::f64 ? dtype : DType::f32;
        const Matmul once = {"", {1, 64, 64, 256}, dtype, left, right, result},
                     twice = {"", {1, 64, 64, 512}, dtype, left, right, result};
        EXPECT_EQ(conflicts_of(once, true), conflicts_of(twice, true));
        if (dtype == DType::f16) {
          EXPECT_LT(conflicts_of(once, false), conflicts_of(twice, false)) << "what the exclusive-or is for";
          continue;
        }
        if (dtype == DType::f64) continue;
        for (const graph::Constraints& by : {graph::Constraints{.tf32 = true}, graph::Constraints{.bf16x3 = true}}) {
          Matmul tensor_once = once, tensor_twice = twice;
          tensor_once.constraints = tensor_twice.constraints = by;
          EXPECT_EQ(conflicts_of(tensor_once, true), conflicts_of(tensor_twice, true)) << to_string(by);
        }
      }
    }
  }
}

/// Of the sum of the products' magnitudes, the most that a product of f32 is off by on the emulated device.
double error_of(graph::Constraints constraints, const char* cores) {
  const Matmul m = {"", {1, 64, 64, 64}, DType::f32, plain, turned, DType::f32, "", constraints};
  const ContractionProblem problem = problem_of(m);
  const KernelCase each = case_of(problem, default_of(problem));
  EXPECT_THAT(each.kernel.source, testing::HasSubstr(cores));
  const std::vector<Bytes> inputs = fine_inputs_of(*each.graph);
  std::vector<graph::Tensor> arguments;
  for (const Bytes& bytes : inputs)
    arguments.push_back(graph::tensor_from_bytes({DType::f32, {1, 64, 64}}, graph::Box::whole({1, 64, 64}), bytes));
  const graph::Tensor exact = (*graph::evaluate(*each.graph, arguments, {}))[0];
  for (graph::Tensor& argument : arguments)
    std::ranges::transform(argument.floats, argument.floats.begin(), [](double x) { return std::fabs(x); });
  const graph::Tensor magnitude = (*graph::evaluate(*each.graph, arguments, {}))[0];
  const KernelOutcome outcome = run(each, inputs);
  const graph::Tensor got =
      graph::tensor_from_bytes({DType::f32, {1, 64, 64}}, graph::Box::whole({1, 64, 64}), outcome.results[0]);
  double most = 0;
  for (std::int64_t i = 0; i < got.elements(); ++i)
    most = std::max(most, std::fabs(got.at(i) - exact.at(i)) / magnitude.at(i));
  return most;
}

TEST(ContractionKernelEmulated, F64IsMultipliedByTensorCoresWhereTheyAreFaster) {
  const ContractionProblem problem = problem_of({"", {1, 64, 64, 64}, DType::f64, plain, turned, DType::f64});
  for (const char* target : {"a100", "h100"})
    EXPECT_EQ(kernel::instruction_for(problem, *find_device(target)), ContractionInstruction::mma_m16n8k4_f64);
  for (const char* target : {"l4", "rtx4090", "b200"})
    EXPECT_EQ(kernel::instruction_for(problem, *find_device(target)), ContractionInstruction::cuda_core);
  // Before sm_90 an instruction has 8 rows; the emulated device runs either.
  const KernelCase each = case_of(problem, default_of(problem));
  EXPECT_THAT(each.kernel.source, testing::HasSubstr("DoubleCores<"));
}

TEST(ContractionKernelEmulated, Tf32LosesBitsAndThreeProductsWinThemBack) {
  const double cores = error_of({}, "CudaCores<"), one = error_of({.tf32 = true}, "Tf32Cores<1,"),
               three = error_of({.tf32x3 = true}, "Tf32Cores<3,");
  EXPECT_GT(one, 0x1p-16);
  EXPECT_LT(one, 0x1p-10);
  EXPECT_LT(three, 0x1p-20);
  EXPECT_LT(three, one / 100);
  EXPECT_LT(cores, 0x1p-20);
}

/// Of two bf16 parts of an operand about 16 bits count: between one product of TF32 and three.
TEST(ContractionKernelEmulated, ThreeProductsOfBf16KeepSixteenBits) {
  const double three = error_of({.bf16x3 = true}, "Bf16x3Cores<");
  EXPECT_LT(three, 0x1p-17);
  EXPECT_GT(three, 0x1p-23) << "what no part holds is lost";
  EXPECT_GT(three, 4 * error_of({.tf32x3 = true}, "Tf32Cores<3,"));
  EXPECT_LT(three, error_of({.tf32 = true}, "Tf32Cores<1,") / 30);
}

/// Results of a product of f32 by three of bf16, and of the reference with its bounds.
struct BesideReference {
  graph::Tensor got, want;

  /// How many elements are not accepted, and of an element's bound the most that one is off by.
  [[nodiscard]] std::int64_t wrong() const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < want.elements(); ++i)
      count += graph::accepts(want.at(i), want.bound(i), got.at(i)) ? 0 : 1;
    return count;
  }
  [[nodiscard]] double most_of_bound() const {
    double most = 0;
    for (std::int64_t i = 0; i < want.elements(); ++i)
      most = std::max(most, std::fabs(got.at(i) - want.at(i)) / want.bound(i));
    return most;
  }
};

/// Of operands [1, rows, depth] and [1, columns, depth].
BesideReference beside_reference(const KernelCase& each, const std::vector<Bytes>& inputs) {
  std::vector<graph::Tensor> arguments;
  for (std::size_t p = 0; p < inputs.size(); ++p) {
    const graph::TensorType& type = each.graph->node(each.graph->parameters()[p]).type();
    arguments.push_back(graph::tensor_from_bytes(type, graph::Box::whole(type.dims), inputs[p]));
  }
  graph::EvaluateOptions options;
  options.bounds = true;
  options.error_model.flush_denormals = true;
  const graph::Tensor want = (*graph::evaluate(*each.graph, arguments, options))[0];
  return {graph::tensor_from_bytes(want.type, want.box, run(each, inputs).results[0]), want};
}

/// The bound of verification holds, is not much larger than what is lost of random operands, and is broken where one of
/// the three products is left out.
TEST(ContractionKernelEmulated, ThreeProductsOfBf16AreAllNeeded) {
  const Matmul m = {"", {1, 64, 64, 256}, DType::f32, plain, turned, DType::f32, "", {.bf16x3 = true}};
  const ContractionProblem problem = problem_of(m);
  const KernelCase each = case_of(problem, default_of(problem));
  const std::vector<Bytes> inputs = fine_inputs_of(*each.graph);
  const BesideReference right = beside_reference(each, inputs);
  EXPECT_EQ(right.wrong(), 0);
  EXPECT_GT(right.most_of_bound(), 0.01);
  const std::string alias = "using Cores = Bf16x3Cores<";
  const std::size_t at = each.kernel.source.find(alias), end = each.kernel.source.find(';', at);
  ASSERT_NE(at, std::string::npos) << each.kernel.source;
  const std::string cores = each.kernel.source.substr(at + 14, end - at - 14);
  const std::string_view products[] = {"left.rest, right.big", "left.big, right.rest", "left.big, right.big"};
  for (const std::string_view without : products) {
    std::string fewer = "struct Cores : " + cores + " {\n  __device__ __forceinline__ void multiply(";
    fewer += "const LeftPart& left, const RightPart& right) {\n";
    for (const std::string_view product : products)
      if (product != without) fewer += fmt::format("    add_products({});\n", product);
    KernelCase broken = each;
    broken.kernel.source.replace(at, end - at, fewer + "  }\n}");
    EXPECT_GT(beside_reference(broken, inputs).wrong(), 64 * 64 / 4) << without;
  }
}

/// Rows of what has fewer bits as bf16, of what is near its largest number, and of what is none.
TEST(ContractionKernelEmulated, EdgesOfTheRangeAsThreeOfBf16) {
  const Matmul m = {"", {1, 32, 16, 40}, DType::f32, plain, turned, DType::f32, "", {.bf16x3 = true}};
  const ContractionProblem problem = problem_of(m);
  const KernelCase each = case_of(problem, default_of(problem));
  const std::int64_t depth = m.shape.depth;
  Random random(23);
  const auto fraction = [&] { return (random.below(2) == 0 ? -1 : 1) * (1 + random.uniform()); };
  // Small rows meet large columns, and large ones small columns; the largest overflow with either large one.
  std::vector<double> left, right;
  const std::array<double, 8> scales = {0x1p-149, 0x1p-140, 0x1p-130, 0x1p-126, 0x1p-100, 0x1p0, 0x1p100, 0x1.fcp126};
  constexpr int overflowing = 6;
  for (std::int64_t row = 0; row < m.shape.rows; ++row)
    for (std::int64_t k = 0; k < depth; ++k) left.push_back(fraction() * scales.at(row % 8));
  for (std::int64_t i = 0; i < m.shape.columns * depth; ++i)
    right.push_back(fraction() * (i / depth % 2 == 0 ? 0x1p-20 : 0x1p100));
  const double infinity = std::numeric_limits<double>::infinity();
  left[8 * depth + 3] = infinity;
  left[9 * depth + 3] = std::numeric_limits<double>::quiet_NaN();
  left[10 * depth + 3] = std::numeric_limits<float>::max();  // as bf16 it is infinite
  const std::vector<Bytes> inputs = {bytes_of(DType::f32, left), bytes_of(DType::f32, right)};
  const BesideReference results = beside_reference(each, inputs);
  EXPECT_EQ(results.wrong(), 0);
  for (std::int64_t i = 0; i < results.got.elements(); ++i) {
    const std::int64_t row = i / m.shape.columns;
    const bool special = row >= 8 && row <= 10, overflows = i % 2 == 1 && row % 8 >= overflowing;
    if (!overflows) {
      EXPECT_EQ(std::isfinite(results.got.at(i)), !special) << i;
    }
    EXPECT_EQ(std::isfinite(results.want.bound(i)), !special && !overflows) << i;
  }
}

/// Shapes, layouts, types and schedules drawn by a seed; STITCH_CONTRACTIONS: how many.
TEST(ContractionKernelEmulated, RandomProblemsAreRight) {
  constexpr DType dtypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64, DType::s8};
  constexpr graph::Constraints of_f32[] = {{}, {.tf32 = true}, {.tf32x3 = true}, {.bf16x3 = true}};
  const char* const epilogues[] = {"", "bias", "residual", "turned"};
  Random random(20261125);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const char* const asked = std::getenv("STITCH_CONTRACTIONS");
  const int count = asked != nullptr ? std::atoi(asked) : 60;
  for (int i = 0; i < count; ++i) {
    Matmul m;
    m.shape = {1 + static_cast<std::int64_t>(random.below(3)), 1 + static_cast<std::int64_t>(random.below(140)),
               1 + static_cast<std::int64_t>(random.below(140)), 1 + static_cast<std::int64_t>(random.below(150))};
    m.dtype = among(dtypes);
    m.left = random.below(2) == 0 ? plain : turned;
    m.right = random.below(2) == 0 ? plain : turned;
    m.result = m.dtype == DType::s8    ? DType::s32
               : m.dtype == DType::f64 ? DType::f64
               : random.below(2) == 0  ? DType::f32
                                       : m.dtype;
    if (m.dtype == DType::f32) m.constraints = among(of_f32);
    m.epilogue = among(epilogues);
    if (m.dtype == DType::s8 && m.epilogue == "residual") m.epilogue = "bias";
    const ContractionProblem problem = problem_of(m);
    const ContractionSchedule schedule = drawn_schedule(problem, random);
    SCOPED_TRACE(fmt::format("{}: {}\n{}", i, to_string(problem), to_string(schedule)));
    const KernelCase each = case_of(problem, schedule);
    expect_right(each, m.constraints.any() ? fine_inputs_of(*each.graph) : inputs_of(*each.graph));
    if (testing::Test::HasFailure()) return;
  }
}

// ---- wgmma

class WarpgroupsEmulated : public testing::TestWithParam<Warpgroups> {
 protected:
  const ContractionProblem problem = problem_of(GetParam().matmul);
  const ContractionSchedule schedule = schedule_of(problem, GetParam());
};

TEST_P(WarpgroupsEmulated, AreRight) {
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(problem, schedule);
  EXPECT_THAT(each.kernel.source, testing::HasSubstr("wgmma.mma_async"));
  const bool fine = GetParam().matmul.constraints.any();
  expect_right(each, fine ? fine_inputs_of(*each.graph) : inputs_of(*each.graph));
}

constexpr auto bf16 = DType::bf16;
INSTANTIATE_TEST_SUITE_P(
    Of, WarpgroupsEmulated,
    testing::Values(
        Warpgroups{"one", {"", {1, 64, 64, 256}, DType::f16, plain, turned}, 64, 64, 64, 16, 64},
        Warpgroups{"two", {"", {1, 128, 128, 320}, bf16, plain, turned, bf16}, 128, 128, 64, 16, 128, 4},
        Warpgroups{"taller", {"", {1, 128, 64, 256}, DType::f16, plain, turned}, 128, 64, 64, 32, 64, 3},
        Warpgroups{"side_by_side", {"", {1, 64, 128, 256}, DType::f16, plain, turned}, 64, 128, 64, 16, 64, 3},
        Warpgroups{"four", {"", {2, 200, 100, 256}, DType::f16, plain, turned}, 128, 128, 32, 16, 64, 6},
        Warpgroups{"widest", {"", {1, 64, 256, 192}, DType::f16, plain, turned}, 64, 256, 64, 16, 256, 3},
        Warpgroups{"narrow", {"", {1, 64, 16, 256}, DType::f16, plain, turned}, 64, 16, 64, 16, 16, 3},
        Warpgroups{"shallow", {"", {1, 64, 64, 96}, DType::f16, plain, turned}, 64, 64, 16, 16, 64, 5},
        Warpgroups{"right_plain", {"", {1, 64, 128, 256}, DType::f16, plain, plain}, 64, 128, 64, 16, 128, 3},
        Warpgroups{"left_turned", {"", {1, 128, 64, 256}, bf16, turned, turned}, 128, 64, 64, 16, 64, 3},
        Warpgroups{"both", {"", {2, 192, 192, 192}, bf16, turned, plain, bf16}, 128, 128, 64, 32, 64, 3},
        Warpgroups{"panels_32", {"", {1, 64, 128, 160}, DType::f16, turned, plain}, 64, 128, 32, 16, 128, 4},
        Warpgroups{"odd", {"", {3, 70, 90, 211}, bf16, plain, turned, bf16}, 64, 64, 64, 16, 64, 3},
        Warpgroups{"odd_plain", {"", {2, 77, 130, 201}, bf16, plain, plain, bf16}, 64, 128, 64, 16, 64, 3},
        Warpgroups{"split", {"", {1, 64, 64, 1024}, DType::f16, plain, turned}, 64, 64, 64, 16, 64, 4, 3},
        Warpgroups{"s8", {"", {1, 64, 32, 512}, DType::s8, plain, turned, DType::s32}, 64, 32, 64, 16, 32, 4},
        Warpgroups{"u8", {"", {1, 64, 32, 512}, DType::u8, plain, turned, DType::s32}, 64, 32, 128, 16, 32, 3},
        Warpgroups{"tf32",
                   {"", {1, 64, 32, 256}, DType::f32, plain, turned, DType::f32, "", {.tf32 = true}},
                   64,
                   32,
                   32,
                   16,
                   32,
                   4},
        Warpgroups{"tf32_odd",
                   {"", {2, 70, 90, 211}, DType::f32, plain, turned, DType::f32, "bias", {.tf32 = true}},
                   64,
                   64,
                   16,
                   16,
                   64,
                   3},
        Warpgroups{"bias", {"", {1, 100, 64, 256}, bf16, plain, turned, bf16, "bias"}, 64, 64, 64, 16, 64, 3},
        Warpgroups{"residual", {"", {1, 64, 96, 256}, bf16, plain, turned, bf16, "residual"}, 64, 64, 64, 16, 64, 3},
        Warpgroups{
            "result_turned", {"", {1, 64, 96, 256}, bf16, plain, turned, bf16, "turned"}, 64, 64, 64, 16, 64, 3}),
    [](const auto& each) { return each.param.name; });

/// Without one of its waits or its barrier the loop multiplies what is not there yet, or overwrites what is still read;
/// without its fence what was stored to shared memory (copies of two bytes go through registers) is not handed to
/// wgmma. Of asynchronous copies the emulated device does not ask for that.
TEST(WarpgroupKernelEmulated, EveryWaitIsNeeded) {
  const Warpgroups one = {"", {"", {1, 128, 64, 640}, DType::f16, plain, turned}, 128, 64, 64, 16, 64, 4};
  const ContractionProblem problem = problem_of(one.matmul);
  const KernelCase each = case_of(problem, schedule_of(problem, one));
  EXPECT_THAT(launch(each, inputs_of(*each.graph)).findings, testing::IsEmpty());
  for (const char* wait :
       {"wait_for_groups<1>();", "__syncthreads();", "wait_for_products<1>();", "wait_for_products<0>();"}) {
    KernelCase broken = each;
    const std::size_t at = broken.kernel.source.find(wait);
    ASSERT_NE(at, std::string::npos) << wait;
    broken.kernel.source.replace(at, std::string_view(wait).size(), "");
    EXPECT_THAT(launch(broken, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty())) << wait;
  }
  Warpgroups odd = one;
  odd.matmul.shape.depth = 641;
  const ContractionProblem stored = problem_of(odd.matmul);
  KernelCase unfenced = case_of(stored, schedule_of(stored, odd));
  ASSERT_THAT(unfenced.kernel.source, testing::HasSubstr("true, 2, true>")) << "copies of two bytes";
  EXPECT_THAT(launch(unfenced, inputs_of(*unfenced.graph)).findings, testing::IsEmpty());
  const std::string fence = "share_with_wgmma();";
  unfenced.kernel.source.replace(unfenced.kernel.source.find(fence), fence.size(), "");
  EXPECT_THAT(launch(unfenced, inputs_of(*unfenced.graph)).findings, testing::Not(testing::IsEmpty()));
}

TEST(WarpgroupKernel, LayoutsThatItCannotReadAreAgainstTheRules) {
  const auto legality = [](const Warpgroups& w) {
    const ContractionProblem problem = problem_of(w.matmul);
    const Status legal = kernel::check_legality(problem, schedule_of(problem, w), *find_device("h100"));
    return legal ? std::string() : legal.error().message;
  };
  const Matmul matmul = {"", {1, 256, 256, 1024}, DType::f16, plain, turned};
  EXPECT_EQ(legality({"", matmul, 64, 64, 64, 16, 64}), "");
  EXPECT_THAT(legality({"", matmul, 32, 64, 64, 16, 64}), testing::HasSubstr("warpgroups: 2 warps below one another"));
  EXPECT_THAT(legality({"", matmul, 64, 64, 128, 16, 64, 3}), testing::HasSubstr("64 lines of 256 bytes"));
  EXPECT_THAT(legality({"", matmul, 64, 64, 64, 16, 64, 2}), testing::HasSubstr("2 stages"));
  EXPECT_THAT(legality({"", {"", {1, 256, 256, 1024}, DType::f16}, 64, 64, 64, 16, 32}),
              testing::HasSubstr("panels of 32 elements"));
  EXPECT_THAT(legality({"", {"", {1, 256, 256, 1024}, DType::s8, plain, plain, DType::s32}, 64, 64, 64, 16, 64}),
              testing::HasSubstr("panels of 64 elements of 1 bytes"));
  const ContractionProblem problem = problem_of(matmul);
  EXPECT_FALSE(kernel::warpgroup_instruction_for(problem, *find_device("a100")));
  EXPECT_FALSE(kernel::warpgroup_instruction_for(problem, *find_device("b200"))) << "it was there for one generation";
}

/// Operands are in no registers, and results not moved while they are added to: else ptxas serialises the products.
TEST(WarpgroupKernel, ProductsOverlap) {
  for (const Layout right : {plain, turned}) {
    const Warpgroups large = {"", {"", {1, 4096, 4096, 4096}, bf16, plain, right, bf16}, 128, 256, 64, 16, 256, 4};
    const ContractionProblem problem = problem_of(large.matmul);
    const auto compiled = compiled_for_hopper(problem, schedule_of(problem, large));
    EXPECT_FALSE(compiled.resources.spills()) << compiled.resources.describe();
    EXPECT_THAT(compiled.log, testing::Not(testing::HasSubstr("serialized"))) << compiled.log;
  }
  const Matmul tf32 = {"", {1, 4096, 4096, 4096}, DType::f32, plain, turned, DType::f32, "", {.tf32 = true}};
  const ContractionProblem problem = problem_of(tf32);
  const auto compiled = compiled_for_hopper(problem, schedule_of(problem, {"", tf32, 128, 256, 32, 16, 256, 4}));
  EXPECT_FALSE(compiled.resources.spills()) << compiled.resources.describe();
  EXPECT_THAT(compiled.log, testing::Not(testing::HasSubstr("serialized"))) << compiled.log;
}

/// What the schedule counts on: everything stays in registers.
TEST(ContractionKernelEmulated, DefaultSchedulesDoNotSpill) {
  const auto compiler = NvrtcCompiler::create();
  ASSERT_TRUE(compiler.ok());
  for (const char* target : {"a100", "l4", "h100"}) {
    for (const auto& [dtype, constraints] :
         {std::pair{DType::f16, graph::Constraints{}}, std::pair{DType::bf16, graph::Constraints{}},
          std::pair{DType::f32, graph::Constraints{}}, std::pair{DType::f32, graph::Constraints{.tf32 = true}},
          std::pair{DType::f32, graph::Constraints{.tf32x3 = true}},
          std::pair{DType::f32, graph::Constraints{.bf16x3 = true}}, std::pair{DType::f64, graph::Constraints{}},
          std::pair{DType::s8, graph::Constraints{}}}) {
      const DType result = dtype == DType::s8 ? DType::s32 : dtype;
      const ContractionProblem problem =
          problem_of({"", {1, 4096, 4096, 4096}, dtype, plain, turned, result, "", constraints});
      const DeviceSpec device = *find_device(target);
      const auto schedule = kernel::default_schedule(problem, device);
      ASSERT_TRUE(schedule.ok()) << schedule.error().message;
      SCOPED_TRACE(fmt::format("{} {}", target, to_string(*schedule)));
      const auto kernel = generate_contraction(problem, *schedule, {});
      ASSERT_TRUE(kernel.ok());
      CompileRequest request;
      request.source = kernel->source;
      request.architecture = device.architecture();
      const auto compiled = (*compiler)->compile(request);
      ASSERT_TRUE(compiled.ok()) << compiled.error().message;
      EXPECT_FALSE(compiled->resources.spills()) << compiled->resources.describe();
      EXPECT_GE(schedule->stages, 3);
    }
  }
}

}  // namespace
}  // namespace stitch::codegen::test
