#include "profiler/verify/reference_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/builder.h"
#include "profiler/verify/input_source.h"

namespace stitch::profiler {
namespace {

using graph::Box;

/// Steps of x = tanh(x + row i of w) that one another need, all of them results in one stack: element (t, c) needs what
/// stands before it.
graph::Graph chain(std::int64_t steps, std::int64_t columns) {
  graph::Builder builder("chain");
  const graph::Value w = builder.parameter(graph::DType::f32, {columns}, "w");
  graph::Value x = builder.parameter(graph::DType::f32, {columns}, "x");
  std::vector<graph::Value> results;
  for (std::int64_t step = 0; step < steps; ++step) {
    x = builder.unary(graph::Op::tanh, builder.binary(graph::Op::add, x, w));
    if (step % 2 == 1) results.push_back(x);
  }
  return *builder.finish(results);
}

/// A sum over more elements than are added between two looks.
graph::Graph long_sum() {
  graph::Builder builder("long sum");
  const graph::Value x = builder.parameter(graph::DType::f32, {3, 1 << 21}, "x");
  return *builder.finish({builder.reduce(graph::ReduceKind::sum, x, {0, 1})});
}

std::vector<graph::Input> ones(std::size_t count) {
  const graph::Input input = [](graph::Tensor& part) -> Status {
    std::ranges::fill(part.floats, 1.0);
    return {};
  };
  return std::vector<graph::Input>(count, input);
}

std::vector<std::vector<Box>> whole_results(const graph::Graph& graph) {
  std::vector<std::vector<Box>> wanted;
  for (const graph::Value result : graph.results()) wanted.push_back({Box::whole(graph.type(result).dims)});
  return wanted;
}

// All elements of a large tensor, for one number: it is there some rows at a time.
TEST(ReferenceParts, AMeanOverLongRowsTakesTheMemoryOfAFew) {
  graph::Builder b("mean of log-sum-exps");
  const graph::Value x = b.parameter(graph::DType::f32, {256, 8192}, "x");
  const graph::Value most = b.reduce(graph::ReduceKind::max, x, {1});
  const graph::Value shifted = b.binary(graph::Op::subtract, x, b.broadcast(most, {256, 8192}, {0}));
  const graph::Value sums = b.reduce(graph::ReduceKind::sum, b.unary(graph::Op::exp, shifted), {1});
  const graph::Value each = b.binary(graph::Op::add, most, b.unary(graph::Op::log, sums));
  const graph::Graph graph = *b.finish({b.reduce(graph::ReduceKind::sum, each, {0})});
  graph::EvaluateOptions options;
  options.bounds = true;
  options.memory_limit = std::int64_t{8} << 20;
  auto wanted = whole_results(graph);
  const auto whole = reference_within(graph, ones(1), wanted, options);
  ASSERT_FALSE(whole.ok());
  EXPECT_EQ(whole.error().kind, ErrorKind::resource_exhausted);
  options.most_reduced = std::int64_t{1} << 18;
  const auto parts = reference_within(graph, ones(1), wanted, options);
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  EXPECT_NEAR((*parts)[0][0].at(0), 256 * (1 + std::log(8192.0)), 1e-6);
}

TEST(ReferenceParts, EverythingIsEvaluatedWhereTheLimitAllowsIt) {
  const graph::Graph graph = chain(8, 4096);
  auto wanted = whole_results(graph);
  const auto asked = wanted;
  graph::EvaluateOptions options;
  options.work_limit = 8 * 4096 * 16;
  const auto inputs = ones(2);
  const auto found = reference_within(graph, inputs, wanted, options);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(wanted, asked);
}

/// An input that has the evaluation stopped when its first elements are asked for.
graph::Input stopping(std::stop_source& source, int& asked) {
  return [&source, &asked](graph::Tensor& part) -> Status {
    ++asked;
    std::ranges::fill(part.floats, 1.0);
    source.request_stop();
    return {};
  };
}

TEST(ReferenceParts, AnEvaluationEndsWhenItIsToldTo) {
  for (const auto& graph : {chain(64, 4096), long_sum()}) {
    std::stop_source source;
    graph::EvaluateOptions options;
    options.stop = source.get_token();
    int asked = 0;
    const std::vector<graph::Input> inputs(graph.parameters().size(), stopping(source, asked));
    auto wanted = whole_results(graph);
    const auto found = reference_within(graph, inputs, wanted, options);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().kind, ErrorKind::cancelled) << found.error().message;
    EXPECT_EQ(asked, 1) << "nothing is read after it";
  }
}

TEST(ReferenceParts, InputsOfManyElementsEndWhenTheyAreToldTo) {
  std::stop_source source;
  source.request_stop();
  const InputSource made({graph::DType::f32, {1 << 12, 1 << 10}}, Distribution::mixed, 1, {});
  graph::Tensor part = graph::Tensor::zeros(made.type());
  const Status ended = made.input(source.get_token())(part);
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().kind, ErrorKind::cancelled);
  // Whole, or put together of any parts, the values are the same.
  ASSERT_TRUE(made.input()(part).ok());
  graph::Tensor rows = part;
  rows.box = {{1000, 0}, {2000, 1 << 10}};
  rows.floats.resize(rows.box.elements());
  ASSERT_TRUE(made.input()(rows).ok());
  EXPECT_TRUE(std::ranges::equal(rows.floats, std::span(part.floats).subspan(1000 << 10, 2000 << 10)));
}

TEST(ReferenceParts, LessIsComparedWhereItTakesMoreAndTheSameEveryTime) {
  const graph::Graph graph = chain(64, 4096);
  graph::EvaluateOptions options;
  options.work_limit = 64 * 1000;
  const auto inputs = ones(2);
  auto wanted = whole_results(graph);
  const auto found = reference_within(graph, inputs, wanted, options);
  ASSERT_TRUE(found.ok()) << found.error().message;
  std::int64_t elements = 0;
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    ASSERT_FALSE(wanted[r].empty());
    ASSERT_EQ((*found)[r].size(), wanted[r].size());
    for (std::size_t b = 0; b < wanted[r].size(); ++b) {
      EXPECT_EQ((*found)[r][b].box, wanted[r][b]);
      elements += wanted[r][b].elements();
    }
  }
  EXPECT_GT(elements, 0);
  EXPECT_LT(elements, 32 * 1000);
  auto again = whole_results(graph);
  ASSERT_TRUE(reference_within(graph, inputs, again, options).ok());
  EXPECT_EQ(again, wanted);
}

TEST(ReferenceParts, OfManyBoxesTheFirstAndTheLastStay) {
  const graph::Graph graph = chain(2, 4096);
  std::vector<std::vector<Box>> wanted(1);
  for (std::int64_t at = 0; at < 4096; at += 16) wanted[0].push_back({{at}, {8}});
  graph::EvaluateOptions options;
  options.work_limit = 2000;
  const auto inputs = ones(2);
  ASSERT_TRUE(reference_within(graph, inputs, wanted, options).ok());
  EXPECT_LT(wanted[0].size(), 128U);
  EXPECT_EQ(wanted[0].front().start[0], 0);
  EXPECT_EQ(wanted[0].back().start[0], 4080);
}

TEST(ReferenceParts, OneElementThatTakesTooMuchIsAnError) {
  const graph::Graph graph = chain(64, 16);
  graph::EvaluateOptions options;
  options.work_limit = 20;
  const auto inputs = ones(2);
  auto wanted = whole_results(graph);
  const auto found = reference_within(graph, inputs, wanted, options);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::resource_exhausted);
  EXPECT_THAT(found.error().message, testing::HasSubstr("more operations than the evaluation may"));
}

}  // namespace
}  // namespace stitch::profiler
