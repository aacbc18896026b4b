#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace stitch {
namespace {

TEST(Random, ElementsArePureFunctionsOfSeedAndIndex) {
  Random stream(7);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(stream(), random_at(7, i));
  EXPECT_NE(random_at(7, 0), random_at(8, 0));
  static_assert(random_at(1, 2) == random_at(1, 2));
}

TEST(Random, ConsecutiveSeedsAndIndicesDoNotCollide) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    for (std::uint64_t index = 0; index < 256; ++index) {
      EXPECT_TRUE(seen.insert(random_at(seed, index)).second) << seed << " " << index;
    }
  }
}

TEST(Random, UniformHasTheMomentsOfTheUniformDistribution) {
  constexpr int count = 100'000;
  double sum = 0, squares = 0, products = 0, previous = 0.5;
  for (int i = 0; i < count; ++i) {
    const double u = uniform_at(42, static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
    products += (u - 0.5) * (previous - 0.5);
    previous = u;
  }
  // Five standard deviations each.
  EXPECT_NEAR(sum / count, 0.5, 5 * std::sqrt(1.0 / 12 / count));
  EXPECT_NEAR(squares / count, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / count));
  EXPECT_NEAR(products / count, 0, 5 / 12.0 / std::sqrt(count));
}

TEST(Random, EveryBitIsOnHalfOfTheTime) {
  constexpr int count = 20'000;
  for (int bit = 0; bit < 64; ++bit) {
    int on = 0;
    for (std::uint64_t i = 0; i < count; ++i) on += static_cast<int>(random_at(1, i) >> bit & 1);
    EXPECT_NEAR(on, count / 2, 5 * std::sqrt(count) / 2) << bit;
  }
}

TEST(Random, BelowStaysBelow) {
  Random random(3);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.below(7));
  EXPECT_EQ(seen.size(), 7U);
  EXPECT_EQ(*seen.rbegin(), 6U);
  EXPECT_EQ(random.below(1), 0U);
}

}  // namespace
}  // namespace stitch
