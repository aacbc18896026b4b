#include "import/hlo/element_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/literal.h"
#include "import/hlo/trip_count.h"

namespace stitch::import::hlo {
namespace {

using graph::Builder;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Value;
using testing::ElementsAre;

TEST(ElementProgram, FollowsElementsThroughLayouts) {
  Builder b;
  const Value x = b.parameter(DType::s32, {2, 3});
  const Value y = b.transpose(x, {1, 0});                     // y[j,i] = x[i,j]
  const Value z = b.slice(b.reshape(y, {6}), {1}, {6}, {2});  // y's elements 1, 3, 5
  const Value sum = b.binary(Op::add, z, b.iota(DType::s32, {3}, 0));
  const Graph graph = *b.finish({b.broadcast(sum, {2, 3}, {1})});
  const Element last{graph.results()[0], 5};
  const auto program = ElementProgram::compile(graph, {&last, 1});
  ASSERT_TRUE(program.has_value());
  // Element 5 is column 2: y[5] = y[2,1] = x[1,2], plus 2.
  ASSERT_THAT(program->inputs(), ElementsAre(ElementProgram::Input{0, 5}));
  const Scalar input{40, 0};
  EXPECT_EQ((*program->run({&input, 1}))[0].integer, 42);
}

TEST(ElementProgram, IntegerArithmeticIsThatOfTheIr) {
  struct Row {
    Op op;
    DType dtype;
    std::int64_t x, y, result;
  };
  const Row rows[] = {
      {Op::add, DType::u32, 4294967295, 2, 1},
      {Op::add, DType::s8, 127, 1, -128},
      {Op::subtract, DType::u8, 0, 1, 255},
      {Op::multiply, DType::u32, 65536, 65537, 65536},
      {Op::shift_left, DType::u32, 3, 31, 2147483648},
      {Op::shift_left, DType::u32, 3, 32, 0},
      {Op::shift_right_logical, DType::s32, -1, 28, 15},
      {Op::shift_right_logical, DType::u32, 4294967295, 99, 0},
      {Op::shift_right_arithmetic, DType::s32, -8, 2, -2},
      {Op::shift_right_arithmetic, DType::s32, -8, 99, -1},
      {Op::divide, DType::s32, 7, 0, -1},
      {Op::divide, DType::s32, -2147483648LL, -1, -2147483648LL},
      {Op::divide, DType::u32, 4294967295, 2, 2147483647},
      {Op::remainder, DType::s32, -7, 3, -1},
      {Op::remainder, DType::s32, -7, 0, -7},
      {Op::remainder, DType::s32, 5, -1, 0},
      {Op::maximum, DType::u32, 4294967295, 1, 4294967295},
      {Op::minimum, DType::s32, -1, 1, -1},
      {Op::bit_xor, DType::u32, 5, 3, 6},
  };
  for (const Row& row : rows) {
    Builder b;
    const Value x = b.parameter(row.dtype, {}), y = b.parameter(row.dtype, {});
    const Graph graph = *b.finish({b.binary(row.op, x, y)});
    const Element output{graph.results()[0], 0};
    const auto program = ElementProgram::compile(graph, {&output, 1});
    ASSERT_TRUE(program.has_value());
    std::vector<Scalar> inputs;
    for (const auto& input : program->inputs()) inputs.push_back({input.parameter == 0 ? row.x : row.y, 0});
    EXPECT_EQ((*program->run(inputs))[0].integer, row.result) << to_string(row.op) << " " << row.x << " " << row.y;
  }
}

TEST(ElementProgram, WhatItDoesNotCoverIsRefused) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4});
  const Graph graph = *b.finish({b.reduce(graph::ReduceKind::sum, x, {0}), b.unary(Op::exp, x)});
  const Element sum{graph.results()[0], 0}, exponential{graph.results()[1], 2};
  EXPECT_FALSE(ElementProgram::compile(graph, {&sum, 1}));
  const auto program = ElementProgram::compile(graph, {&exponential, 1});
  ASSERT_TRUE(program.has_value());
  const Scalar input{0, 1};
  EXPECT_FALSE(program->run({&input, 1}).has_value());
}

TEST(ElementProgram, LargeComputationsAreRefused) {
  Builder b;
  Value x = b.parameter(DType::s32, {});
  for (int i = 0; i < 100; ++i) x = b.binary(Op::add, x, x);
  const Graph graph = *b.finish({x});
  const Element output{graph.results()[0], 0};
  EXPECT_TRUE(ElementProgram::compile(graph, {&output, 1}, 101));
  EXPECT_FALSE(ElementProgram::compile(graph, {&output, 1}, 100));
}

/// carried = (i, x[2]); body: (i + 1, (x[1], x[0] + i)); until i = trips.
Graph loop_graph(std::int64_t trips) {
  const auto start = [](Builder& b) {
    return std::vector<Value>{b.parameter(DType::s32, {}), b.parameter(DType::s32, {2})};
  };
  Builder body, condition, outer;
  const auto carried = start(body);
  const Value first = body.slice(carried[1], {0}, {1}), second = body.slice(carried[1], {1}, {2});
  const Value moved = body.binary(Op::add, first, body.broadcast(carried[0], {1}, {}));
  const Value next = body.binary(Op::add, carried[0], body.scalar(DType::s32, 1));
  const Graph body_graph = *body.finish({next, body.concatenate({second, moved}, 0)});
  const auto tested = start(condition);
  const Value limit = condition.scalar(DType::s32, static_cast<double>(trips));
  const Graph condition_graph = *condition.finish({condition.compare(graph::Comparison::lt, tested[0], limit)});
  const Value x = outer.parameter(DType::s32, {2});
  const Value loop =
      outer.add(Op::loop, {outer.scalar(DType::s32, 0), x}, graph::LoopAttributes{},
                {std::make_shared<const Graph>(body_graph), std::make_shared<const Graph>(condition_graph)});
  return *outer.finish({{loop.node, 0}, {loop.node, 1}});
}

TEST(ElementProgram, UnrollsLoopsOfKnownTripCount) {
  const Graph uncounted = loop_graph(4);
  const Element counter{uncounted.results()[0], 0};
  EXPECT_FALSE(ElementProgram::compile(uncounted, {&counter, 1})) << "the trip count is not known yet";
  const Graph graph = with_trip_counts(uncounted);
  const Element end{graph.results()[0], 0};
  const auto program = ElementProgram::compile(graph, {&end, 1});
  ASSERT_TRUE(program.has_value());
  EXPECT_TRUE(program->inputs().empty());
  EXPECT_EQ((*program->run({}))[0].integer, 4);
  // No trip: what was handed in.
  const Graph idle = with_trip_counts(loop_graph(0));
  const Element kept{idle.results()[1], 1};
  const auto same = ElementProgram::compile(idle, {&kept, 1});
  ASSERT_TRUE(same.has_value());
  EXPECT_THAT(same->inputs(), ElementsAre(ElementProgram::Input{0, 1}));
}

TEST(ElementProgram, OrderOnlyComputationsAreKnownAsSuch) {
  Builder b;
  const Value x = b.parameter(DType::f32, {}), y = b.parameter(DType::f32, {});
  const Value less = b.compare(graph::Comparison::lt, x, y);
  const Graph graph = *b.finish({b.select(less, x, y), b.binary(Op::add, x, y), b.binary(Op::bit_xor, less, less)});
  const auto only_compares = [&](int result) {
    const Element output{graph.results()[result], 0};
    return ElementProgram::compile(graph, {&output, 1})->only_compares();
  };
  EXPECT_TRUE(only_compares(0));
  EXPECT_FALSE(only_compares(1));
  EXPECT_TRUE(only_compares(2));
}

}  // namespace
}  // namespace stitch::import::hlo
