#include "graph/literal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "base/random.h"

namespace stitch::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::uint64_t bits_of(DType dtype, double value) {
  std::byte memory[8] = {};
  store_element(dtype, value, memory);
  std::uint64_t bits = 0;
  std::memcpy(&bits, memory, sizeof bits);
  return bits;
}

double value_of(DType dtype, std::uint64_t bits) {
  std::byte memory[8];
  std::memcpy(memory, &bits, sizeof bits);
  return load_element(dtype, memory);
}

class NarrowFloats : public ::testing::TestWithParam<DType> {};

TEST_P(NarrowFloats, EveryBitPatternSurvives) {
  const DType dtype = GetParam();
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << (8 * byte_size(dtype)); ++bits) {
    const double value = value_of(dtype, bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(round_to(dtype, value)));
    } else {
      ASSERT_EQ(bits_of(dtype, value), bits) << value;
    }
  }
}

/// Rounding as the definition has it: the nearest of all values, the one with an even last bit when two are.
TEST_P(NarrowFloats, RoundsToTheNearestOfAllValues) {
  const DType dtype = GetParam();
  std::map<double, std::uint64_t> values;  // finite, non-negative
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << (8 * byte_size(dtype) - 1); ++bits) {
    if (const double value = value_of(dtype, bits); std::isfinite(value)) values[value] = bits;
  }
  const double largest = values.rbegin()->first;
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    double x = std::ldexp(1 + random.uniform(), static_cast<int>(random.below(60)) - 30);
    if (i % 4 == 0) {  // halfway between neighbours, and a hair beside it
      auto at = values.lower_bound(std::min(x, largest));
      if (at == values.begin() || at == values.end()) continue;
      const double middle = (at->first + std::prev(at)->first) / 2;
      x = i % 8 == 0 ? middle : std::nextafter(middle, random.below(2) == 0 ? 0 : infinity);
    }
    if (x > largest) continue;
    const auto above = values.lower_bound(x);
    double nearest = above->first;
    if (above != values.begin()) {
      const auto below = std::prev(above);
      const double up = above->first - x, down = x - below->first;
      if (down < up || (down == up && below->second % 2 == 0)) nearest = below->first;
    }
    ASSERT_EQ(round_to(dtype, x), nearest) << x;
    ASSERT_EQ(round_to(dtype, -x), -nearest) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, NarrowFloats, ::testing::Values(DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2),
                         [](const auto& param_info) { return std::string(to_string(param_info.param)); });

TEST(Literal, OverflowZeroAndNan) {
  struct Case {
    DType dtype;
    double value;
    double expected;
  };
  const Case cases[] = {
      {DType::f16, 65519.99, 65504},
      {DType::f16, 65520, infinity},
      {DType::f16, -1e300, -infinity},
      {DType::f16, 2.9e-8, 0},
      {DType::f16, 3.0e-8, 0x1p-24},
      {DType::bf16, 0x1.ffp127, infinity},
      {DType::bf16, 0x1.fefffp127, 0x1.fep127},
      {DType::f8e4m3, 464, 448},
      {DType::f8e4m3, 464.01, nan},
      {DType::f8e4m3, infinity, nan},
      {DType::f8e5m2, 61440, infinity},
      {DType::f8e5m2, 61439, 57344},
      {DType::f32, 1e39, infinity},
      {DType::f32, 0.1, 0.10000000149011612},
      {DType::f64, 0.1, 0.1},
      {DType::f16, nan, nan},
      {DType::pred, nan, 1},
      {DType::pred, 0.5, 1},
      {DType::pred, -0.0, 0},
  };
  for (const Case& c : cases) {
    const double actual = round_to(c.dtype, c.value);
    if (std::isnan(c.expected)) {
      EXPECT_TRUE(std::isnan(actual)) << to_string(c.dtype) << " " << c.value;
    } else {
      EXPECT_EQ(actual, c.expected) << to_string(c.dtype) << " " << c.value;
    }
  }
  EXPECT_TRUE(std::signbit(round_to(DType::f8e5m2, -0.0)));
}

TEST(Literal, FloatsToIntegersTruncateAndSaturate) {
  struct Case {
    DType dtype;
    double value;
    double expected;
  };
  const Case cases[] = {
      {DType::s8, 1.9, 1},
      {DType::s8, -1.9, -1},
      {DType::s8, 127.9, 127},
      {DType::s8, 128, 127},
      {DType::s8, -129, -128},
      {DType::u8, -0.9, 0},
      {DType::u8, -5, 0},
      {DType::u8, 256, 255},
      {DType::s16, 4e9, 32767},
      {DType::u16, 65535.5, 65535},
      {DType::s32, 2147483647.5, 2147483647},
      {DType::s32, 3e9, 2147483647},
      {DType::s32, -3e9, -2147483648.0},
      {DType::u32, 4294967295.5, 4294967295},
      {DType::u32, 1e300, 4294967295},
      {DType::s64, 1e300, 9223372036854775807.0},
      {DType::s64, -infinity, -9223372036854775808.0},
      {DType::u64, infinity, 18446744073709551615.0},
      {DType::u64, -1, 0},
      {DType::s32, nan, 0},
      {DType::u64, nan, 0},
  };
  for (const Case& c : cases) EXPECT_EQ(round_to(c.dtype, c.value), c.expected) << to_string(c.dtype) << " " << c.value;
}

TEST(Literal, IntegersAreExactInAllSixtyFourBits) {
  struct Case {
    DType dtype;
    std::int64_t stored, loaded;
  };
  const Case cases[] = {
      {DType::s64, INT64_MIN, INT64_MIN},
      {DType::s64, INT64_MAX, INT64_MAX},
      {DType::u64, -1, -1},
      {DType::u32, -1, 4294967295},
      {DType::s32, 4294967295, -1},
      {DType::u8, 257, 1},
      {DType::s8, 255, -1},
      {DType::u16, -1, 65535},
      {DType::s16, 32768, -32768},
      {DType::pred, 256, 1},
      {DType::pred, 0, 0},
  };
  for (const Case& c : cases) {
    std::byte memory[8] = {};
    store_integer(c.dtype, c.stored, memory);
    EXPECT_EQ(load_integer(c.dtype, memory), c.loaded) << to_string(c.dtype) << " " << c.stored;
  }
}

TEST(Literal, ConstantsHoldWhatTheyAreGiven) {
  const double values[] = {1, -2, 3.14159};
  const ConstantAttributes floats = dense({DType::f16, {3}}, values);
  EXPECT_EQ(floats.data.size(), 6U);
  EXPECT_EQ(element(floats, 2), 3.140625);
  EXPECT_FALSE(is_splat(floats));
  const ConstantAttributes same = splat({DType::f32, {2, 3}}, 0.5);
  EXPECT_EQ(same.data.size(), 4U) << "one element stands for all";
  EXPECT_TRUE(is_splat(same));
  EXPECT_EQ(element(same, 5), 0.5);
  EXPECT_EQ(expanded(same), dense({DType::f32, {2, 3}}, std::vector<double>(6, 0.5)).data);
  const std::int64_t integers[] = {-1, INT64_MIN};
  EXPECT_EQ(element(dense_integers({DType::u64, {2}}, integers), 0), 18446744073709551615.0);
  EXPECT_FALSE(is_splat(ConstantAttributes{{DType::f32, {0}}, {}}));
  EXPECT_TRUE(is_splat(splat({DType::f32, {}}, 1)));
}

TEST(Literal, ZerosOfBothSignsAreNoSplat) {
  const double zeros[] = {0.0, -0.0};
  EXPECT_FALSE(is_splat(dense({DType::f32, {2}}, zeros)));
}

}  // namespace
}  // namespace stitch::graph
