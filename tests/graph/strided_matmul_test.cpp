// Library calls as a BLAS takes them: every call that find_library_calls makes, run as the description says, gives what
// the reference does.
#include "graph/calls/strided_matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "graph/builder.h"
#include "tests/graph/call_reference.h"

namespace stitch::graph {
namespace {

using testing::HasSubstr;

/// Runs a description by the book, in double; every element of the result is written once.
std::vector<double> run(const StridedMatmul& matmul, const std::vector<Tensor>& arguments, std::int64_t elements) {
  std::vector<double> out(elements, NAN);
  if (matmul.is_empty()) return out;
  const auto at = [&](const StridedMatmul::Matrix& matrix, const Dims& loop, std::int64_t i, std::int64_t j) {
    std::int64_t place = matrix.offset + i * matrix.row_stride + j * matrix.column_stride;
    for (std::size_t l = 0; l < loop.size(); ++l) place += loop[l] * matrix.loop_strides[l];
    return place;
  };
  for (std::int64_t p = 0; p < matmul.products(); ++p) {
    Dims loop(matmul.loops.size());
    for (std::size_t l = loop.size(), left = p; l-- > 0; left /= matmul.loops[l]) loop[l] = left % matmul.loops[l];
    for (std::int64_t i = 0; i < matmul.rows; ++i) {
      for (std::int64_t j = 0; j < matmul.columns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < matmul.depth; ++k) {
          sum += arguments[matmul.left.parameter].at(at(matmul.left, loop, i, k)) *
                 arguments[matmul.right.parameter].at(at(matmul.right, loop, k, j));
        }
        sum *= matmul.scale;
        if (matmul.addend) sum += arguments[matmul.addend->parameter].at(at(*matmul.addend, loop, i, j));
        if (matmul.bias) sum += arguments[matmul.bias->parameter].at(at(*matmul.bias, loop, 0, j));
        double& to = out.at(at(matmul.result, loop, i, j));
        EXPECT_TRUE(std::isnan(to)) << "written twice";
        to = matmul.relu ? std::max(0.0, sum) : sum;
      }
    }
  }
  return out;
}

void expect_described(const Graph& call) {
  const auto matmul = describe_matmul(call);
  ASSERT_TRUE(matmul.ok()) << matmul.error().message;
  test::expect_reference(call, [&](const std::vector<Tensor>& arguments, std::int64_t elements) {
    return run(*matmul, arguments, elements);
  });
}

void expect_all_described(const Graph& graph, std::size_t calls = 1) {
  const std::vector<Graph> found = test::calls_of(graph);
  EXPECT_EQ(found.size(), calls);
  for (const Graph& call : found) expect_described(call);
}

Value product(Builder& builder, Value a, Value b) { return builder.dot(a, b, {{}, {}, {1}, {0}, DType::f32}); }

TEST(StridedMatmul, AProductIsItself) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {5, 7}), w = builder.parameter(DType::f32, {7, 3});
  const Graph graph = *builder.finish({product(builder, x, w)});
  expect_all_described(graph);
  const auto matmul = describe_matmul(test::calls_of(graph)[0]);
  ASSERT_TRUE(matmul.ok());
  EXPECT_EQ(matmul->rows, 5);
  EXPECT_EQ(matmul->columns, 3);
  EXPECT_EQ(matmul->depth, 7);
  EXPECT_TRUE(matmul->loops.empty());
  EXPECT_EQ(matmul->left.row_stride, 7);
  EXPECT_EQ(matmul->right.column_stride, 1);
  EXPECT_EQ(matmul->result.row_stride, 3);
}

TEST(StridedMatmul, TransposedOperandsAreStrides) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {7, 5}), w = builder.parameter(DType::f32, {3, 7});
  expect_all_described(*builder.finish({product(builder, builder.transpose(x, {1, 0}), builder.transpose(w, {1, 0}))}));
}

TEST(StridedMatmul, HeadsOfAttentionAreLoops) {
  // [batch, sequence, heads, depth] read as [batch, heads, sequence, depth]: two loops that no one stride joins.
  Builder builder;
  const Value q = builder.parameter(DType::f16, {2, 6, 3, 8}), k = builder.parameter(DType::f16, {2, 5, 3, 8});
  const Value a = builder.transpose(q, {0, 2, 1, 3}), b = builder.transpose(k, {0, 2, 3, 1});
  const Value scores = builder.dot(a, b, {{0, 1}, {0, 1}, {3}, {2}, DType::f32});
  const Value scaled =
      builder.binary(Op::multiply, scores, builder.broadcast(builder.scalar(DType::f32, 0.5), {2, 3, 6, 5}, {}));
  const Graph graph = *builder.finish({scaled});
  expect_all_described(graph);
  const auto matmul = describe_matmul(test::calls_of(graph)[0]);
  ASSERT_TRUE(matmul.ok());
  EXPECT_EQ(matmul->loops, (Dims{2, 3}));
  EXPECT_EQ(matmul->scale, 0.5);
}

TEST(StridedMatmul, ResultsMayBeWrittenTransposed) {
  Builder builder;
  const Value w = builder.parameter(DType::f32, {2, 3, 6, 5}), v = builder.parameter(DType::f32, {2, 3, 5, 8});
  const Value out = builder.dot(w, v, {{0, 1}, {0, 1}, {3}, {2}, DType::f32});
  const Value joined = builder.reshape(builder.transpose(out, {0, 2, 1, 3}), {12, 24});
  expect_all_described(*builder.finish({joined}));
}

TEST(StridedMatmul, EpilogueAddsBiasAndTensorAndIsCut) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {2, 5, 8}), w = builder.parameter(DType::f32, {8, 6});
  const Value bias = builder.parameter(DType::f32, {6}), more = builder.parameter(DType::f32, {10, 6});
  const Value y = builder.dot(x, w, {{}, {}, {2}, {0}, DType::f32});
  const Value flat = builder.reshape(y, {10, 6});
  const Value biased = builder.binary(Op::add, flat, builder.broadcast(bias, {10, 6}, {1}));
  const Value sum = builder.binary(Op::add, biased, more);
  const Value cut = builder.binary(Op::maximum, sum, builder.broadcast(builder.scalar(DType::f32, 0), {10, 6}, {}));
  const Graph graph = *builder.finish({cut});
  expect_all_described(graph);
  const auto matmul = describe_matmul(test::calls_of(graph)[0]);
  ASSERT_TRUE(matmul.ok());
  EXPECT_TRUE(matmul->bias && matmul->addend && matmul->relu);
  EXPECT_EQ(matmul->rows, 10);
}

TEST(StridedMatmul, AMatrixForAllOfABatch) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {4, 5, 8}), w = builder.parameter(DType::f32, {8, 6});
  const Value all = builder.broadcast(w, {4, 8, 6}, {1, 2});
  expect_all_described(*builder.finish({builder.dot(x, all, {{0}, {0}, {2}, {1}, DType::f32})}));
}

TEST(StridedMatmul, ConvolutionsOfOneElementAreProducts) {
  for (const bool last : {false, true}) {
    SCOPED_TRACE(last);
    Builder builder;
    const Value x = builder.parameter(DType::f32, last ? Dims{2, 3, 4, 5} : Dims{2, 5, 3, 4});
    const Value w = builder.parameter(DType::f32, {6, 5, 1, 1});
    ConvolutionAttributes how;
    how.input_spatial = how.output_spatial = last ? Dims{1, 2} : Dims{2, 3};
    how.input_feature = how.output_feature = last ? 3 : 1;
    how.kernel_spatial = {2, 3};
    how.strides = how.input_dilation = how.kernel_dilation = {1, 1};
    how.low = how.high = {0, 0};
    how.window_reversal = {false, false};
    expect_all_described(*builder.finish({builder.add(Op::convolution, {x, w}, how)}));
  }
}

TEST(StridedMatmul, NothingIsAProductOfNoRows) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {0, 7}), w = builder.parameter(DType::f32, {7, 3});
  const auto matmul = describe_matmul(test::calls_of(*builder.finish({product(builder, x, w)}))[0]);
  ASSERT_TRUE(matmul.ok()) << matmul.error().message;
  EXPECT_TRUE(matmul->is_empty());
}

TEST(StridedMatmul, RefusesWhatNoBlasComputes) {
  const auto refusal = [](const Graph& graph) {
    const auto matmul = describe_matmul(test::calls_of(graph).at(0));
    EXPECT_FALSE(matmul.ok());
    return matmul.ok() ? Error{} : matmul.error();
  };
  {
    Builder builder;
    const Value x = builder.parameter(DType::s32, {4, 4});
    const Error error = refusal(*builder.finish({builder.dot(x, x, {{}, {}, {1}, {0}, DType::s32})}));
    EXPECT_EQ(error.kind, ErrorKind::unsupported);
    EXPECT_THAT(error.message, HasSubstr("s32"));
  }
  {
    Builder builder;
    const Value x = builder.parameter(DType::f32, {1, 1, 6, 6}), w = builder.parameter(DType::f32, {1, 1, 3, 3});
    ConvolutionAttributes how;
    how.input_spatial = how.output_spatial = how.kernel_spatial = {2, 3};
    how.strides = how.input_dilation = how.kernel_dilation = {1, 1};
    how.low = how.high = {1, 1};
    how.window_reversal = {false, false};
    EXPECT_THAT(refusal(*builder.finish({builder.add(Op::convolution, {x, w}, how)})).message, HasSubstr("window"));
  }
  {
    Builder builder;
    const Value x = builder.parameter(DType::f32, {4, 0}), w = builder.parameter(DType::f32, {0, 3});
    EXPECT_THAT(refusal(*builder.finish({product(builder, x, w)})).message, HasSubstr("nothing"));
  }
}

TEST(StridedMatmul, UnlikeTypesAreRefused) {
  Builder builder;
  const Value x = builder.parameter(DType::f16, {4, 8}), w = builder.parameter(DType::f16, {8, 6});
  const Value more = builder.parameter(DType::f32, {4, 6});
  const Value sum = builder.binary(Op::add, product(builder, x, w), more);
  expect_all_described(*builder.finish({sum}));  // f32 behind f16 is what libraries have
  Builder other;
  const Value y = other.parameter(DType::f16, {4, 8}), v = other.parameter(DType::f16, {8, 6});
  const Value addend = other.parameter(DType::f32, {4, 6});
  const Value narrow = other.convert(other.binary(Op::add, product(other, y, v), addend), DType::f16);
  const Graph call = test::calls_of(*other.finish({narrow})).at(0);
  const auto matmul = describe_matmul(call);
  ASSERT_FALSE(matmul.ok());
  EXPECT_THAT(matmul.error().message, HasSubstr("into f16 with unlike types"));
}

TEST(StridedMatmul, WhatADescriptionWouldDropIsRefused) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {4, 8}), w = builder.parameter(DType::f32, {8, 6});
  const Value y = product(builder, x, w);
  const auto cut = describe_matmul(*builder.finish({builder.convert(builder.convert(y, DType::s32), DType::f32)}));
  ASSERT_FALSE(cut.ok());
  EXPECT_THAT(cut.error().message, HasSubstr("convert in an epilogue"));
  Builder two;
  const Value a = two.parameter(DType::f32, {4, 8}), b = two.parameter(DType::f32, {8, 6});
  const Value c = product(two, a, b);
  const auto both = describe_matmul(*two.finish({c, two.unary(Op::exp, c)}));
  ASSERT_FALSE(both.ok());
  EXPECT_THAT(both.error().message, HasSubstr("several results"));
}

/// Dots with random dimensions in random orders, read through random layouts, written through others.
Graph random_dot(Random& random) {
  Builder builder;
  const auto shuffled = [&](Dims dims) {
    for (std::size_t i = dims.size(); i > 1; --i) std::swap(dims[i - 1], dims[random.below(i)]);
    return dims;
  };
  const auto some = [&](std::int64_t least, std::int64_t most) {
    Dims dims;
    for (std::int64_t count = least + random.below(most - least + 1); count > 0; --count)
      dims.push_back(1 + random.below(4));
    return dims;
  };
  const Dims batch = some(0, 2), rows = some(0, 2), columns = some(0, 2), depth = some(1, 2);
  // An operand whose dimensions are the parts in a random order, of memory in another order.
  const auto operand = [&](const Dims& free, Dims& batch_at, Dims& depth_at) {
    Dims all = batch;
    all.insert(all.end(), free.begin(), free.end());
    all.insert(all.end(), depth.begin(), depth.end());
    Dims order;
    for (std::size_t d = 0; d < all.size(); ++d) order.push_back(d);
    order = shuffled(order);
    Dims dims(all.size()), memory(all.size()), permutation = order;
    for (std::size_t d = 0; d < all.size(); ++d) dims[d] = all[order[d]];
    const auto place = [&](std::size_t part) { return std::find(order.begin(), order.end(), part) - order.begin(); };
    for (std::size_t b = 0; b < batch.size(); ++b) batch_at.push_back(place(b));
    for (std::size_t d = 0; d < depth.size(); ++d) depth_at.push_back(place(batch.size() + free.size() + d));
    Dims across;
    for (std::size_t d = 0; d < all.size(); ++d) across.push_back(d);
    across = shuffled(across);
    for (std::size_t d = 0; d < all.size(); ++d) memory[across[d]] = dims[d];
    return builder.transpose(builder.parameter(DType::f32, memory), across);
  };
  DotAttributes how;
  const Value a = operand(rows, how.lhs_batch, how.lhs_contracting);
  const Value b = operand(columns, how.rhs_batch, how.rhs_contracting);
  Value out = builder.dot(a, b, how);
  if (random.below(2) == 0) {
    Dims order;
    for (std::size_t d = 0; d < batch.size() + rows.size() + columns.size(); ++d) order.push_back(d);
    out = builder.transpose(out, shuffled(order));
  }
  if (random.below(2) == 0) out = builder.binary(Op::add, out, builder.parameter(DType::f32, builder.type(out).dims));
  return *builder.finish({out});
}

TEST(StridedMatmul, RandomDotsAreDescribedOrRefusedWithAReason) {
  Random random(11);
  int described = 0, refused = 0;
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(i);
    for (const Graph& call : test::calls_of(random_dot(random))) {
      if (const auto matmul = describe_matmul(call); !matmul) {
        ++refused;
        EXPECT_EQ(matmul.error().kind, ErrorKind::unsupported);
        EXPECT_FALSE(matmul.error().message.empty());
      } else {
        ++described;
        expect_described(call);
      }
    }
  }
  EXPECT_GT(described, 200);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace stitch::graph
