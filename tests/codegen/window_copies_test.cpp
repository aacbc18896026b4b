// Convolutions whose tiles come by the tensor copy engine, on the emulated device, beside the float64 reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/window_walk.h"
#include "tests/codegen/convolution_case.h"
#include "tests/codegen/matmul_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

struct Tile {
  int block_rows = 64, block_columns = 64, block_depth = 64, warp_rows = 16, stages = 3, cluster = 1, resident = 1;
};

ContractionSchedule schedule_of(const ContractionProblem& problem, const Tile& tile) {
  ContractionSchedule s;
  s.instruction = kernel::warpgroup_instruction_for(problem, *find_device("h100")).value();
  s.block_rows = tile.block_rows;
  s.block_columns = s.warp_columns = tile.block_columns;
  s.block_depth = tile.block_depth;
  s.warp_rows = tile.warp_rows;
  s.thread_rows = s.thread_columns = 0;
  s.stages = tile.stages;
  s.group = 2;
  s.tensor_copies = true;
  s.cluster = tile.cluster;
  s.resident = tile.resident;
  fit_accesses(problem, s);
  return s;
}

struct Copied {
  Convolution convolution;
  Tile tile = {};
};
void PrintTo(const Copied& each, std::ostream* out) { *out << each.convolution.name; }

class WindowCopiesEmulated : public testing::TestWithParam<Copied> {};

TEST_P(WindowCopiesEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam().convolution);
  const ContractionSchedule schedule = schedule_of(problem, GetParam().tile);
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  EXPECT_TRUE(walks_windows(problem, schedule));
  const KernelCase each = case_of(problem, schedule);
  EXPECT_THAT(each.kernel.source, testing::HasSubstr("copy_box<"));
  expect_right(each, inputs_of(*each.graph));
}

constexpr auto f16 = DType::f16, bf16 = DType::bf16;
constexpr auto first = Order::features_first;

INSTANTIATE_TEST_SUITE_P(
    Problems, WindowCopiesEmulated,
    testing::Values(
        Copied{{.name = "padded", .features = 64, .results = 64, .extents = {8, 8}, .padding = {1, 1}}},
        Copied{{.name = "stays", .images = 3, .features = 64, .results = 64, .extents = {8, 16}, .padding = {1, 1}},
               {.resident = 2}},
        Copied{{.name = "pairs", .images = 4, .features = 64, .results = 128, .extents = {8, 8}, .padding = {1, 1}},
               {.block_columns = 128, .cluster = 2, .resident = 2}},
        Copied{{.name = "odd_pairs",
                .images = 3,
                .features = 32,
                .results = 64,
                .extents = {8, 8},
                .padding = {1, 1},
                .filters_first = true},
               {.block_depth = 32, .cluster = 2, .resident = 2}},
        Copied{{.name = "pairs_that_share_a_panel",
                .images = 4,
                .features = 72,
                .results = 64,
                .extents = {8, 8},
                .padding = {1, 1}},
               {.cluster = 2, .resident = 4}},
        Copied{{.name = "filters_first",
                .features = 64,
                .results = 64,
                .extents = {8, 8},
                .padding = {1, 1},
                .filters_first = true}},
        Copied{{.name = "rows_and_images_that_are_no_whole_boxes",
                .images = 3,
                .features = 32,
                .results = 40,
                .extents = {7, 11},
                .padding = {1, 1}},
               {.block_depth = 32, .resident = 4}},
        Copied{{.name = "several_images_a_tile",
                .images = 16,
                .features = 32,
                .results = 64,
                .extents = {2, 2},
                .padding = {1, 1}},
               {.block_depth = 32}},
        Copied{{.name = "rows_of_a_tile_that_are_idle",
                .images = 2,
                .features = 32,
                .results = 64,
                .extents = {7, 7},
                .padding = {1, 1}},
               {.block_rows = 128, .block_depth = 32, .resident = 2}},
        Copied{{.name = "features_that_are_no_whole_tiles",
                .features = 72,
                .results = 64,
                .extents = {8, 8},
                .padding = {1, 1}},
               {.resident = 2}},
        Copied{{.name = "features_that_are_no_whole_tiles_filters_first",
                .features = 40,
                .results = 56,
                .extents = {8, 8},
                .padding = {1, 1},
                .filters_first = true},
               {.resident = 2}},
        Copied{{.name = "strided",
                .features = 32,
                .results = 64,
                .extents = {15, 16},
                .strides = {2, 2},
                .padding = {1, 1}},
               {.block_depth = 32, .resident = 2}},
        Copied{{.name = "strided_by_three_and_one",
                .features = 32,
                .results = 64,
                .extents = {20, 8},
                .window = {5, 3},
                .strides = {3, 1},
                .padding = {2, 1}},
               {.block_depth = 32, .resident = 2}},
        Copied{{.name = "one_by_one_strided",
                .features = 64,
                .results = 64,
                .extents = {16, 15},
                .window = {1, 1},
                .strides = {2, 2}},
               {.resident = 2}},
        Copied{{.name = "dilated",
                .features = 32,
                .results = 64,
                .extents = {8, 8},
                .padding = {2, 3},
                .kernel_dilation = {2, 3}},
               {.block_depth = 32}},
        Copied{{.name = "padded_unevenly",
                .features = 32,
                .results = 64,
                .extents = {8, 9},
                .padding = {0, 2},
                .high = {3, 1}},
               {.block_depth = 32, .resident = 3}},
        Copied{{.name = "padded_in_one_dimension", .features = 32, .results = 64, .extents = {8, 8}, .padding = {0, 1}},
               {.block_depth = 32}},
        Copied{{.name = "cropped", .features = 32, .results = 64, .extents = {9, 9}, .padding = {-1, 1}},
               {.block_depth = 32}},
        Copied{{.name = "inside", .features = 32, .results = 64, .extents = {10, 10}}, {.block_depth = 32}},
        Copied{
            {.name = "reversed", .features = 32, .results = 64, .extents = {8, 8}, .padding = {1, 1}, .reversed = true},
            {.block_depth = 32}},
        Copied{{.name = "reversed_filters_first",
                .features = 32,
                .results = 64,
                .extents = {8, 8},
                .padding = {1, 1},
                .reversed = true,
                .filters_first = true},
               {.block_depth = 32}},
        Copied{{.name = "window_as_wide_as_the_image",
                .images = 64,
                .features = 32,
                .results = 64,
                .extents = {3, 3},
                .window = {5, 5},
                .padding = {1, 1}},
               {.block_depth = 32}},
        Copied{{.name = "line",
                .features = 64,
                .results = 64,
                .extents = {70},
                .window = {5},
                .strides = {2},
                .padding = {2}},
               {.resident = 2}},
        Copied{{.name = "volume",
                .features = 32,
                .results = 64,
                .extents = {4, 4, 5},
                .window = {3, 2, 3},
                .padding = {1, 0, 1}},
               {.block_depth = 32, .resident = 2}},
        Copied{{.name = "groups",
                .features = 128,
                .results = 128,
                .extents = {8, 8},
                .padding = {1, 1},
                .feature_groups = 2},
               {.resident = 2}},
        Copied{{.name = "groups_of_odd_features",
                .features = 48,
                .results = 96,
                .extents = {8, 8},
                .padding = {1, 1},
                .feature_groups = 2},
               {.block_depth = 32, .resident = 2}},
        Copied{{.name = "bf16_with_bias",
                .features = 64,
                .results = 64,
                .extents = {8, 8},
                .padding = {1, 1},
                .dtype = bf16,
                .result = bf16,
                .epilogue = "bias"}},
        Copied{{.name = "of_bytes",
                .features = 64,
                .results = 32,
                .extents = {8, 8},
                .padding = {1, 1},
                .dtype = DType::s8,
                .result = DType::s32,
                .filters_first = true},
               {.block_columns = 32, .stages = 4}},
        Copied{{.name = "tf32",
                .features = 32,
                .results = 64,
                .extents = {8, 8},
                .padding = {1, 1},
                .dtype = DType::f32,
                .filters_first = true,
                .constraints = {.tf32 = true}},
               {.block_depth = 32}},
        Copied{
            {.name = "taller_tiles", .images = 4, .features = 64, .results = 128, .extents = {8, 8}, .padding = {1, 1}},
            {.block_rows = 256, .block_columns = 128, .warp_rows = 32}}),
    [](const auto& each) { return each.param.convolution.name; });

/// By tcgen05, whose sums are in tensor memory: 128 rows, of which a warp has 32.
ContractionSchedule in_tensor_memory(const ContractionProblem& problem, const Tile& tile) {
  ContractionSchedule s = schedule_of(problem, tile);
  s.instruction = kernel::tensor_memory_instruction_for(problem, *find_device("b200")).value();
  s.block_rows = 128;
  s.warp_rows = 32;
  fit_accesses(problem, s);
  return s;
}

class WindowCopiesInTensorMemoryEmulated : public testing::TestWithParam<Copied> {};

TEST_P(WindowCopiesInTensorMemoryEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam().convolution);
  const ContractionSchedule schedule = in_tensor_memory(problem, GetParam().tile);
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(problem, schedule, *find_device("b200"));
  EXPECT_EQ(each.architecture, "sm_100a");
  expect_right(each, inputs_of(*each.graph));
  if (schedule.cluster != 2) return;
  ContractionSchedule together = schedule;
  together.paired = true;
  SCOPED_TRACE(to_string(together));
  const KernelCase paired = case_of(problem, together, *find_device("b200"));
  expect_right(paired, inputs_of(*paired.graph));
  // The first block has idle rows of both multiplied, which the second one cleared.
  const std::string_view meets = "meet_in_pair();";
  KernelCase broken = paired;
  const std::size_t at = broken.kernel.source.find(meets);
  if (at == std::string::npos) return;
  broken.kernel.source.erase(at, meets.size());
  EXPECT_THAT(launch(broken, inputs_of(*paired.graph)).findings, testing::Not(testing::IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(
    Problems, WindowCopiesInTensorMemoryEmulated,
    testing::Values(Copied{{.name = "padded", .features = 64, .results = 64, .extents = {8, 8}, .padding = {1, 1}}},
                    Copied{{.name = "rows_of_a_tile_that_are_idle",
                            .images = 3,
                            .features = 72,
                            .results = 64,
                            .extents = {7, 7},
                            .strides = {2, 1},
                            .padding = {1, 1},
                            .filters_first = true},
                           {.resident = 2}},
                    Copied{{.name = "pairs_of_idle_rows",
                            .images = 4,
                            .features = 64,
                            .results = 128,
                            .extents = {7, 9},
                            .padding = {1, 0},
                            .dtype = bf16,
                            .result = bf16,
                            .epilogue = "bias"},
                           {.block_columns = 128, .cluster = 2, .resident = 2}},
                    Copied{{.name = "pairs_of_filters_first",
                            .images = 4,
                            .features = 72,
                            .results = 96,
                            .extents = {8, 8},
                            .padding = {1, 1},
                            .filters_first = true},
                           {.cluster = 2, .resident = 2}}),
    [](const auto& each) { return each.param.convolution.name; });

/// Of a pair of blocks.
TEST(WindowCopyKernelEmulated, EveryWaitIsNeeded) {
  const ContractionProblem problem = problem_of(Convolution{.name = "",
                                                            .images = 4,
                                                            .features = 64,
                                                            .results = 64,
                                                            .extents = {8, 8},
                                                            .padding = {1, 1},
                                                            .filters_first = true});
  expect_every_wait_is_needed(case_of(problem, schedule_of(problem, Tile{.cluster = 2, .resident = 2})));
}

/// A box that begins one place further, a window that is walked the other way, a step that is left out, a row of
/// another place: each makes other results.
TEST(WindowCopyKernelEmulated, EveryCoordinateCounts) {
  const ContractionProblem problem = problem_of(Convolution{.name = "",
                                                            .images = 1,
                                                            .features = 72,
                                                            .results = 64,
                                                            .extents = {16, 160},
                                                            .strides = {2, 2},
                                                            .padding = {1, 1},
                                                            .kernel_dilation = {1, 2},
                                                            .high = {2, 3}});
  const KernelCase each = case_of(problem, schedule_of(problem, Tile{.resident = 1}));
  const std::vector<Bytes> inputs = inputs_of(*each.graph);
  const KernelOutcome right = launch(each, inputs);
  EXPECT_THAT(right.findings, testing::IsEmpty());
  for (const auto& [from, to] :
       {std::pair{" + position1 * 2 - 1", " + position1 * 2"}, std::pair{" + position1 * 2 - 1", " + position1 - 1"},
        std::pair{" + position2 - 1", " + position1 - 1"}, std::pair{"first0 * 2", "first0"},
        std::pair{"steps[] = {1, 2, 2}", "steps[] = {1, 2, 1}"},
        std::pair{"sizes[] = {72, 160, 16", "sizes[] = {72, 162, 16"},
        std::pair{"const int row0 = first0 + own", "const int row0 = first0 + 1 + own"}}) {
    KernelCase broken = each;
    const std::size_t at = broken.kernel.source.find(from);
    ASSERT_NE(at, std::string::npos) << from << "\n" << broken.kernel.source;
    broken.kernel.source.replace(at, std::string_view(from).size(), to);
    const KernelOutcome outcome = launch(broken, inputs);
    EXPECT_TRUE(!outcome.findings.empty() || outcome.results != right.results) << from;
  }
}

/// STITCH_WINDOW_COPIES: how many.
TEST(WindowCopyKernelEmulated, RandomProblemsAreRight) {
  const char* const more = std::getenv("STITCH_WINDOW_COPIES");
  const int count = more == nullptr ? 16 : std::atoi(more);
  Random random(20261130);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const auto below = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random.below(most - least + 1));
  };
  const char* const epilogues[] = {"", "bias", "flipped"};
  int legal = 0;
  for (int i = 0; i < count; ++i) {
    Convolution c;
    const std::int64_t rank = below(1, 3);
    c.feature_groups = random.below(4) == 0 ? 2 : 1;
    c.images = below(1, 6);
    c.features = 8 * below(1, 10) * c.feature_groups;
    c.results = 8 * below(1, 12) * c.feature_groups;
    c.extents = c.window = c.strides = c.padding = c.kernel_dilation = {};
    for (std::int64_t s = 0; s < rank; ++s) {
      c.extents.push_back(below(1, rank == 3 ? 5 : rank == 2 ? 14 : 80));
      c.window.push_back(below(1, rank == 3 ? 2 : 3));
      c.strides.push_back(random.below(3) == 0 ? below(2, 3) : 1);
      c.kernel_dilation.push_back(random.below(3) == 0 ? 2 : 1);
      c.padding.push_back(below(-1, 3));
      c.high.push_back(below(-1, 3));
    }
    c.dtype = among(std::array{f16, bf16});
    c.result = random.below(2) == 0 ? DType::f32 : c.dtype;
    c.reversed = random.below(3) == 0;
    c.filters_first = random.below(2) == 0;
    c.epilogue = among(epilogues);
    Tile tile = {.block_rows = 64 * static_cast<int>(below(1, 3)),
                 .block_columns = 64 * static_cast<int>(below(1, 2)),
                 .block_depth = among(std::array{32, 64}),
                 .stages = static_cast<int>(below(3, 4)),
                 .resident = 2 * static_cast<int>(below(1, 3))};
    const ContractionProblem problem = problem_of(c);
    if (c.filters_first || tile.block_columns == 128) tile.cluster = static_cast<int>(below(1, 2));
    ContractionSchedule schedule = schedule_of(problem, tile);
    if (shape_of(problem, schedule).row_tiles < 3) schedule.cluster = 1;
    const Status allowed = kernel::check_legality(problem, schedule, *find_device("h100"));
    SCOPED_TRACE(fmt::format("number {}: {}\n{}", i, to_string(problem), to_string(schedule)));
    if (!allowed) {
      if (more != nullptr) fmt::print("{}: {}\n", to_string(problem), allowed.error().message);
      continue;
    }
    ++legal;
    const KernelCase made = case_of(problem, schedule);
    expect_right(made, inputs_of(*made.graph));
    if (testing::Test::HasFailure()) return;
  }
  if (more != nullptr) fmt::print("{} of {} were legal\n", legal, count);
  EXPECT_GE(2 * legal, count);
}

/// Nothing of the loop stays behind: no spills, products that ptxas lets overlap.
TEST(WindowCopyKernel, ProductsOverlap) {
  const ContractionProblem problem = problem_of(Convolution{.name = "",
                                                            .images = 64,
                                                            .features = 512,
                                                            .results = 512,
                                                            .extents = {14, 14},
                                                            .padding = {1, 1},
                                                            .result = f16});
  ContractionSchedule schedule = schedule_of(problem, Tile{128, 256, 64, 16, 4, 2, 132});
  const auto compiled = compiled_for_hopper(problem, schedule);
  EXPECT_FALSE(compiled.resources.spills()) << compiled.resources.describe();
  EXPECT_THAT(compiled.log, testing::Not(testing::HasSubstr("serialized"))) << compiled.log;
}

TEST(WindowCopyRules, SayWhatIsInTheWay) {
  const auto legality = [](const Convolution& c, const Tile& tile = {}) {
    const ContractionProblem problem = problem_of(c);
    const Status legal = kernel::check_legality(problem, schedule_of(problem, tile), *find_device("h100"));
    return legal ? std::string() : legal.error().message;
  };
  Convolution c{.name = "", .features = 64, .results = 64, .extents = {8, 8}, .padding = {1, 1}};
  EXPECT_EQ(legality(c), "");
  EXPECT_THAT(legality(c, {.cluster = 4, .resident = 4}), testing::HasSubstr("clusters of 4 of 2 tiles"));
  c.features = 36;
  EXPECT_THAT(legality(c), testing::HasSubstr("left: a stride of 72 bytes"));
  c.features = 64;
  c.results = 36;
  EXPECT_THAT(legality(c), testing::HasSubstr("right: a stride of 72 bytes"));
  c.results = 64;
  c.input_dilation = {2, 2};
  EXPECT_THAT(legality(c), testing::HasSubstr("windows with holes"));
  c.input_dilation = {};
  c.extents = {20, 8};
  c.strides = {9, 1};
  EXPECT_THAT(legality(c), testing::HasSubstr("left: steps of 9 elements"));
  c = {.name = "", .images = 1, .features = 64, .results = 64, .extents = {64}, .window = {3}, .padding = {1}};
  EXPECT_EQ(legality(c), "");
  c.epilogue = "turned";
  EXPECT_THAT(legality(c), testing::HasSubstr("boxes of rows that are combined, or stored together"));
}

}  // namespace
}  // namespace stitch::codegen::test
