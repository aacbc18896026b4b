// Fragments that are one attention, and programs that have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/verify/verify_attention.h"
#include "tests/kernel/attention_graph.h"
#include "tests/kernel/example_graphs.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/contractions/attention_choice.h"
#include "tuning/contractions/contraction_choice.h"
#include "tuning/contractions/product_kernels.h"
#include "tuning/programs/program_builder.h"

namespace stitch::tuning {
namespace {

using graph::DType;
using kernel::test::attention_graph;
using kernel::test::AttentionCase;
using kernel::test::Mask;
using kernel::test::with_statistics;
using testing::HasSubstr;
using testing::StartsWith;

TEST(AttentionPlanEmulated, AnAttentionIsTunedLikeAnyFragment) {
  for (const AttentionCase& attention : {AttentionCase{"", {2, 2}, 96, 160, 64, 64, DType::bf16, Mask::causal, 2},
                                         AttentionCase{"", {2, 2}, 40, 56, 32, 32, DType::f32, Mask::bias}}) {
    const graph::Graph fragment = canonical(attention_graph(attention));
    const auto tuned = shared_tuner(shared_device()).tune({.fragment = fragment, .name = "layer"});
    ASSERT_TRUE(tuned) << tuned.error().message;
    ASSERT_EQ(tuned->plan.launches.size(), 1U);
    EXPECT_THAT(tuned->plan.launches[0].description, StartsWith("attention"));
    EXPECT_EQ(tuned->plan.verified_share, 1.0);
    EXPECT_GT(tuned->plan.predicted_us, 1);
    ASSERT_EQ(tuned->kernels.size(), 1U);
    EXPECT_TRUE(tuned->kernels[0].verification->correct);
    EXPECT_GT(tuned->kernels[0].verification->worst, 0) << "the reference says something";
  }
}

/// For a backward pass: three results of one launch.
TEST(AttentionPlanEmulated, RowStatisticsAreResultsOfTheSameLaunch) {
  const auto all = {graph::ReduceKind::sum, graph::ReduceKind::max};
  for (const AttentionCase& attention : {AttentionCase{"", {2, 4}, 96, 160, 64, 64, DType::bf16, Mask::causal, 2},
                                         AttentionCase{"", {2, 2}, 40, 56, 32, 32, DType::f32, Mask::bias}}) {
    const graph::Graph fragment = canonical(attention_graph(with_statistics(attention, all)));
    ASSERT_EQ(fragment.results().size(), 3U);
    const auto tuned = shared_tuner(shared_device()).tune({.fragment = fragment, .name = "layer"});
    ASSERT_TRUE(tuned) << tuned.error().message;
    ASSERT_EQ(tuned->plan.launches.size(), 1U);
    EXPECT_THAT(tuned->plan.launches[0].description, HasSubstr(", with row statistics ("));
    EXPECT_EQ(tuned->plan.verified_share, 1.0);
    ASSERT_EQ(tuned->kernels.size(), 1U);
    EXPECT_TRUE(tuned->kernels[0].verification->correct);
  }
}

/// A step of decoding: the caches with what is new are results of the launch that reads them.
TEST(AttentionPlanEmulated, UpdatedKeysAndValuesAreResultsOfTheSameLaunch) {
  for (const std::int64_t batch : {2, 64}) {
    const AttentionCase step{"", {batch, 8}, 1, 512, 64, 64, DType::bf16, Mask::none, 4};
    const graph::Graph fragment = canonical(attention_graph(kernel::test::with_updates(step, 1)));
    ASSERT_EQ(fragment.results().size(), 3U);
    const auto tuned = shared_tuner(shared_device()).tune({.fragment = fragment, .name = "step"});
    ASSERT_TRUE(tuned) << tuned.error().message;
    ASSERT_EQ(tuned->plan.launches.size(), 1U);
    EXPECT_THAT(tuned->plan.launches[0].description, HasSubstr(", with updated keys and values ("));
    EXPECT_TRUE(tuned->kernels[0].verification->correct);
    EXPECT_GT(tuned->kernels[0].verification->worst, 0) << "the reference says something";
    const std::int64_t caches = 2 * batch * 2 * 512 * 64 * 2;
    EXPECT_NEAR(static_cast<double>(tuned->plan.launches[0].bytes), 2 * caches, 0.05 * caches)
        << "read once and written once";
  }
}

/// Dropouts, lengths and pages, through planning, compilation and verification.
TEST(AttentionPlanEmulated, WhatIsDrawnComparedAndLookedUpIsOfTheSameLaunch) {
  using kernel::test::Dropout;
  using kernel::test::with_dropout;
  using kernel::test::with_pages;
  struct Row {
    AttentionCase attention;
    std::string_view words;
  };
  for (const Row& row :
       {Row{with_dropout({"", {2, 2}, 96, 160, 64, 64, DType::bf16, Mask::causal}, Dropout::selected), ", dropout"},
        Row{{"", {4, 2}, 96, 160, 64, 64, DType::bf16, Mask::lengths}, "softmax"},
        Row{with_pages({"", {4, 8}, 1, 512, 64, 64, DType::bf16, Mask::lengths, 4}, 16), "of paged keys and values"}}) {
    const graph::Graph fragment = canonical(attention_graph(row.attention));
    const auto tuned = shared_tuner(shared_device()).tune({.fragment = fragment, .name = "layer"});
    ASSERT_TRUE(tuned) << tuned.error().message;
    ASSERT_EQ(tuned->plan.launches.size(), 1U);
    EXPECT_THAT(tuned->plan.launches[0].description, HasSubstr(std::string(row.words)));
    EXPECT_TRUE(tuned->kernels[0].verification->correct);
    EXPECT_GT(tuned->kernels[0].verification->worst, 0) << "the reference says something";
  }
}

TEST(AttentionPlanEmulated, ALongOneIsSampledByTilesOfRows) {
  const graph::Graph fragment = canonical(attention_graph({"", {2, 8}, 2048, 2048, 64, 64, DType::bf16, Mask::causal}));
  const auto tuned = shared_tuner(shared_device()).tune({.fragment = fragment, .name = "long"});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_LT(tuned->plan.verified_share, 0.5);
  EXPECT_GT(tuned->plan.verified_share, 0);
}

TEST(ProductKernels, KnowBothKinds) {
  const DeviceSpec h100 = *find_device("h100");
  const auto attention = product_kernels(attention_graph({"", {2}, 64, 64, 32, 32}), h100, 4);
  ASSERT_TRUE(attention) << attention.error().message;
  EXPECT_EQ(attention->best.size(), 4U);
  EXPECT_GT(attention->rival_us, attention->best[0].predicted_us);
  const auto product = product_kernels(kernel::test::matmul(DType::f16, 64, 96, 64), h100, 3);
  ASSERT_TRUE(product) << product.error().message;
  EXPECT_EQ(product->best.size(), 3U);
  graph::Builder b;
  const graph::Graph neither = *b.finish({b.unary(graph::Op::exp, b.parameter(DType::f32, {8}))});
  EXPECT_FALSE(is_product(neither));
  EXPECT_EQ(product_kernels(neither, h100, 1).error().kind, ErrorKind::unsupported);
}

/// Under batch_invariant nobody shares a row's keys: the order of its sum would depend on how many rows there are.
TEST(ProductKernels, BatchInvariantOnesDoNotSplit) {
  graph::Graph decoding = attention_graph({"", {1, 2}, 1, 8192, 64, 64});
  const DeviceSpec h100 = *find_device("h100");
  EXPECT_GT(choose_attention(*attention_of(decoding), h100)->ranked.best[0].schedule.split, 1);
  graph::Constraints constraints;
  constraints.batch_invariant = true;
  const auto invariant = choose_attention(*attention_of(decoding), h100, space_under(constraints, 4));
  for (const auto& each : invariant->ranked.best) EXPECT_EQ(each.schedule.split, 1);
}

/// Projections, attention, and a projection with a residual: with kernels of ours three steps, else more.
TEST(AttentionProgram, AnAttentionIsOneStep) {
  graph::Builder b;
  const graph::Dims dims = {2, 32, 64};
  const graph::Value x = b.parameter(DType::f32, dims);
  const auto projected = [&](graph::Value of) {
    return b.dot(of, b.parameter(DType::f32, {64, 64}), {{}, {}, {2}, {0}, DType::f32});
  };
  const auto heads = [&](graph::Value of) { return b.transpose(b.reshape(of, {2, 32, 4, 16}), {0, 2, 1, 3}); };
  const graph::Value queries = heads(projected(x)), keys = heads(projected(x)), values = heads(projected(x));
  const graph::Dims square = {2, 4, 32, 32};
  const graph::Value scores = b.dot(queries, keys, {{0, 1}, {0, 1}, {3}, {3}, DType::f32});
  const graph::Value greatest = b.broadcast(b.reduce(graph::ReduceKind::max, scores, {3}), square, {0, 1, 2});
  const graph::Value e = b.unary(graph::Op::exp, b.binary(graph::Op::subtract, scores, greatest));
  const graph::Value sums = b.broadcast(b.reduce(graph::ReduceKind::sum, e, {3}), square, {0, 1, 2});
  const graph::Value weights = b.binary(graph::Op::divide, e, sums);
  const graph::Value seen = b.dot(weights, values, {{0, 1}, {0, 1}, {3}, {2}, DType::f32});
  const graph::Value joined = b.reshape(b.transpose(seen, {0, 2, 1, 3}), dims);
  const graph::Graph model = *b.finish({b.binary(graph::Op::add, projected(joined), x)});

  ProgramOptions ours;
  ours.own_product = [](const graph::Graph& part, bool) { return is_product(part); };
  const auto program = build_program(model, ours);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_TRUE(program->calls.empty());
  EXPECT_EQ(program->regions[0].steps.size(), 3U) << "queries, keys and values are one";
  EXPECT_EQ(std::ranges::count_if(program->regions[0].steps,
                                  [](const auto& step) { return step.name.starts_with("attention"); }),
            1);
  const auto library = build_program(model);
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_EQ(library->calls.size(), 4U) << "projections, scores, the product, and the last one with its residual";
  EXPECT_EQ(library->regions[0].steps.size(), 7U);
}

/// Layers have equal calls, and whether a kernel of ours computes one is asked once: it ranks schedules.
TEST(AttentionProgram, EqualCallsAreAskedForOnce) {
  graph::Builder b;
  graph::Value x = b.parameter(DType::f16, {32, 64});
  for (int layer = 0; layer < 5; ++layer)
    x = b.dot(x, b.parameter(DType::f16, {64, 64}), {{}, {}, {1}, {0}, DType::f16});
  int asked = 0;
  ProgramOptions ours;
  ours.own_product = [&](const graph::Graph& part, bool) {
    ++asked;
    return is_product(part);
  };
  const auto program = build_program(*b.finish({x}), ours);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->regions[0].steps.size(), 5U);
  EXPECT_TRUE(program->calls.empty());
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace stitch::tuning
