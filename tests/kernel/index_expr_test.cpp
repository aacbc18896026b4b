#include "kernel/index/index_expr.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace stitch::kernel {
namespace {

TEST(IndexPool, SplitsWhatTheRangesProve) {
  IndexPool pool;
  const Index row = pool.variable(0, 4095), column = pool.variable(0, 767);
  const Index flat = pool.add(pool.scale(row, 768), column);
  EXPECT_EQ(pool.divide(flat, 768), row);
  EXPECT_EQ(pool.remainder(flat, 768), column);
  EXPECT_EQ(pool.divide(column, 768), pool.constant(0));
  EXPECT_EQ(pool.remainder(pool.offset(flat, 768 * 5), 768), column);
}

TEST(IndexPool, RejoinsQuotientAndRemainder) {
  IndexPool pool;
  const Index flat = pool.variable(0, 99999);
  const Index again = pool.add(pool.scale(pool.divide(flat, 18), 18), pool.remainder(flat, 18));
  EXPECT_EQ(again, flat);
  const std::vector<Index> box = pool.delinearise(flat, std::vector<std::int64_t>{100, 50, 20});
  const std::vector<std::int64_t> strides = {1000, 20, 1};
  EXPECT_EQ(pool.linear(box, strides), flat);
}

TEST(IndexPool, EqualExpressionsHaveOneName) {
  IndexPool pool;
  const Index a = pool.variable(0, 9), b = pool.variable(0, 9);
  EXPECT_EQ(pool.add(pool.scale(a, 2), b), pool.add(b, pool.add(a, a)));
  EXPECT_EQ(pool.subtract(pool.add(a, b), b), a);
}

TEST(IndexPool, RunsKnowStepAndAlignment) {
  IndexPool pool;
  const Index row = pool.variable(0, 63), column = pool.variable(0, 511);
  const Index address = pool.add(pool.scale(row, 512), column);
  EXPECT_EQ(pool.run(address, column, 4).step, 1);
  EXPECT_TRUE(pool.run(address, column, 4).aligned);
  EXPECT_EQ(pool.run(address, row, 4).step, 512);
  EXPECT_FALSE(pool.run(pool.offset(address, 2), column, 4).aligned);
  EXPECT_FALSE(pool.run(pool.add(pool.scale(row, 513), column), column, 4).aligned);
  // head = column / 64, inner = column mod 64: contiguous within runs of 4, which never cross a head.
  const Index head = pool.divide(column, 64), inner = pool.remainder(column, 64);
  const Index moved = pool.add(pool.scale(head, 8192), inner);
  EXPECT_TRUE(pool.run(moved, column, 4).regular);
  EXPECT_EQ(pool.run(moved, column, 4).step, 1);
  EXPECT_FALSE(pool.run(pool.remainder(column, 18), column, 4).regular);
}

TEST(IndexPool, NormalisationKeepsTheValue) {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    IndexPool pool;
    std::vector<Index> variables, pieces;
    for (int i = 0; i < 3; ++i) {
      variables.push_back(pool.variable(0, random.below(50)));
      pieces.push_back(variables.back());
    }
    // Every expression is built twice: symbolically, and as a function of the values.
    std::unordered_map<Index, std::int64_t> values;
    for (const Index v : variables) values[v] = random.below(pool.high(v) + 1);
    std::vector<std::int64_t> expected;
    for (const Index v : variables) expected.push_back(values[v]);
    for (int step = 0; step < 12; ++step) {
      const std::size_t i = random.below(pieces.size()), j = random.below(pieces.size());
      const std::int64_t c = random.below(12) + 1;
      switch (random.below(4)) {
        case 0: pieces.push_back(pool.add(pieces[i], pieces[j])), expected.push_back(expected[i] + expected[j]); break;
        case 1: pieces.push_back(pool.scale(pieces[i], c)), expected.push_back(expected[i] * c); break;
        case 2: pieces.push_back(pool.divide(pieces[i], c)), expected.push_back(expected[i] / c); break;
        default: pieces.push_back(pool.remainder(pieces[i], c)), expected.push_back(expected[i] % c); break;
      }
      ASSERT_EQ(pool.evaluate(pieces.back(), values), expected.back()) << "round " << round << " step " << step;
      ASSERT_LE(pool.low(pieces.back()), expected.back());
      ASSERT_GE(pool.high(pieces.back()), expected.back());
    }
  }
}

}  // namespace
}  // namespace stitch::kernel
