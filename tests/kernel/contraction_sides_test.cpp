// Convolutions in the form of a contraction: extents, layouts, windows.
#include "kernel/contraction/contraction_sides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/contraction/contraction_problem.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::ConvolutionAttributes;
using graph::Dims;
using graph::Op;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Digit = graph::StridedView::Digit;

Result<ContractionProblem> problem_of(const Dims& input, const Dims& kernel, const ConvolutionAttributes& a) {
  Builder b;
  const Value x = b.parameter(DType::bf16, input), w = b.parameter(DType::bf16, kernel);
  return derive_contraction(finished(b, {b.add(Op::convolution, {x, w}, a)}));
}

TEST(ConvolutionSides, AreTheExampleOfTheHeader) {
  ConvolutionAttributes a = features_last();
  a.low = a.high = {1, 1};
  const auto problem = problem_of({8, 56, 56, 64}, {3, 3, 64, 128}, a);
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(to_string(*problem), "bf16 convolution 1×[25088,576]·[576,128] → f32");
  EXPECT_THAT(problem->left.free, ElementsAre(Digit{25088, 64}));
  EXPECT_THAT(problem->left.contracted, ElementsAre(Digit{3, 3584}, Digit{192, 1}));
  EXPECT_EQ(problem->left.offset, -3648);
  EXPECT_THAT(problem->left.windows, ElementsAre(WindowDimension{{56, 56, false, 1}, {192, 3, true, 1}, -1, 56, 1, 0},
                                                 WindowDimension{{1, 56, false, 1}, {64, 3, false, 1}, -1, 56, 1, 0}));
  EXPECT_THAT(problem->right.contracted, ElementsAre(Digit{576, 128}));
  EXPECT_EQ(widest_access(problem->left), 16);
  EXPECT_EQ(problem->result.rows, (ContractionDigits{{25088, 128}}));
}

TEST(ConvolutionSides, WindowsThatStayInsideAreOnlyLayout) {
  const auto inside = problem_of({2, 6, 6, 8}, {3, 3, 8, 16}, features_last());
  EXPECT_THAT(inside->left.windows, IsEmpty());
  const auto point = problem_of({2, 6, 6, 8}, {1, 1, 8, 16}, features_last());
  EXPECT_THAT(point->left.free, ElementsAre(Digit{72, 8})) << "a product of matrices";
  ConvolutionAttributes a = features_last();
  a.strides = {1, 2};
  a.low = {-1, 0};  // the first row is left out
  const auto cropped = problem_of({2, 6, 6, 8}, {3, 2, 8, 16}, a);
  EXPECT_THAT(cropped->left.windows, IsEmpty());
  EXPECT_EQ(cropped->left.offset, 48);
}

TEST(ConvolutionSides, HolesAreLookedUp) {
  ConvolutionAttributes a = features_last();
  a.input_dilation = {1, 2};
  const auto problem = problem_of({1, 4, 4, 8}, {1, 2, 8, 8}, a);
  ASSERT_EQ(problem->left.windows.size(), 1u);
  EXPECT_EQ(problem->left.windows[0], (WindowDimension{{1, 6, false, 1}, {8, 2, true, 1}, 0, 7, 2, 8}));
  EXPECT_THAT(problem->left.contracted, ElementsAre(Digit{2, 0}, Digit{8, 1}));
}

TEST(ConvolutionSides, AccessesEndWithAWindowsPosition) {
  ConvolutionAttributes a = features_last();
  a.low = a.high = {1, 1};
  EXPECT_EQ(widest_access(problem_of({2, 6, 6, 4}, {2, 2, 4, 16}, a)->left), 8)
      << "two positions side by side, one inside and one not";
  a.low = a.high = {0, 0};
  EXPECT_EQ(widest_access(problem_of({2, 6, 6, 4}, {2, 2, 4, 16}, a)->left), 8) << "aligned to four elements";
  EXPECT_EQ(widest_access(problem_of({2, 6, 6, 3}, {3, 3, 3, 16}, a)->left), 2);
}

TEST(ConvolutionSides, GroupsAreTheBatch) {
  ConvolutionAttributes a = features_last();
  a.feature_groups = 4;
  const auto features = problem_of({2, 6, 6, 32}, {3, 3, 8, 16}, a);
  EXPECT_EQ(features->batch, 4);
  EXPECT_EQ(features->columns, 4);
  EXPECT_THAT(features->left.batch, ElementsAre(Digit{4, 8}));
  EXPECT_THAT(features->right.batch, ElementsAre(Digit{4, 4}));
  EXPECT_THAT(features->result.batch, ElementsAre(Digit{4, 4}));
  EXPECT_THAT(features->result.rows, ElementsAre(Digit{32, 16}));
  a.feature_groups = 1;
  a.batch_groups = 2;
  const auto images = problem_of({4, 6, 6, 8}, {3, 3, 8, 16}, a);
  EXPECT_EQ(images->batch, 2);
  EXPECT_THAT(images->left.batch, ElementsAre(Digit{2, 576}));
  EXPECT_THAT(images->result.batch, ElementsAre(Digit{2, 8}));
}

TEST(ConvolutionSides, EqualOnesHaveOneName) {
  ConvolutionAttributes a = features_last();
  const auto hash = [&] { return contraction_hash(*problem_of({2, 6, 6, 8}, {3, 3, 8, 16}, a)); };
  const Hash128 plain = hash();
  EXPECT_EQ(hash(), plain);
  a.low = {1, 0};
  a.high = {-1, 0};
  EXPECT_NE(hash(), plain) << "as many positions, elsewhere";
}

TEST(ConvolutionSides, WhatNoStridesDescribeIsNamed) {
  Builder b;
  // Height and width are two parts each of what lies in memory, so that no step along them is even.
  const Value x = b.parameter(DType::f16, {2, 4, 3, 5, 8});
  const Value turned = b.reshape(b.transpose(x, {0, 2, 1, 3, 4}), {2, 12, 5, 8});
  const Value w = b.parameter(DType::f16, {3, 3, 8, 16});
  const auto refused = derive_contraction(finished(b, {b.add(Op::convolution, {turned, w}, features_last())}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("a spatial dimension that no strides describe"));
}

}  // namespace
}  // namespace stitch::kernel::test
