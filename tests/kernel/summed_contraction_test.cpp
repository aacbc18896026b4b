#include "kernel/contraction/summed_contraction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "graph/builder.h"

namespace stitch::kernel {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::Value;

Value product(Builder& b, Dims left_dims, Dims right_dims) {
  const Value left = b.parameter(DType::f32, std::move(left_dims));
  const Value right = b.parameter(DType::f32, std::move(right_dims));
  return b.dot(left, right, {{}, {}, {1}, {0}, DType::f32});
}

graph::Graph graph_of(const std::function<Value(Builder&)>& result) {
  Builder b;
  auto graph = b.finish({result(b)});
  if (!graph) throw std::runtime_error(graph.error().message);
  return *std::move(graph);
}

std::string refusal(const std::function<Value(Builder&)>& result) {
  const auto problem = derive_summed(graph_of(result));
  return problem ? "" : problem.error().message;
}

TEST(SummedContraction, HasEachTermsDepthAndOneProductsEpilogue) {
  const auto problem = derive_summed(graph_of([](Builder& b) {
    const Value residual = b.parameter(DType::f32, {8, 12});
    const Value first = b.add(Op::add, {residual, product(b, {8, 16}, {16, 12})});
    const Value sum = b.add(Op::add, {product(b, {8, 4}, {4, 12}), first});
    return b.unary(Op::tanh, b.add(Op::add, {sum, product(b, {8, 20}, {20, 12})}));
  }));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->contracted, 40);
  ASSERT_EQ(problem->terms.size(), 3U);
  EXPECT_EQ(problem->terms[1].contracted, 4);
  EXPECT_EQ(problem->terms[1].left.parameter, 3);
  EXPECT_EQ(problem->terms[2].right.parameter, 6);
  EXPECT_EQ(depth_tiles(*problem, 16), 1 + 1 + 2) << "a tile is of one term";
  EXPECT_EQ(problem->least_bytes(), 4 * (8 * 12 * 2 + 16 * 20 + 4 * 20 + 20 * 20));
  // What is behind the sum stands behind the first product, and parameters are numbered as they were.
  EXPECT_EQ(problem->graph->parameters().size(), problem->summed->parameters().size());
  EXPECT_EQ(std::ranges::count(problem->graph->nodes(), Op::dot, &graph::Node::op), 1);
  EXPECT_EQ(std::ranges::count(problem->graph->nodes(), Op::add, &graph::Node::op), 1);
  EXPECT_EQ(other_roots(*problem).size(), 2U);
  EXPECT_EQ(without_other_terms(*problem).contracted, 16);
}

TEST(SummedContraction, HasAHashOfItsOwn) {
  const auto sum_of = [](std::int64_t depth) {
    return *derive_summed(graph_of([&](Builder& b) {
      const Value first = product(b, {8, 16}, {16, 12});
      return b.add(Op::add, {first, product(b, {8, depth}, {depth, 12})});
    }));
  };
  EXPECT_NE(contraction_hash(sum_of(4)), contraction_hash(sum_of(8)));
  EXPECT_NE(contraction_hash(sum_of(4)), contraction_hash(without_other_terms(sum_of(4))));
  EXPECT_EQ(contraction_hash(sum_of(4)), contraction_hash(sum_of(4)));
}

TEST(SummedContraction, MayLieAcross) {
  const auto problem = derive_summed(graph_of([](Builder& b) {
    const Value first = product(b, {8, 16}, {16, 12});
    const Value left = b.parameter(DType::f32, {6, 12}), right = b.parameter(DType::f32, {8, 6});
    const Value other = b.dot(left, right, {{}, {}, {0}, {1}, DType::f32});  // [12, 8]
    return b.add(Op::add, {first, b.transpose(other, {1, 0})});
  }));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->terms[1].left.parameter, 3) << "rows of the sum";
  EXPECT_EQ(problem->terms[1].right.parameter, 2);
}

TEST(SummedContraction, RefusesWhatIsNoSum) {
  using testing::HasSubstr;
  const auto two = [](const std::function<Value(Builder&, Value, Value)>& join) {
    return refusal([&](Builder& b) {
      const Value first = product(b, {8, 16}, {16, 8});
      return join(b, first, product(b, {8, 16}, {16, 8}));
    });
  };
  EXPECT_EQ(two([](Builder& b, Value x, Value y) { return b.add(Op::add, {x, y}); }), "");
  EXPECT_THAT(two([](Builder& b, Value x, Value y) { return b.add(Op::multiply, {x, y}); }), HasSubstr("of a term"));
  EXPECT_THAT(two([](Builder& b, Value x, Value y) {
                return b.add(Op::add, {x, b.unary(Op::tanh, y)});
              }),
              HasSubstr("of a term"));
  EXPECT_THAT(two([](Builder& b, Value x, Value y) {
                return b.add(Op::add, {b.unary(Op::tanh, x), y});
              }),
              HasSubstr("is not added"));
  EXPECT_THAT(two([](Builder& b, Value x, Value y) {
                return b.add(Op::add, {x, b.transpose(y, {1, 0})});
              }),
              HasSubstr("operands that lie otherwise"))
      << "square ones may be added across, but these are read otherwise";
  EXPECT_THAT(two([](Builder& b, Value x, Value y) {
                return b.add(Op::multiply, {b.add(Op::add, {x, y}), y});
              }),
              HasSubstr("read by others"));
  EXPECT_THAT(two([](Builder& b, Value x, Value y) {
                return b.add(Op::multiply, {b.add(Op::add, {x, y}), x});
              }),
              HasSubstr("read before all is added"));
  EXPECT_THAT(two([](Builder& b, Value x, Value y) {
                return b.add(Op::add, {b.add(Op::add, {y, y}), x});
              }),
              HasSubstr("read by others"))
      << "twice";
  EXPECT_THAT(refusal([](Builder& b) { return product(b, {8, 16}, {16, 8}); }), HasSubstr("a sum of 1"));
}

}  // namespace
}  // namespace stitch::kernel
