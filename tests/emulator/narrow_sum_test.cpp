#include "emulator/run/narrow_sum.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace stitch::emulator {
namespace {

using Terms = std::array<double, 32>;
constexpr Terms filled(double value) {
  Terms terms{};
  for (double& each : terms) each = value;
  return terms;
}

TEST(NarrowSum, IsExactWhereBitsReach) {
  EXPECT_EQ(narrow_sum(filled(0).data(), filled(1).data(), 32, 0), 0);
  EXPECT_EQ(narrow_sum(filled(1.5).data(), filled(-2).data(), 32, 100), 4);
  EXPECT_EQ(narrow_sum(filled(1).data(), filled(1).data(), 1, 0x1p13), 0x1p13 + 1);
}

/// Behind 13 bits nothing is left, of products nor of what they are added to (SageAttention2, arXiv 2411.10958).
TEST(NarrowSum, CutsOffWhatIsBehind) {
  EXPECT_EQ(narrow_sum(filled(1).data(), filled(1).data(), 32, 0x1p14), 0x1p14);
  EXPECT_EQ(narrow_sum(filled(-1).data(), filled(1).data(), 32, 0x1p14), 0x1p14);
  EXPECT_EQ(narrow_sum(filled(0).data(), filled(1).data(), 32, 1 + 0x1p-13 + 0x1p-14), 1 + 0x1p-13);
  Terms one = filled(0);
  one[3] = 0x1p10;
  one[20] = 0x1p-4;
  EXPECT_EQ(narrow_sum(one.data(), filled(1).data(), 32, 0), 0x1p10);
  EXPECT_EQ(narrow_sum(filled(0x1p10).data(), filled(1).data(), 32, 0x1p-4), 0x1p15);
}

/// The sum has 13 bits behind its own first one.
TEST(NarrowSum, CutsOffTheSum) {
  Terms terms = filled(1);
  terms[0] = 1 + 0x1p-13;
  EXPECT_EQ(narrow_sum(terms.data(), filled(1).data(), 32, 0), 32);
}

TEST(NarrowSum, KeepsWhatIsNotFinite) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(narrow_sum(filled(1).data(), filled(1).data(), 32, infinity), infinity);
  EXPECT_TRUE(std::isnan(narrow_sum(filled(infinity).data(), filled(0).data(), 32, 0)));
}

}  // namespace
}  // namespace stitch::emulator
