// Reductions of which only some boxes of the operand take part, against those of which the rest is the identity.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

using Boxes = std::vector<Box>;
using Reduction = std::function<Value(Builder&, Value)>;

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor random_tensor(const Dims& dims, std::uint64_t seed) {
  Tensor tensor = Tensor::zeros({DType::f32, dims});
  Random random(seed);
  for (double& value : tensor.floats) value = static_cast<double>(random.below(1U << 16)) / (1U << 12) - 8;
  return tensor;
}

/// What the rest of the operand would have to be to take no part.
Tensor filled_around(const Tensor& x, const Boxes& boxes, double identity) {
  Tensor masked = x;
  Dims index(x.type.dims.size(), 0);
  for (double& value : masked.floats) {
    const Box at{index, Dims(index.size(), 1)};
    if (std::ranges::none_of(boxes, [&](const Box& box) { return box.contains(at); })) value = identity;
    next_index(Box::whole(x.type.dims), index);
  }
  return masked;
}

std::vector<Tensor> evaluated(const Dims& dims, const Reduction& reduction, const Tensor& x, const Boxes& boxes) {
  Builder b;
  // Something is computed on the way, as it is in kernels: of the boxes alone, or of all.
  const Value in = b.unary(Op::negate, b.unary(Op::negate, b.parameter(DType::f32, dims)));
  const Value reduced = reduction(b, in);
  std::vector<Value> results{reduced};
  const Graph built = *b.finish(results);
  EvaluateOptions options;
  options.bounds = true;
  if (!boxes.empty()) options.restrictions = {{reduced.node, boxes}};
  auto values = evaluate(built, std::vector{x}, options);
  if (!values) throw std::runtime_error(values.error().message);
  return std::move(*values);
}

TEST(EvaluateRestriction, IsTheReductionOfTheBoxes) {
  struct Case {
    std::string name;
    Dims dims;
    Boxes boxes;
    Reduction reduction;
    double identity = 0;
  };
  const auto reduce = [](ReduceKind kind, Dims along) {
    return [=](Builder& b, Value x) { return b.reduce(kind, x, along); };
  };
  const Boxes some_rows = {{{0, 1, 0}, {1, 2, 7}}, {{2, 5, 0}, {1, 1, 7}}, {{3, 0, 0}, {1, 6, 7}}};
  Boxes every_third;
  for (std::int64_t row = 0; row < 24; row += 3) every_third.push_back({{row / 6, row % 6, 0}, {1, 1, 7}});
  Boxes many;  // more than a region merges in pairs
  for (std::int64_t row = 0; row < 40 * 30; row += 7) many.push_back({{row / 30, row % 30, 0}, {1, 1, 3}});
  const Case cases[] = {
      {"rows of two dimensions", {4, 6, 7}, some_rows, reduce(ReduceKind::sum, {0, 1})},
      {"rows by turns", {4, 6, 7}, every_third, reduce(ReduceKind::sum, {0, 1})},
      {"rows by turns, all summed", {4, 6, 7}, every_third, reduce(ReduceKind::sum, {0, 1, 2})},
      {"their maxima", {4, 6, 7}, every_third, reduce(ReduceKind::max, {0, 1}), -infinity},
      {"many of them", {40, 30, 3}, many, reduce(ReduceKind::sum, {0, 1})},
      {"one dimension of two",
       {4, 6, 7},
       {{{0, 0, 0}, {1, 6, 7}}, {{2, 0, 0}, {2, 6, 7}}},
       reduce(ReduceKind::sum, {0, 1})},
      {"the other dimension",
       {4, 6, 7},
       {{{0, 1, 0}, {4, 1, 7}}, {{0, 3, 0}, {4, 2, 7}}},
       reduce(ReduceKind::sum, {0, 1})},
      {"dimensions around another",
       {4, 6, 7},
       {{{0, 0, 2}, {1, 6, 3}}, {{1, 0, 0}, {2, 6, 7}}},
       reduce(ReduceKind::min, {0, 2}),
       infinity},
      {"maxima and their exponentials",
       {4, 6, 7},
       every_third,
       [](Builder& b, Value x) {
         return b.add(Op::max_exp_sum, {x}, MaxExpSumAttributes{{0, 1}});
       },
       -infinity},
  };
  for (const Case& one : cases) {
    const Tensor x = random_tensor(one.dims, 7);
    const std::vector<Tensor> part = evaluated(one.dims, one.reduction, x, one.boxes);
    const std::vector<Tensor> whole = evaluated(one.dims, one.reduction, filled_around(x, one.boxes, one.identity), {});
    ASSERT_EQ(part[0].floats.size(), whole[0].floats.size());
    for (std::size_t i = 0; i < part[0].floats.size(); ++i)
      EXPECT_DOUBLE_EQ(part[0].floats[i], whole[0].floats[i]) << one.name << " at " << i;
  }
}

// Sums over two rows of 64: as few elements as that are taken at once, not column by column with the rows' own sums
// anew.
TEST(EvaluateRestriction, WhatIsLeftOutIsNotCounted) {
  const Dims dims = {64, 256};
  Builder b;
  const Value x = b.parameter(DType::f32, dims);
  const Value shares = b.binary(Op::divide, x, b.broadcast(b.reduce(ReduceKind::sum, x, {1}), dims, {0}));
  const Value sums = b.reduce(ReduceKind::sum, shares, {0});
  const Graph graph = *b.finish({sums});
  const Tensor argument = random_tensor(dims, 5);
  EvaluateOptions options;
  options.most_reduced = 1000;
  options.work_limit = 5000;
  options.restrictions = {{sums.node, {{{3, 0}, {1, 256}}, {{40, 0}, {1, 256}}}}};
  const auto two_rows = evaluate(graph, std::vector{argument}, options);
  EXPECT_TRUE(two_rows.ok()) << two_rows.error().message;
  options.restrictions.clear();
  EXPECT_FALSE(evaluate(graph, std::vector{argument}, options).ok());
}

TEST(EvaluateRestriction, PositionsAreThoseInTheOperand) {
  const Dims dims = {3, 9};
  Tensor x = random_tensor(dims, 3);
  const Boxes boxes = {{{0, 2}, {3, 2}}, {{0, 7}, {3, 1}}};
  ArgReduceAttributes largest;
  largest.kind = ReduceKind::max;
  largest.dimension = 1;
  largest.index_dtype = DType::s32;
  Builder b;
  const Value found = b.add(Op::arg_reduce, {b.parameter(DType::f32, dims)}, largest);
  const Graph graph = *b.finish({found, Value{found.node, 1}});
  EvaluateOptions options;
  options.restrictions = {{found.node, boxes}};
  const auto values = evaluate(graph, std::vector{x}, options);
  ASSERT_TRUE(values.ok());
  for (std::int64_t row = 0; row < 3; ++row) {
    std::int64_t best = 2;
    for (const std::int64_t at : {3, 7}) {
      if (x.floats[row * 9 + at] > x.floats[row * 9 + best]) best = at;
    }
    EXPECT_EQ((*values)[0].floats[row], x.floats[row * 9 + best]);
    EXPECT_EQ((*values)[1].integers[row], best);
  }
}

TEST(EvaluateRestriction, SaysWhatDoesNotFit) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4, 6, 7});
  const Value sum = b.reduce(ReduceKind::sum, x, {0, 1});
  const Graph graph = *b.finish({sum});
  const Tensor argument = random_tensor({4, 6, 7}, 1);
  const auto message = [&](std::vector<ReduceRestriction> restrictions) {
    EvaluateOptions options;
    options.restrictions = std::move(restrictions);
    const auto values = evaluate(graph, std::vector{argument}, options);
    return values ? std::string() : values.error().message;
  };
  const Box first{{0, 0, 0}, {1, 3, 7}}, second{{0, 3, 0}, {1, 1, 7}};
  EXPECT_EQ(message({{sum.node, {first, second}}}), "");
  EXPECT_EQ(message({{99, {first}}}), "restriction of node 99: there is no such node");
  EXPECT_EQ(message({{x.node, {first}}}), fmt::format("restriction of node {}: it is no reduction", x.node));
  const std::string of_sum = fmt::format("restriction of node {}: ", sum.node);
  EXPECT_EQ(message({{sum.node, {}}}), of_sum + "no boxes");
  EXPECT_EQ(message({{sum.node, {second, first}}}), of_sum + "boxes are not ascending and disjoint");
  EXPECT_EQ(message({{sum.node, {first, first}}}), of_sum + "boxes are not ascending and disjoint");
  EXPECT_EQ(message({{sum.node, {{{0, 4, 0}, {1, 3, 7}}}}}), of_sum + "[0:1,4:7,0:7] is no part of [4,6,7]");
  EXPECT_EQ(message({{sum.node, {{{0, 0}, {1, 3}}}}}), of_sum + "[0:1,0:3] is no part of [4,6,7]");
  EXPECT_EQ(message({{sum.node, {{{0, 0, 0}, {1, 0, 7}}}}}), of_sum + "[0:1,0:0,0:7] is no part of [4,6,7]");
  EXPECT_EQ(message({{sum.node, {{{0, 0, 0}, {1, 3, 5}}}}}),
            of_sum + "dimension 2 is not reduced, and [0:1,0:3,0:5] is part of it");
  EXPECT_EQ(message({{sum.node, {first}}, {sum.node, {second}}}), fmt::format("two restrictions of node {}", sum.node));
}

}  // namespace
}  // namespace stitch::graph
