#include "kernel/attention/row_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "graph/calls/attention.h"
#include "graph/subgraph.h"
#include "kernel/attention/attention_problem.h"
#include "tests/kernel/attention_graph.h"

namespace stitch::kernel {
namespace {

using graph::DType;
using graph::ReduceKind;
using test::attention_graph;
using test::AttentionCase;
using test::Mask;
using test::with_statistics;
using testing::HasSubstr;

/// What a backward pass needs of the softmax are results of their own.
TEST(RowStatistics, AreResultsBesideTheProduct) {
  const AttentionCase plain{"", {2, 4}, 40, 24, 8, 12, DType::bf16, Mask::causal};
  const auto problem = derive_attention(attention_graph(with_statistics(plain, {ReduceKind::sum, ReduceKind::max})));
  ASSERT_TRUE(problem) << problem.error().message;
  const ContractionDigits batch = {{8, 40}}, rows = {{40, 1}};
  EXPECT_THAT(problem->statistics, testing::ElementsAre(RowStatistic{1, ReduceKind::sum, batch, rows},
                                                        RowStatistic{2, ReduceKind::max, batch, rows}));
  EXPECT_EQ(to_string(*problem), "bf16 8×[40,8]·[24,8], softmax, ·[24,12] → bf16, with row statistics");
  EXPECT_EQ(problem->least_bytes(), 2 * (8 * 40 * 8 + 8 * 24 * 8 + 8 * 24 * 12 + 8 * 40 * 12) + 2 * 4 * 8 * 40);
  AttentionCase kept = with_statistics(plain, {ReduceKind::max});
  kept.statistics_kept = true;
  EXPECT_THAT(derive_attention(attention_graph(kept))->statistics,
              testing::ElementsAre(RowStatistic{1, ReduceKind::max, batch, rows}));
  std::set<std::string> hashes;
  for (const auto& statistics : std::vector<std::vector<ReduceKind>>{{},
                                                                     {ReduceKind::max},
                                                                     {ReduceKind::sum},
                                                                     {ReduceKind::max, ReduceKind::sum},
                                                                     {ReduceKind::sum, ReduceKind::max}})
    hashes.insert(attention_hash(*derive_attention(attention_graph(with_statistics(plain, statistics)))).hex());
  EXPECT_EQ(hashes.size(), 5U);
}

/// They lie by the graph's rows and heads, whatever the kernel calls a row.
TEST(RowStatistics, OfSharedHeadsMoveWithThem) {
  AttentionCase shared =
      with_statistics({"", {2, 8}, 3, 24, 8, 12, DType::bf16, Mask::none, 4}, {ReduceKind::max, ReduceKind::sum});
  shared.heads_inside = true;
  const auto problem = derive_attention(attention_graph(shared));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->rows(), 12);
  EXPECT_EQ(problem->product.result.rows, (ContractionDigits{{4, 12}, {3, 96}}));
  for (const RowStatistic& each : problem->statistics) {
    EXPECT_EQ(each.batch, (ContractionDigits{{4, 12}}));
    EXPECT_EQ(each.rows, (ContractionDigits{{12, 1}}));
  }
}

TEST(RowStatistics, MayBeTransposed) {
  graph::Builder b;
  const graph::Value x = b.parameter(DType::f32, {2, 3, 16, 8});
  const graph::DotAttributes dot{{0, 1}, {0, 1}, {3}, {3}, DType::f32};
  const graph::Value scores = b.dot(x, x, dot);
  const graph::Value greatest = b.reduce(ReduceKind::max, scores, {3});
  const graph::Dims dims = {2, 3, 16, 16};
  const graph::Value e =
      b.unary(graph::Op::exp, b.binary(graph::Op::subtract, scores, b.broadcast(greatest, dims, {0, 1, 2})));
  const graph::Value sum = b.reduce(ReduceKind::sum, e, {3});
  const graph::Value weights = b.binary(graph::Op::divide, e, b.broadcast(sum, dims, {0, 1, 2}));
  const graph::Value seen = b.dot(weights, x, {{0, 1}, {0, 1}, {3}, {2}, DType::f32});
  const auto problem = derive_attention(*b.finish({seen, b.transpose(sum, {0, 2, 1})}));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_THAT(problem->statistics,
              testing::ElementsAre(RowStatistic{1, ReduceKind::sum, {{2, 48}, {3, 1}}, {{16, 3}}}));
}

std::string refused(const graph::Graph& graph) {
  const auto problem = derive_attention(graph);
  return problem ? "" : problem.error().message;
}

TEST(RowStatistics, OtherResultsAreRefusedWithAReason) {
  const auto with_maxima = [](AttentionCase attention) {
    return attention_graph(with_statistics(std::move(attention), {ReduceKind::sum, ReduceKind::max}));
  };
  EXPECT_THAT(refused(with_maxima({"", {2, 2}, 8, 8, 8, 8, DType::f16, Mask::empty_rows})),
              HasSubstr("guards rows of -inf"));
  EXPECT_THAT(refused(with_maxima({"", {2, 2}, 8, 8, 8, 8, DType::f16, Mask::nan_rows})),
              HasSubstr("guards rows of -inf"));
  AttentionCase narrow{"", {2}, 8, 8, 8, 8, DType::bf16};
  narrow.narrow_logits = true;
  EXPECT_THAT(refused(with_maxima(narrow)), HasSubstr("result 1: row statistics in bf16"));
  graph::Graph attention = attention_graph({"", {2}, 16, 24, 8, 8});
  const auto with_results = [&](const std::vector<graph::Value>& results) {
    std::vector<graph::Value> parameters;
    for (const graph::NodeId id : attention.parameters()) parameters.push_back({id, 0});
    return *graph::subgraph(attention, parameters, results);
  };
  const graph::Value result = attention.results()[0];
  const auto found = *graph::match_attention(attention, result.node);
  const graph::Value maximum = {found.softmax.sum.maximum, 0};
  EXPECT_EQ(refused(with_results({result, maximum})), "");
  EXPECT_EQ(refused(with_results({maximum, result})), "") << "canonical forms have an order of their own";
  EXPECT_THAT(refused(with_results({result, result})), HasSubstr("result 1 of an attention is neither"));
  EXPECT_THAT(refused(with_results({result, maximum, found.weights})),
              HasSubstr("result 2 of an attention is neither the maximum nor the sum"));
}

}  // namespace
}  // namespace stitch::kernel
