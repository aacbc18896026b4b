#include "graph/reference/added_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "graph/builder.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph::reference {
namespace {

Value product(Builder& b, std::int64_t depth, DType dtype = DType::f32) {
  return b.dot(b.parameter(dtype, {8, depth}), b.parameter(dtype, {depth, 4}), {{}, {}, {1}, {0}, DType::f32});
}

/// By the dots' order, of the graph that `make` has for results.
std::vector<std::int64_t> terms_of(const std::function<std::vector<Value>(Builder&)>& make) {
  Builder b;
  const Graph graph = *b.finish(make(b));
  std::vector<std::int64_t> terms;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op == Op::dot) terms.push_back(terms_added_to(graph, id));
  }
  return terms;
}

using Terms = std::vector<std::int64_t>;

TEST(AddedProducts, AreThoseOfOneSum) {
  EXPECT_EQ(terms_of([](Builder& b) { return std::vector{product(b, 16)}; }), Terms{0});
  EXPECT_EQ(terms_of([](Builder& b) {
              const Value x = product(b, 16), y = product(b, 64), z = product(b, 5);
              return std::vector{b.binary(Op::add, b.binary(Op::add, x, y), z)};
            }),
            (Terms{69, 21, 80}));
}

TEST(AddedProducts, AreFoundBehindLayoutsAndBesideOtherTerms) {
  EXPECT_EQ(terms_of([](Builder& b) {
              const Value x = b.transpose(product(b, 16), {1, 0}), other = b.parameter(DType::f32, {4, 8});
              const Value y = b.transpose(b.convert(product(b, 64), DType::f32), {1, 0});
              return std::vector{b.unary(Op::exp, b.binary(Op::add, b.binary(Op::add, x, other), y))};
            }),
            (Terms{64, 16}));
}

TEST(AddedProducts, AreNoneThatSomebodyReadsBefore) {
  EXPECT_EQ(terms_of([](Builder& b) {
              const Value x = product(b, 16), y = product(b, 64);
              return std::vector{b.binary(Op::add, x, y), y};
            }),
            (Terms{0, 0}));
  EXPECT_EQ(terms_of([](Builder& b) {
              const Value x = product(b, 16), y = b.unary(Op::exp, product(b, 64));
              return std::vector{b.binary(Op::add, x, y)};
            }),
            (Terms{0, 0}));
  EXPECT_EQ(terms_of([](Builder& b) {
              const Value x = product(b, 16);
              return std::vector{b.binary(Op::add, x, x)};
            }),
            Terms{0});
}

/// A first product that is large, and a long one that is small: added one by one into one sum, each of the latter's
/// terms is rounded to what the former leaves.
TEST(AddedProducts, BoundsAllowForOneSum) {
  constexpr std::int64_t depth = 64;
  Builder b;
  const Value large = product(b, 1), small = product(b, depth);
  const Graph graph = *b.finish({b.binary(Op::add, large, small)});
  const float one = 1, tiny = 0x1.8p-24F;  // one and a half units of rounding
  std::vector<Tensor> inputs;
  for (const NodeId parameter : graph.parameters()) {
    Tensor x = Tensor::zeros(graph.type({parameter, 0}));
    std::ranges::fill(x.floats, inputs.size() == 3 ? tiny : one);
    inputs.push_back(std::move(x));
  }
  EvaluateOptions options;
  options.bounds = true;
  const auto reference = evaluate(graph, inputs, options);
  ASSERT_TRUE(reference) << reference.error().message;
  float sum = one;
  for (std::int64_t i = 0; i < depth; ++i) sum += tiny;
  EXPECT_GT(sum - one, 1.3 * depth * tiny) << "rounded up each time";
  EXPECT_TRUE(accepts(reference->front().at(0), reference->front().bound(0), sum));
  EXPECT_FALSE(accepts(reference->front().at(0), reference->front().bound(0), sum + depth * tiny));
}

}  // namespace
}  // namespace stitch::graph::reference
