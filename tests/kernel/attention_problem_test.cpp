#include "kernel/attention/attention_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/attention_graph.h"

namespace stitch::kernel {
namespace {

using graph::DType;
using test::attention_graph;
using test::AttentionCase;
using test::Mask;
using testing::HasSubstr;

TEST(AttentionProblem, HasWhatItsGraphSays) {
  const auto problem = derive_attention(attention_graph({"", {2, 4}, 40, 24, 8, 12, DType::bf16, Mask::causal, 2}));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->batch(), 8);
  EXPECT_EQ(problem->rows(), 40);
  EXPECT_EQ(problem->keys(), 24);
  EXPECT_EQ(problem->depth(), 8);
  EXPECT_EQ(problem->width(), 12);
  EXPECT_FALSE(problem->empty_is_zero);
  EXPECT_EQ(to_string(*problem), "bf16 8×[40,8]·[24,8], softmax, ·[24,12] → bf16");
  // Two heads share their keys: their digit repeats.
  const ContractionDigits& batch = problem->scores.right.batch;
  EXPECT_EQ(std::ranges::count(batch, 0, [](const auto& digit) { return digit.stride; }), 1);
  EXPECT_EQ(problem->least_bytes(), 2 * (8 * 40 * 8 + 4 * 24 * 8 + 4 * 24 * 12 + 8 * 40 * 12));
}

/// Of few rows, heads that share keys and values are rows of one problem, which reads those once.
TEST(AttentionProblem, SharedHeadsOfFewRowsAreRows) {
  const auto problem = derive_attention(attention_graph({"", {2, 8}, 3, 24, 8, 12, DType::bf16, Mask::none, 4}));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->batch(), 4);
  EXPECT_EQ(problem->rows(), 12);
  EXPECT_EQ(problem->scores.right.batch, (ContractionDigits{{4, 24 * 8}}));
  EXPECT_EQ(problem->scores.left.free, (ContractionDigits{{12, 8}}));
  EXPECT_EQ(problem->product.result.rows, (ContractionDigits{{12, 12}}));
  // Heads that lie within rows in memory are digits of their own.
  AttentionCase inside{"", {2, 8}, 3, 24, 8, 12, DType::bf16, Mask::none, 4};
  inside.heads_inside = true;
  const auto other = derive_attention(attention_graph(inside));
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->scores.left.free, (ContractionDigits{{4, 8}, {3, 64}}));
}

TEST(AttentionProblem, SidesMayBeExchanged) {
  AttentionCase right{"", {2}, 16, 24, 8, 12};
  right.weights_right = true;
  const auto problem = derive_attention(attention_graph(right));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->rows(), 16);
  EXPECT_EQ(problem->width(), 12);
  EXPECT_EQ(problem->product.right.contracted.back().stride, 12);
}

TEST(AttentionProblem, EmptyRowsMayGiveZero) {
  const auto problem = derive_attention(attention_graph({"", {2, 2}, 8, 8, 8, 8, DType::f16, Mask::empty_rows}));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_TRUE(problem->empty_is_zero);
  EXPECT_FALSE(problem->nan_is_zero);
  const auto exported = derive_attention(attention_graph({"", {2, 2}, 8, 8, 8, 8, DType::f16, Mask::nan_rows}));
  ASSERT_TRUE(exported) << exported.error().message;
  EXPECT_TRUE(exported->nan_is_zero);
  EXPECT_NE(attention_hash(*problem), attention_hash(*exported));
}

TEST(AttentionProblem, WeightsMayBeDropped) {
  const AttentionCase plain{"", {2, 8}, 3, 24, 8, 12, DType::bf16, Mask::none, 4};
  for (const auto how : {test::Dropout::selected, test::Dropout::multiplied, test::Dropout::narrow}) {
    const auto problem = derive_attention(attention_graph(with_dropout(plain, how)));
    ASSERT_TRUE(problem) << problem.error().message;
    ASSERT_TRUE(problem->dropout);
    EXPECT_EQ(problem->dropout->rows, 12) << "of the heads that share keys";
    EXPECT_EQ(problem->dropout->result.rows, (ContractionDigits{{12, 24}}));
    EXPECT_THAT(to_string(*problem), HasSubstr("softmax, dropout, "));
    EXPECT_NE(attention_hash(*problem), attention_hash(*derive_attention(attention_graph(plain))));
  }
}

TEST(AttentionProblem, AnEqualOneHasAnEqualHash) {
  const AttentionCase a{"", {2}, 16, 24, 8, 8};
  AttentionCase other = a;
  other.mask = Mask::causal;
  EXPECT_EQ(attention_hash(*derive_attention(attention_graph(a))),
            attention_hash(*derive_attention(attention_graph(a))));
  EXPECT_NE(attention_hash(*derive_attention(attention_graph(a))),
            attention_hash(*derive_attention(attention_graph(other))));
}

std::string refusal(const graph::Graph& graph) {
  const auto problem = derive_attention(graph);
  return problem ? "" : problem.error().message;
}

TEST(AttentionProblem, WhatIsNoneIsRefusedWithAReason) {
  EXPECT_THAT(refusal(attention_graph({"", {2}, 16, 24, 8, 8, DType::f64})), HasSubstr("something else than f32"));
  EXPECT_THAT(refusal(attention_graph({"", {2}, 16, 0, 8, 8})), HasSubstr("keys"));
  graph::Builder b;
  const graph::Value x = b.parameter(DType::f32, {8, 8});
  const graph::DotAttributes dot{{}, {}, {1}, {0}, DType::f32};
  const graph::Value once = b.dot(x, x, dot);
  EXPECT_THAT(refusal(*b.finish({once})), HasSubstr("two dots, not 1"));
  graph::Builder c;
  const graph::Value y = c.parameter(DType::f32, {8, 8});
  EXPECT_THAT(refusal(*c.finish({c.dot(c.dot(y, y, dot), y, dot)})), HasSubstr("no attention"));
}
}  // namespace
}  // namespace stitch::kernel
