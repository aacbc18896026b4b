#include "tuning/contractions/library_price.h"

#include <gtest/gtest.h>

#include "base/device_spec.h"
#include "graph/builder.h"

namespace stitch::tuning {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::Value;

LibraryPrice price_of(const std::function<Value(Builder&, Value)>& behind) {
  Builder b;
  const Value x = b.parameter(DType::f16, {12288, 768}), w = b.parameter(DType::f16, {768, 768});
  const Value product = b.dot(x, w, {{}, {}, {1}, {0}, DType::f16});
  const auto problem = kernel::derive_contraction(*b.finish({behind(b, product)}));
  EXPECT_TRUE(problem) << problem.error().message;
  const auto price = library_price(*problem, *find_device("h100"));
  EXPECT_TRUE(price) << price.error().message;
  return *price;
}

/// On an H100 cuBLASLt takes 28 us for such a product, and 88 in 12 calls for 12 heads (bench/results/gpu).
TEST(LibraryPrices, HeadsAreACallEach) {
  const LibraryPrice plain = price_of([](Builder&, Value x) { return x; });
  const LibraryPrice heads = price_of([](Builder& b, Value x) {
    return b.transpose(b.reshape(x, {32, 384, 12, 64}), {0, 2, 1, 3});
  });
  EXPECT_GT(heads.calls_us, 2 * plain.calls_us);
  EXPECT_EQ(plain.rest_us, 0);
  EXPECT_EQ(heads.rest_us, 0);
}

TEST(LibraryPrices, WhatNoCallComputesIsAKernel) {
  const LibraryPrice plain = price_of([](Builder&, Value x) { return x; });
  const LibraryPrice rectified = price_of([](Builder& b, Value x) {
    return b.binary(Op::maximum, x, b.filled(DType::f16, {12288, 768}, 0));
  });
  const LibraryPrice gated =
      price_of([](Builder& b, Value x) { return b.binary(Op::multiply, x, b.unary(Op::logistic, x)); });
  EXPECT_EQ(rectified.rest_us, 0) << "a library's epilogue";
  EXPECT_NEAR(gated.calls_us, plain.calls_us, 1e-9) << "the call leaves the product as it is";
  const double bytes = 2.0 * 12288 * 768 * 2;  // read and written
  EXPECT_GT(gated.rest_us, bytes / find_device("h100")->dram_bandwidth * 1e6);
}

/// A norm behind a product, in f32: the stream is stored as it is, and read by the norm's kernel.
TEST(LibraryPrices, RowsAreOneKernelBehindACall) {
  const LibraryPrice plain = price_of([](Builder&, Value x) { return x; });
  const LibraryPrice normed = price_of([](Builder& b, Value x) {
    const Value wide = b.convert(x, DType::f32);
    const Value squares = b.reduce(graph::ReduceKind::sum, b.binary(Op::multiply, wide, wide), {1});
    const Value scale = b.broadcast(b.unary(Op::rsqrt, squares), {12288, 768}, {0});
    return b.convert(b.binary(Op::multiply, wide, scale), DType::f16);
  });
  const double apart = 2.0 * 12288 * 768 * 2 / find_device("h100")->copy_bandwidth() * 1e6;
  EXPECT_GT(normed.calls_us, plain.calls_us + apart);
  EXPECT_LT(normed.calls_us, plain.calls_us + apart + 5) << "a launch besides";
  EXPECT_EQ(normed.rest_us, 0);
}

}  // namespace
}  // namespace stitch::tuning
