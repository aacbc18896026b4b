#include "graph/calls/wide_epilogue.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/calls/find_calls.h"

namespace stitch::graph {
namespace {

const Dims dims = {64, 96};

/// A product of f16 [64,32] and [32,96] in f16, and what `tail` makes of it.
struct Tailed {
  Graph graph;
  LibraryCall call;
};
Tailed tailed(const std::function<std::vector<Value>(Builder&, Value)>& tail, bool wanted = true) {
  Builder b;
  const Value product =
      b.dot(b.parameter(DType::f16, {64, 32}), b.parameter(DType::f16, {32, 96}), {{}, {}, {1}, {0}, DType::f16});
  Tailed made{*b.finish(tail(b, product)), {}};
  LibraryOptions options;
  options.own = [=](const Graph&, bool) { return wanted; };
  made.call = find_library_calls(made.graph, options).front();
  return made;
}
std::string taken(const Tailed& made) {
  std::string text;
  for (const NodeId id : made.call.epilogue)
    text += fmt::format("{}{}", text.empty() ? "" : " ", to_string(made.graph.node(id).op));
  return text;
}

/// x · tanh(x) in f32, narrowed.
Value gated(Builder& b, Value x) {
  const Value wide = b.convert(x, DType::f32);
  return b.convert(b.binary(Op::multiply, wide, b.unary(Op::tanh, wide)), DType::f16);
}

TEST(WideEpilogue, BranchesThatMeetAgainAreTaken) {
  const auto made = tailed([](Builder& b, Value x) { return std::vector{gated(b, x)}; });
  EXPECT_EQ(taken(made), "convert tanh multiply convert");
  EXPECT_EQ(made.call.operands.size(), 2U);
  EXPECT_EQ(taken(tailed([](Builder& b, Value x) { return std::vector{gated(b, x)}; }, false)), "")
      << "nobody wants it";
}

/// Whether the asked one is told that the rest would be a kernel of its own.
TEST(WideEpilogue, WhoElseWouldComputeTheRestIsTold) {
  const auto apart = [](const std::function<Value(Builder&, Value)>& behind) -> bool {
    Builder b;
    const DotAttributes dot{{}, {}, {1}, {0}, DType::f16};
    const Value product = b.dot(b.parameter(DType::f16, {64, 32}), b.parameter(DType::f16, {32, 96}), dot);
    const Graph graph = *b.finish({behind(b, gated(b, product))});
    std::vector<bool> told;
    LibraryOptions options;
    options.own = [&](const Graph&, bool rest_apart) {
      told.push_back(rest_apart);
      return true;
    };
    find_library_calls(graph, options);
    EXPECT_FALSE(told.empty());
    return told.front();
  };
  EXPECT_TRUE(apart([](Builder&, Value x) { return x; })) << "a result";
  EXPECT_TRUE(apart([](Builder& b, Value x) {
    return b.dot(b.transpose(x, {1, 0}), b.parameter(DType::f16, {64, 8}), {{}, {}, {1}, {0}, DType::f16});
  })) << "another product's operand";
  EXPECT_FALSE(apart([](Builder& b, Value x) { return b.reduce(ReduceKind::max, x, {1}); }))
      << "rows that are combined";
}

TEST(WideEpilogue, ConvolutionsHaveThemToo) {
  Builder b;
  ConvolutionAttributes a;
  a.input_spatial = a.kernel_spatial = a.output_spatial = {2, 3};
  a.strides = a.low = a.high = a.input_dilation = a.kernel_dilation = {1, 1};
  a.result = DType::f16;
  const Value x = b.parameter(DType::f16, {2, 8, 6, 6}), w = b.parameter(DType::f16, {16, 8, 3, 3});
  const Value y = b.add(Op::convolution, {x, w}, a);
  Tailed made{*b.finish({b.binary(Op::multiply, y, b.unary(Op::logistic, y))}), {}};
  LibraryOptions options;
  made.call = find_library_calls(made.graph, options).front();
  EXPECT_EQ(taken(made), "") << "no library's call has it";
  options.own = [](const Graph&, bool) { return true; };
  made.call = find_library_calls(made.graph, options).front();
  EXPECT_EQ(taken(made), "logistic multiply");
  EXPECT_EQ(made.call.operands.size(), 2U);
}

TEST(WideEpilogue, AResultThatIsLargerIsNot) {
  EXPECT_EQ(taken(tailed([](Builder& b, Value x) { return std::vector{b.unary(Op::exp, b.convert(x, DType::f32))}; })),
            "");
}

TEST(WideEpilogue, WhatOthersNeedEndsIt) {
  EXPECT_EQ(taken(tailed([](Builder& b, Value x) {
              const Value once = b.unary(Op::tanh, x), twice = b.unary(Op::exp, once);
              return std::vector{once, twice};
            })),
            "tanh")
      << "the first function is a result by itself";
  EXPECT_EQ(taken(tailed([](Builder& b, Value x) {
              const Value sum = b.reduce(ReduceKind::sum, x, {1});
              return std::vector{b.binary(Op::subtract, x, b.broadcast(sum, dims, {0}))};
            })),
            "")
      << "a sum of the product";
}

TEST(WideEpilogue, OtherOperandsAreInMemory) {
  const auto residual = tailed([](Builder& b, Value x) {
    const Value scaled = b.binary(Op::multiply, x, b.broadcast(b.parameter(DType::f16, {96}), dims, {1}));
    return std::vector{b.unary(Op::tanh, b.binary(Op::add, scaled, b.parameter(DType::f16, dims)))};
  });
  EXPECT_EQ(taken(residual), "multiply add tanh");
  EXPECT_EQ(residual.call.operands.size(), 4U);
  // A function of what is there is computed here instead of being stored for this alone.
  const auto derivative = tailed([](Builder& b, Value x) {
    const Value other = b.unary(Op::exp, b.parameter(DType::f16, dims));
    return std::vector{b.unary(Op::tanh, b.binary(Op::multiply, x, other))};
  });
  EXPECT_EQ(taken(derivative), "multiply tanh");
  ASSERT_EQ(derivative.call.operands.size(), 3U);
  EXPECT_EQ(derivative.graph.node(derivative.call.operands[2].node).op, Op::parameter);
  // A sum of a tensor, as large as the result, would be stored for this alone.
  EXPECT_EQ(taken(tailed([](Builder& b, Value x) {
              const Value other = b.reduce(ReduceKind::sum, b.parameter(DType::f16, {64, 96, 4}), {2});
              return std::vector{b.unary(Op::tanh, b.binary(Op::multiply, x, other))};
            })),
            "");
  // One that an earlier product leaves there.
  Builder b;
  const Value x = b.parameter(DType::f16, {64, 32}), y = b.parameter(DType::f16, {32, 96});
  const DotAttributes dot{{}, {}, {1}, {0}, DType::f16};
  const Value gate = b.dot(x, y, dot), up = b.dot(x, b.parameter(DType::f16, {32, 96}), dot);
  const Graph graph = *b.finish({b.binary(Op::multiply, b.unary(Op::logistic, gate), up)});
  LibraryOptions options;
  options.own = [](const Graph&, bool) { return true; };
  const auto calls = find_library_calls(graph, options);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].epilogue.size() + calls[1].epilogue.size(), 2U) << "the function and the product, by either";
}

}  // namespace
}  // namespace stitch::graph
