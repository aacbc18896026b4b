// Convolutions as contractions, on the emulated device, beside the float64 reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "codegen/contraction/contraction_epilogue.h"
#include "tests/codegen/convolution_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

class ConvolutionEmulated : public testing::TestWithParam<Convolution> {};

TEST_P(ConvolutionEmulated, IsRight) {
  const ContractionProblem problem = problem_of(GetParam());
  const ContractionSchedule schedule = default_of(problem);
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(problem, schedule);
  expect_right(each, GetParam().constraints.any() ? fine_inputs_of(*each.graph) : inputs_of(*each.graph));
}

constexpr auto first = Order::features_first, last = Order::features_last;

INSTANTIATE_TEST_SUITE_P(
    Problems, ConvolutionEmulated,
    testing::Values(
        Convolution{.name = "one_by_one", .window = {1, 1}},
        Convolution{.name = "one_by_one_strided", .window = {1, 1}, .strides = {2, 2}}, Convolution{.name = "inside"},
        Convolution{.name = "padded", .padding = {1, 1}},
        Convolution{.name = "padded_in_one_dimension", .padding = {0, 1}},
        Convolution{.name = "cropped", .padding = {-1, 0}},
        Convolution{.name = "strided", .window = {3, 5}, .strides = {2, 1}, .padding = {1, 2}},
        Convolution{.name = "window_dilated", .padding = {2, 1}, .kernel_dilation = {2, 1}},
        Convolution{
            .name = "gradient_by_data", .strides = {}, .padding = {2, 2}, .input_dilation = {2, 3}, .reversed = true},
        Convolution{.name = "reversed_by_an_operator", .padding = {1, 1}, .epilogue = "flipped"},
        Convolution{.name = "features_of_three", .features = 3, .padding = {1, 1}},
        Convolution{.name = "features_that_cross_windows", .features = 4, .window = {2, 2}, .padding = {1, 1}},
        Convolution{.name = "features_first", .padding = {1, 1}, .order = first},
        Convolution{.name = "features_first_f32",
                    .strides = {2, 2},
                    .padding = {1, 1},
                    .dtype = DType::f32,
                    .order = first,
                    .epilogue = "bias"},
        Convolution{.name = "features_first_inside", .extents = {6, 8}, .window = {3, 1}, .order = first},
        Convolution{.name = "bf16x3", .padding = {1, 1}, .dtype = DType::f32, .constraints = {.bf16x3 = true}},
        Convolution{.name = "bf16x3_features_first",
                    .features = 5,
                    .strides = {2, 1},
                    .padding = {1, 1},
                    .dtype = DType::f32,
                    .order = first,
                    .epilogue = "bias",
                    .constraints = {.bf16x3 = true}},
        Convolution{.name = "groups", .features = 16, .padding = {1, 1}, .feature_groups = 2},
        Convolution{
            .name = "groups_features_first", .features = 16, .padding = {1, 1}, .order = first, .feature_groups = 4},
        Convolution{.name = "depthwise", .features = 16, .results = 16, .padding = {1, 1}, .feature_groups = 16},
        Convolution{.name = "depthwise_multiplied",
                    .features = 4,
                    .results = 8,
                    .padding = {1, 1},
                    .order = first,
                    .feature_groups = 4},
        Convolution{.name = "groups_of_images", .images = 4, .results = 6, .padding = {1, 1}, .batch_groups = 2},
        Convolution{.name = "line", .extents = {40}, .window = {5}, .strides = {2}, .padding = {2}},
        Convolution{.name = "volume", .features = 8, .extents = {3, 4, 5}, .window = {3, 2, 3}, .padding = {1, 0, 1}},
        Convolution{.name = "point", .features = 32, .extents = {}, .window = {}},
        Convolution{.name = "bias_and_relu", .padding = {1, 1}, .result = DType::f16, .epilogue = "bias"},
        Convolution{
            .name = "bias_features_first", .padding = {1, 1}, .result = DType::f16, .order = first, .epilogue = "bias"},
        Convolution{.name = "turned", .padding = {1, 1}, .epilogue = "turned"},
        Convolution{.name = "of_bytes", .features = 16, .padding = {1, 1}, .dtype = DType::s8, .result = DType::s32},
        Convolution{.name = "only_padding", .extents = {1, 1}, .window = {1, 1}, .strides = {2, 2}, .padding = {1, 1}},
        Convolution{.name = "no_features", .features = 0, .padding = {1, 1}},
        Convolution{.name = "no_images", .images = 0, .padding = {1, 1}}),
    [](const auto& each) { return each.param.name; });

class WarpgroupConvolutionsEmulated : public testing::TestWithParam<Convolution> {};

TEST_P(WarpgroupConvolutionsEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam());
  ContractionSchedule s;
  s.instruction = kernel::warpgroup_instruction_for(problem, *find_device("h100")).value();
  s.block_rows = s.block_columns = s.warp_columns = 64;
  s.warp_rows = 16;
  s.block_depth = 32;
  s.thread_rows = s.thread_columns = 0;
  fit_accesses(problem, s);
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(s));
  const KernelCase each = case_of(problem, s);
  EXPECT_THAT(each.kernel.source, testing::HasSubstr("wgmma.mma_async"));
  expect_right(each, inputs_of(*each.graph));
}

INSTANTIATE_TEST_SUITE_P(
    Problems, WarpgroupConvolutionsEmulated,
    testing::Values(
        Convolution{.name = "features_last", .features = 32, .results = 40, .padding = {1, 1}},
        Convolution{.name = "features_first", .features = 16, .padding = {1, 1}, .order = first},
        Convolution{.name = "strided_bf16",
                    .features = 24,
                    .strides = {2, 2},
                    .padding = {1, 0},
                    .high = {0, 2},
                    .dtype = DType::bf16,
                    .result = DType::bf16},
        Convolution{
            .name = "with_holes", .features = 16, .padding = {2, 2}, .input_dilation = {2, 2}, .reversed = true},
        Convolution{.name = "groups_with_bias",
                    .features = 32,
                    .results = 32,
                    .padding = {1, 1},
                    .result = DType::f16,
                    .feature_groups = 2,
                    .epilogue = "bias"}),
    [](const auto& each) { return each.param.name; });

/// A step of ten elements between holes: 16 bytes would not be aligned.
TEST(ConvolutionKernelEmulated, StepsBetweenHolesAreAlignedTo) {
  Builder b;
  ConvolutionAttributes a;
  a.input_spatial = a.kernel_spatial = a.output_spatial = {2, 3};
  a.strides = a.kernel_dilation = {1, 1};
  a.input_dilation = {2, 1};
  a.low = {1, 0};
  a.high = {1, -2};
  a.result = DType::f32;
  const Value x = b.parameter(DType::f16, {1, 8, 4, 10}), w = b.parameter(DType::f16, {16, 8, 3, 1});
  const ContractionProblem problem = derived(b.finish({b.add(Op::convolution, {x, w}, a)}));
  const KernelCase each = case_of(problem, default_of(problem));
  expect_right(each, inputs_of(*each.graph));
}

/// What a block has is the sum of the result's own place.
TEST(ConvolutionKernel, SumsOfOtherPlacesAreNoEpilogue) {
  Builder b;
  const Value x = b.parameter(DType::f32, {24, 16}), w = b.parameter(DType::f32, {16, 24});
  const Value y = b.dot(x, w, {{}, {}, {1}, {0}, DType::f32});
  const ContractionProblem problem = derived(b.finish({b.binary(Op::add, y, b.transpose(y, {1, 0}))}));
  const auto epilogue = print_epilogue(problem);
  ASSERT_FALSE(epilogue);
  EXPECT_THAT(epilogue.error().message, testing::HasSubstr("the product at several places"));
}

/// Shapes, layouts, types, attributes and schedules drawn by a seed; STITCH_CONVOLUTIONS: how many.
TEST(ConvolutionKernelEmulated, RandomProblemsAreRight) {
  constexpr DType dtypes[] = {DType::f16, DType::bf16, DType::f32, DType::s8};
  const char* const epilogues[] = {"", "bias", "flipped", "turned"};
  Random random(20261126);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const auto below = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random.below(most - least + 1));
  };
  const char* const asked = std::getenv("STITCH_CONVOLUTIONS");
  const int count = asked != nullptr ? std::atoi(asked) : 50;
  for (int i = 0; i < count; ++i) {
    Convolution c;
    const std::int64_t rank = below(1, 3), groups = random.below(3) == 0 ? below(2, 4) : 1;
    const bool by_batch = random.below(3) == 0;
    (by_batch ? c.batch_groups : c.feature_groups) = groups;
    c.images = below(1, 3) * c.batch_groups;
    constexpr int widths[] = {1, 2, 3, 4, 8, 16};
    c.features = among(widths) * c.feature_groups;
    c.results = below(1, 20) * groups;
    c.extents = c.window = c.strides = c.padding = c.input_dilation = c.kernel_dilation = {};
    for (std::int64_t s = 0; s < rank; ++s) {
      c.extents.push_back(below(1, rank == 3 ? 5 : 12));
      c.window.push_back(below(1, 4));
      c.strides.push_back(below(1, 2));
      c.kernel_dilation.push_back(random.below(3) == 0 ? 2 : 1);
      c.input_dilation.push_back(random.below(3) == 0 ? below(2, 3) : 1);
      c.padding.push_back(below(-1, 3));
      c.high.push_back(below(-1, 3));
    }
    c.dtype = among(dtypes);
    c.result = c.dtype == DType::s8 ? DType::s32 : random.below(2) == 0 ? DType::f32 : c.dtype;
    c.order = random.below(2) == 0 ? first : last;
    c.reversed = random.below(3) == 0;
    c.epilogue = among(epilogues);
    const ContractionProblem problem = problem_of(c);
    const ContractionSchedule schedule = drawn_schedule(problem, random);
    SCOPED_TRACE(fmt::format("{}: {}\n{}", i, to_string(problem), to_string(schedule)));
    const KernelCase each = case_of(problem, schedule);
    expect_right(each, inputs_of(*each.graph));
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace stitch::codegen::test
