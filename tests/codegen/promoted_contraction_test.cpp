// Products of f8 by wgmma, whose sums are added to others in f32, on the emulated device, which keeps as few bits of
// them as Hopper does, beside the float64 reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "kernel/contraction/scaled_contraction.h"
#include "tests/codegen/matmul_case.h"
#include "tests/kernel/scaled_graphs.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionInstruction;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::test::ScaledMatmul;
using testing::HasSubstr;

constexpr auto e4m3 = DType::f8e4m3, e5m2 = DType::f8e5m2, bf16 = DType::bf16, f32 = DType::f32;

/// Elements over most of their range; of one sign where `positive`, so that sums grow with every product.
std::vector<Bytes> wide_inputs_of(const graph::Graph& graph, bool positive = false) {
  Random random(17);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : graph.parameters()) {
    const graph::TensorType& type = graph.node(id).type();
    std::vector<double> values(type.elements());
    for (double& value : values) {
      const double sign = positive || random.below(2) == 0 ? 1 : -1;
      value = sign * (1 + random.uniform()) * std::exp2(static_cast<double>(random.below(8)) - 4);
    }
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

/// A tile of wgmma, by the copy engine where blocks stay.
struct Tile {
  int rows = 64, columns = 64, warp_rows = 16, warp_columns = 64, stages = 4, split = 1, cluster = 1, resident = 0;
};
ContractionSchedule schedule_of(const ContractionProblem& problem, const Tile& tile) {
  ContractionSchedule s;
  s.instruction = kernel::warpgroup_instruction_for(problem, *find_device("h100")).value();
  s.block_rows = tile.rows;
  s.block_columns = tile.columns;
  s.block_depth = kernel::promoted_depth;
  s.warp_rows = tile.warp_rows;
  s.warp_columns = tile.warp_columns;
  s.thread_rows = s.thread_columns = 0;
  s.stages = tile.stages;
  s.split = tile.split;
  s.group = 2;
  s.tensor_copies = tile.resident > 0;
  s.cluster = tile.cluster;
  s.resident = tile.resident;
  fit_accesses(problem, s);
  return s;
}

/// How many results are beyond the bounds of a reference that grants sums of few bits in parts of so many products.
int wrong_results(const KernelCase& each, const std::vector<Bytes>& inputs, std::int64_t narrow_part) {
  std::vector<graph::Tensor> arguments;
  for (std::size_t p = 0; p < inputs.size(); ++p) {
    const graph::TensorType& type = each.graph->node(each.graph->parameters()[p]).type();
    arguments.push_back(graph::tensor_from_bytes(type, graph::Box::whole(type.dims), inputs[p]));
  }
  graph::EvaluateOptions options;
  options.bounds = true;
  options.error_model.narrow_part = narrow_part;
  const auto reference = graph::evaluate(*each.graph, arguments, options);
  if (!reference) throw std::runtime_error(reference.error().message);
  const KernelOutcome outcome = run(each, inputs);
  const graph::Tensor& want = reference->front();
  const graph::Tensor got = graph::tensor_from_bytes(want.type, want.box, outcome.results[0]);
  int wrong = 0;
  for (std::int64_t i = 0; i < want.elements(); ++i)
    wrong += graph::accepts(want.at(i), want.bound(i), got.at(i)) ? 0 : 1;
  return wrong;
}

struct Plain {
  Matmul matmul;
  Tile tile;
};
void PrintTo(const Plain& each, std::ostream* out) { *out << each.matmul.name; }
class PromotedEmulated : public testing::TestWithParam<Plain> {};

TEST_P(PromotedEmulated, AreRight) {
  const auto& [matmul, tile] = GetParam();
  const ContractionProblem problem = problem_of(matmul);
  const ContractionSchedule schedule = schedule_of(problem, tile);
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(problem, schedule);
  EXPECT_THAT(each.kernel.source, HasSubstr("cores.add_sums();"));
  EXPECT_THAT(each.kernel.source, HasSubstr(tile.resident > 0 ? "copy_box<" : "copy_tile"));
  expect_right(each, wide_inputs_of(*each.graph));
  expect_right(each, wide_inputs_of(*each.graph, true));
}

INSTANTIATE_TEST_SUITE_P(
    Of, PromotedEmulated,
    testing::Values(Plain{{"one", {1, 64, 64, 512}, e4m3, plain, turned}, {}},  //
                    Plain{{"wide", {1, 64, 64, 640}, e5m2, plain, turned}, {}},
                    Plain{{"odd", {2, 70, 45, 400}, e4m3, plain, turned, bf16, "bias"}, {.stages = 3}},
                    Plain{{"unaligned", {1, 33, 70, 403}, e4m3, plain, turned}, {.stages = 3}},
                    Plain{{"split", {1, 64, 64, 1000}, e4m3, plain, turned}, {.stages = 3, .split = 2}},
                    Plain{{"two_groups", {1, 128, 128, 384}, e4m3, plain, turned, bf16}, {128, 128, 16, 128, 3}},
                    Plain{{"rows_32", {1, 128, 64, 384}, e4m3, plain, turned, f32, "residual"}, {128, 64, 32, 64, 3}},
                    Plain{{"copied", {1, 64, 64, 512}, e4m3, plain, turned}, {.stages = 3, .resident = 1}},
                    Plain{{"copied_wide", {1, 64, 64, 512}, e5m2, plain, turned}, {.stages = 3, .resident = 1}},
                    Plain{{"copied_stays", {1, 192, 96, 400}, e4m3, plain, turned, bf16}, {64, 48, 16, 48, 3, 1, 1, 2}},
                    Plain{{"copied_pair", {1, 256, 64, 640}, e4m3, plain, turned, bf16, "bias"},
                          {64, 64, 16, 64, 3, 1, 2, 2}},
                    Plain{{"copied_pairs", {2, 200, 160, 272}, e4m3, plain, turned}, {128, 144, 16, 144, 4, 1, 2, 4}}),
    [](const auto& each) { return each.param.matmul.name; });

struct Scaled {
  ScaledMatmul matmul;
  Tile tile;
};
void PrintTo(const Scaled& each, std::ostream* out) { *out << each.matmul.name; }
class PromotedAndScaledEmulated : public testing::TestWithParam<Scaled> {};

TEST_P(PromotedAndScaledEmulated, AreRight) {
  const auto& [matmul, tile] = GetParam();
  auto problem = kernel::derive_scaled(kernel::test::graph_of(matmul));
  ASSERT_TRUE(problem) << problem.error().message;
  const ContractionSchedule schedule = schedule_of(*problem, tile);
  SCOPED_TRACE(to_string(*problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(*problem, schedule);
  EXPECT_THAT(each.kernel.source, HasSubstr("cores.add_scaled();"));
  expect_right(each, wide_inputs_of(*each.graph));
  expect_right(each, wide_inputs_of(*each.graph, true));
}

INSTANTIATE_TEST_SUITE_P(
    Of, PromotedAndScaledEmulated,
    testing::Values(Scaled{{"blocks", 1, 70, 96, 512}, {}},  //
                    Scaled{{"by_parts", 1, 64, 128, 512, e4m3, e4m3, true}, {}},
                    Scaled{{"mixed", 1, 48, 64, 400, e4m3, e5m2}, {.stages = 3}},
                    Scaled{{"of_columns", 1, 64, 72, 384, e4m3, e4m3, false, 128, 1}, {.stages = 3}},
                    Scaled{{"of_256", 1, 64, 64, 1024, e4m3, e4m3, false, 256, 128}, {}},
                    Scaled{{"split", 1, 64, 64, 1100}, {.stages = 3, .split = 4}},
                    Scaled{{"copied", 1, 70, 96, 512}, {.stages = 3, .resident = 2}},
                    Scaled{{"copied_by_parts", 1, 64, 128, 512, e4m3, e4m3, true}, {.stages = 3, .resident = 2}},
                    Scaled{{"copied_pair", 1, 256, 128, 640, e4m3, e4m3, false, 128, 128, f32, false, bf16, "bias"},
                           {128, 128, 16, 128, 3, 1, 2, 2}},
                    Scaled{{"copied_of_256", 1, 64, 64, 1024, e4m3, e5m2, false, 256, 1},
                           {.stages = 3, .resident = 1}}),
    [](const auto& each) { return each.param.matmul.name; });

/// By both copies, with and without scales, splits, shared turns and clusters (STITCH_PROMOTED=200 for more).
TEST(PromotionEmulated, RandomProblemsAreRight) {
  const char* const more = std::getenv("STITCH_PROMOTED");
  const int count = more == nullptr ? 8 : std::stoi(more);
  Random random(29);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  constexpr int rows[] = {64, 128}, columns[] = {16, 32, 48, 64, 128}, stages[] = {3, 4}, halves[] = {1, 2},
                splits[] = {1, 1, 2, 3}, streams[] = {0, 0, 2, 5};
  constexpr DType types[] = {e4m3, e4m3, e5m2};
  int legal = 0;
  for (int i = 0; legal < count && i < 12 * count; ++i) {  // most tiles that are drawn are not legal
    const std::int64_t unit = among(halves) == 1 ? 16 : 1;
    const auto extent = [&](int most) { return unit * static_cast<std::int64_t>(1 + random.below(most / unit)); };
    const Shape shape = {1 + static_cast<std::int64_t>(random.below(2)), extent(160), extent(150), 128 + extent(700)};
    const std::string epilogue = among(std::array<std::string, 4>{"", "bias", "residual", "turned"});
    const DType left = among(types), right = among(types), result = among(std::array{f32, bf16});
    const bool scaled = random.below(2) == 0;
    ContractionProblem problem = problem_of({"", shape, left, plain, turned, result, epilogue});
    if (scaled) {
      auto found = kernel::derive_scaled(kernel::test::graph_of(
          {"", shape.batch, shape.rows, shape.columns, shape.depth, left, right, false, 128 * among(halves),
           among(std::array{1, 128}), f32, false, result, epilogue == "bias" ? "bias" : ""}));
      if (!found) continue;  // one part of the depth
      problem = *std::move(found);
    }
    Tile tile;
    tile.rows = among(rows);
    tile.columns = among(columns);
    tile.warp_rows = tile.rows == 128 ? 16 * among(halves) : 16;
    tile.warp_columns = tile.columns >= 32 ? tile.columns / among(halves) : tile.columns;
    tile.stages = among(stages);
    if (random.below(2) == 0) {
      tile.cluster = among(halves);
      tile.resident = 2 * (1 + static_cast<int>(random.below(3)));
    } else {
      tile.split = among(splits);
    }
    ContractionSchedule schedule = schedule_of(problem, tile);
    if (tile.split == 1 && tile.resident == 0 && !scaled) schedule.streamed = among(streams);
    SCOPED_TRACE(fmt::format("number {}: {}\n{}", i, to_string(problem), to_string(schedule)));
    if (!kernel::check_legality(problem, schedule, *find_device("h100"))) continue;
    ++legal;
    const KernelCase made = case_of(problem, schedule);
    expect_right(made, wide_inputs_of(*made.graph, random.below(2) == 0));
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(legal, count);
}

/// 8,192 products of one sign on sums of 14 bits are far off, those of 64 parts are not. Nor would f32's bounds do.
TEST(PromotionEmulated, IsNeededAndGranted) {
  const ContractionProblem problem = problem_of({"", {1, 64, 16, 8192}, e4m3, plain, turned});
  for (const int resident : {0, 1}) {
    const KernelCase each =
        case_of(problem, schedule_of(problem, {.columns = 16, .warp_columns = 16, .stages = 3, .resident = resident}));
    const std::vector<Bytes> inputs = wide_inputs_of(*each.graph, true);
    EXPECT_EQ(wrong_results(each, inputs, kernel::promoted_depth), 0);
    EXPECT_GT(wrong_results(each, inputs, 0), 0) << "sums in f32";
    KernelCase alone = each;
    std::string& source = alone.kernel.source;
    const auto replace = [&](const std::string& from, const std::string& to) {
      ASSERT_NE(source.find(from), std::string::npos) << from;
      source.replace(source.find(from), from.size(), to);
    };
    replace("using Cores = PromotedCores<", "template <class Cores> using Alone = Cores;\nusing Cores = Alone<");
    replace(", true>>", ", false>>");
    replace("cores.add_sums();", "");
    EXPECT_EQ(wrong_results(alone, inputs, kernel::promoted_depth), 64 * 16);
  }
}

/// By both copies: what is not waited for is found.
TEST(PromotionEmulated, EveryWaitIsNeeded) {
  const ContractionProblem problem = problem_of({"", {1, 256, 64, 640}, e4m3, plain, turned});
  for (const bool copied : {false, true}) {
    const Tile tile = copied ? Tile{.stages = 3, .cluster = 2, .resident = 2} : Tile{.stages = 3};
    const KernelCase each = case_of(problem, schedule_of(problem, tile));
    const std::vector<Bytes> inputs = inputs_of(*each.graph);
    EXPECT_THAT(launch(each, inputs).findings, testing::IsEmpty());
    const std::vector<std::string> waits =
        copied ? std::vector<std::string>{"stages.wait_for(at);", "wait_for_products<0>();", "stages.begin();",
                                          "stages.end();"}
               : std::vector<std::string>{"wait_for_groups<0>();", "__syncthreads();", "wait_for_products<0>();"};
    for (const std::string& wait : waits) {
      KernelCase broken = each;
      const std::size_t at = broken.kernel.source.find(wait);
      ASSERT_NE(at, std::string::npos) << wait;
      broken.kernel.source.replace(at, wait.size(), "");
      EXPECT_THAT(launch(broken, inputs).findings, testing::Not(testing::IsEmpty())) << wait;
    }
  }
}

/// Two sums of each result fit, and ptxas lets products overlap with all that is not theirs.
TEST(PromotedKernel, IsNotSerializedAndDoesNotSpill) {
  const ContractionProblem plain_problem = problem_of({"", {1, 4096, 4096, 4096}, e4m3, plain, turned, bf16});
  const auto scaled = kernel::derive_scaled(
      kernel::test::graph_of({"", 1, 4096, 4096, 4096, e4m3, e4m3, false, 128, 128, f32, false, bf16}));
  ASSERT_TRUE(scaled);
  for (const ContractionProblem& problem : {plain_problem, *scaled}) {
    for (const Tile& tile :
         {Tile{128, 128, 16, 128, 4}, Tile{128, 128, 16, 128, 5, 1, 2, 132}, Tile{128, 144, 16, 144, 5, 1, 2, 132}}) {
      if (problem.scales && tile.columns != 128) continue;  // which have the same factor
      const ContractionSchedule schedule = schedule_of(problem, tile);
      SCOPED_TRACE(to_string(schedule));
      ASSERT_TRUE(kernel::check_legality(problem, schedule, *find_device("h100")));
      const auto compiled = compiled_for_hopper(problem, schedule);
      EXPECT_FALSE(compiled.resources.spills()) << compiled.resources.describe();
      EXPECT_THAT(compiled.log, testing::Not(HasSubstr("serialized"))) << compiled.log;
    }
  }
}

TEST(PromotedRules, SayWhatIsInTheWay) {
  const DeviceSpec h100 = *find_device("h100");
  const auto legality = [&](const ContractionProblem& problem, const ContractionSchedule& schedule) {
    const Status legal = kernel::check_legality(problem, schedule, h100);
    return legal ? std::string() : legal.error().message;
  };
  Matmul matmul = {"", {1, 256, 256, 1024}, e4m3, plain, turned};
  const ContractionProblem problem = problem_of(matmul);
  EXPECT_EQ(kernel::warpgroup_instruction_for(problem, h100), ContractionInstruction::wgmma_m64k32_f8);
  EXPECT_FALSE(kernel::warpgroup_instruction_for(problem, *find_device("l4")));
  ContractionSchedule schedule = schedule_of(problem, {});
  EXPECT_EQ(legality(problem, schedule), "");
  schedule.block_depth = 64;
  EXPECT_THAT(legality(problem, schedule), HasSubstr("promoted: sums of 64 of depth"));
  schedule.block_depth = 128;
  schedule.block_rows = 128;
  schedule.block_columns = schedule.warp_columns = 256;
  EXPECT_THAT(legality(problem, schedule), HasSubstr("registers: about 29"));  // 256 of sums
  schedule = schedule_of(problem, {});
  matmul.right = plain;  // depth is not contiguous
  const ContractionProblem other = problem_of(matmul);
  fit_accesses(other, schedule);
  EXPECT_THAT(legality(other, schedule), HasSubstr("warpgroups: panels of 64 elements of 1 bytes"));
  // Whoever asks for f32's sums has them.
  matmul.right = turned;
  for (const graph::Constraints& asked : {graph::Constraints{.batch_invariant = true}, {.eager_precision = true}}) {
    matmul.constraints = asked;
    const ContractionProblem exact = problem_of(matmul);
    EXPECT_FALSE(kernel::warpgroup_instruction_for(exact, h100));
    EXPECT_EQ(kernel::instruction_for(exact, h100), ContractionInstruction::mma_m16n8k32_f8);
    EXPECT_THAT(legality(exact, schedule_of(problem, {})), HasSubstr("promoted: sums of fewer bits than f32"));
  }
}

}  // namespace
}  // namespace stitch::codegen::test
