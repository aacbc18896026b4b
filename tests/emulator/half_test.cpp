// f16 and bf16 arithmetic and conversions, native (sm_90) and as older targets spell it (sm_80), over many patterns
// (tests/data/emulator/half.cu).
#include <algorithm>
#include <cmath>

#include "emulator/lanes/float_format.h"
#include "tests/emulator/apply_kernel.h"

namespace stitch::emulator {
namespace {

using test::apply;

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using s32 = std::int32_t;

struct Format {
  const char* prefix;
  float (*widen)(u16);
  u16 (*narrow)(float);
  float relative;  ///< half a step, for what is not exactly rounded
};
const Format half{"h", half_to_float, float_to_half, 0x1p-10F};
const Format brain{"b", bfloat_to_float, float_to_bfloat, 0x1p-7F};

bool is_nan(const Format& format, u16 x) { return std::isnan(format.widen(x)); }

class Halves : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    for (u32 i = 0; i < 20000; ++i) {
      x_.push_back(static_cast<u16>(i < 6000 ? mix(1, i) : i * 7));
      z_.push_back(static_cast<u16>(i % 5 == 0 ? x_.back() : i % 5 == 1 ? x_.back() ^ 0x8000 : mix(2, i)));
    }
  }
  /// Same bits, or both NaN.
  template <class F>
  void check(const Format& format, const std::string& name, F&& f) {
    const std::string kernel = std::string(format.prefix) + "_" + name;
    const std::vector<u16> y = apply<u16>(GetParam(), kernel, x_, z_);
    int shown = 0;
    for (std::size_t i = 0; i < y.size() && shown < 3; ++i) {
      const u16 wanted = format.narrow(f(format.widen(x_[i]), format.widen(z_[i])));
      if (y[i] == wanted || (is_nan(format, y[i]) && is_nan(format, wanted))) continue;
      ++shown;
      ADD_FAILURE() << GetParam()
                    << fmt::format(" {}({:04x}, {:04x}) is {:04x}, not {:04x}", kernel, x_[i], z_[i], y[i], wanted);
    }
  }
  /// Double rounding is harmless from f32 sums and products of halves; a fused one goes through f64, to odd.
  static float fused(float a, float b, float c) {
    const double exact = static_cast<double>(a) * static_cast<double>(b);
    const double sum = exact + static_cast<double>(c);
    if (!std::isfinite(sum)) return static_cast<float>(sum);
    const double rest = std::abs(exact) > std::abs(static_cast<double>(c)) ? static_cast<double>(c) - (sum - exact)
                                                                           : exact - (sum - static_cast<double>(c));
    float once = sum;
    const double off = static_cast<double>(once) - sum - rest;
    if (off == 0 || !std::isfinite(once)) return once;
    u32 bits = std::bit_cast<u32>(once);
    if (once != 0 && (off > 0) != std::signbit(once)) --bits;
    return std::bit_cast<float>(bits | 1);
  }

  std::vector<u16> x_, z_;
};
INSTANTIATE_TEST_SUITE_P(Targets, Halves, testing::Values("half", "half_sm80"));

TEST_P(Halves, Arithmetic) {
  for (const Format& format : {half, brain}) {
    check(format, "add", [](float a, float b) { return a + b; });
    check(format, "sub", [](float a, float b) { return a - b; });
    check(format, "mul", [](float a, float b) { return a * b; });
    check(format, "fma", [](float a, float b) { return fused(a, b, a); });
    check(format, "max", [](float a, float b) {
      return std::isnan(a) ? b : std::isnan(b) ? a : a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
    });
    check(format, "min_nan", [](float a, float b) {
      return std::isnan(a) ? a : std::isnan(b) ? b : a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
    });
    check(format, "neg", [](float a, float) { return -a; });
    check(format, "abs", [](float, float b) { return std::fabs(b); });
  }
}

TEST_P(Halves, Comparisons) {
  for (const Format& format : {half, brain}) {
    const std::vector<s32> y = apply<s32>(GetParam(), std::string(format.prefix) + "_lt", x_, z_);
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(y[i], format.widen(x_[i]) < format.widen(z_[i]) ? 1 : 0) << x_[i] << " " << z_[i];
    const std::vector<float> product = apply<float>(GetParam(), std::string(format.prefix) + "_float", x_, z_);
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_TRUE(test::same_value(product[i], format.widen(x_[i]) * format.widen(z_[i])));
  }
}

TEST_P(Halves, WholeNumbers) {
  check(half, "floor", [](float a, float) { return std::floor(a); });
  check(half, "rint", [](float a, float) { return std::nearbyint(a); });
  const auto to_int = [](float x, bool nearest) {
    const float whole = nearest ? std::nearbyint(x) : std::trunc(x);
    return std::isnan(x)
               ? 0
               : static_cast<s32>(std::clamp<double>(static_cast<double>(whole), -2147483648.0, 2147483647.0));
  };
  for (const Format& format : {half, brain}) {
    const std::vector<s32> y = apply<s32>(GetParam(), std::string(format.prefix) + "_to_int", x_, z_);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto wanted =
          static_cast<u32>(to_int(format.widen(x_[i]), true)) + static_cast<u32>(to_int(format.widen(z_[i]), false));
      ASSERT_EQ(static_cast<u32>(y[i]), wanted) << format.prefix << x_[i] << " " << z_[i];
    }
  }
}

TEST_P(Halves, FunctionsWithinAStep) {
  const auto close = [&](const Format& format, const std::string& kernel, double tolerance, auto f) {
    const std::vector<u16> y = apply<u16>(GetParam(), kernel, x_, z_);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float wanted = format.widen(format.narrow(f(format.widen(x_[i]))));
      const float got = format.widen(y[i]);
      if (test::same_value(got, wanted)) continue;
      ASSERT_LE(std::abs(got - wanted), std::max(tolerance * format.relative * std::abs(wanted), 1e-7))
          << kernel << " of " << format.widen(x_[i]);
    }
  };
  close(half, "h_exp", 1, [](float a) { return std::exp(a); });
  close(half, "h_rsqrt", 1, [](float a) { return 1 / std::sqrt(std::fabs(a)); });
  close(half, "h_tanh", 2, [](float a) { return std::tanh(a); });
  close(brain, "b_exp2", 1, [](float a) { return std::exp2(a); });
}

TEST_P(Halves, PackedPairs) {
  std::vector<u32> x, z;
  for (std::size_t i = 0; i + 1 < x_.size(); i += 2) {
    x.push_back(x_[i] | u32{x_[i + 1]} << 16);
    z.push_back(z_[i] | u32{z_[i + 1]} << 16);
  }
  const auto check_pairs = [&](const Format& format, const std::string& kernel, auto f) {
    const std::vector<u32> y = apply<u32>(GetParam(), kernel, x, z);
    int shown = 0;
    for (std::size_t i = 0; i < 2 * y.size() && shown < 3; ++i) {
      const auto got = static_cast<u16>(y[i / 2] >> (16 * (i % 2)));
      const u16 wanted = format.narrow(f(format.widen(x_[i]), format.widen(z_[i])));
      if (got == wanted || (is_nan(format, got) && is_nan(format, wanted))) continue;
      ++shown;
      ADD_FAILURE() << kernel << fmt::format("({:04x}, {:04x}) is {:04x}, not {:04x}", x_[i], z_[i], got, wanted);
    }
  };
  const auto saturated = [](float sum) { return sum > 0 ? std::min(sum, 1.0F) : 0.0F; };
  check_pairs(half, "h2_fma", [](float a, float b) { return fused(a, b, a); });
  check_pairs(brain, "b2_fma", [](float a, float b) { return fused(a, b, a); });
  check_pairs(half, "h2_add_sat", [&](float a, float b) { return saturated(a + b); });
  check_pairs(half, "h2_fma_relu", [](float a, float b) {
    const float r = fused(a, b, a);
    return std::isnan(r) ? r : r > 0 ? r : 0.0F;
  });
  check_pairs(brain, "b2_max", [](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? std::nanf("") : a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
  });
}

/// The 8-bit pattern nearest to x among the finite ones; larger magnitudes become the largest.
std::uint8_t nearest_f8(float x, int exponent_bits, int mantissa_bits, u32 largest) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto value = [&](u32 bits) {
    const int exponent = bits >> mantissa_bits;
    const u32 mantissa = bits & ((1U << mantissa_bits) - 1);
    return exponent == 0
               ? std::ldexp(static_cast<double>(mantissa), 1 - bias - mantissa_bits)
               : std::ldexp(static_cast<double>((1U << mantissa_bits) + mantissa), exponent - bias - mantissa_bits);
  };
  const u32 sign = std::signbit(x) ? 0x80 : 0;
  const double magnitude = std::min(std::abs(static_cast<double>(x)), value(largest));
  u32 best = 0;
  for (u32 bits = 1; bits <= largest; ++bits) {
    const double gap = std::abs(magnitude - value(bits)), before = std::abs(magnitude - value(best));
    if (gap < before || (gap == before && bits % 2 == 0)) best = bits;
  }
  return static_cast<std::uint8_t>(sign | best);
}

TEST_P(Halves, ConversionsFromFloats) {
  const std::vector<float> x = test::interesting<float>();
  const std::vector<float> zeros(x.size(), 0.0F);
  const auto bits = [&](const char* kernel) { return apply<u16>(GetParam(), kernel, x, zeros); };
  const std::vector<u16> h = bits("f_to_half"), b = bits("f_to_bf16"), hz = bits("f_to_half_rz"),
                         bz = bits("f_to_bf16_rz");
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(is_nan(half, h[i]) && is_nan(brain, b[i]) && is_nan(half, hz[i]) && is_nan(brain, bz[i]));
      continue;
    }
    EXPECT_EQ(h[i], float_to_half(x[i] + 0.0F)) << x[i];
    EXPECT_EQ(b[i], float_to_bfloat(x[i] + 0.0F)) << x[i];
    EXPECT_EQ(bz[i], static_cast<u16>(std::bit_cast<u32>(x[i]) >> 16)) << x[i];
    // Towards zero: the largest half that is not larger in magnitude.
    u16 magnitude = float_to_half(std::fabs(x[i]));
    if (half_to_float(magnitude) > std::fabs(x[i])) --magnitude;
    EXPECT_EQ(hz[i] & 0x7FFF, magnitude) << x[i];
  }
}

TEST_P(Halves, EightBitFloats) {
  std::vector<std::uint64_t> pairs;  // two floats each
  const std::vector<float> x = test::interesting<float>();
  for (std::size_t i = 0; i < x.size(); ++i)
    pairs.push_back(std::bit_cast<u32>(x[i]) | std::uint64_t{std::bit_cast<u32>(x[(i + 7) % x.size()])} << 32);
  const auto check_f8 = [&](const char* kernel, int exponent_bits, int mantissa_bits, u32 largest) {
    const std::vector<u16> y = apply<u16>(GetParam(), kernel, pairs, pairs);
    for (std::size_t i = 0; i < 2 * y.size(); ++i) {
      const float value = x[(i / 2 + 7 * (i % 2)) % x.size()];
      const auto got = static_cast<std::uint8_t>(y[i / 2] >> (8 * (i % 2)));
      if (std::isnan(value)) {
        ASSERT_GT(got & 0x7F, largest);
      } else {
        ASSERT_EQ(got, nearest_f8(value, exponent_bits, mantissa_bits, largest)) << kernel << " of " << value;
      }
    }
  };
  check_f8("f2_to_e4m3", 4, 3, 0x7E);
  check_f8("f2_to_e5m2", 5, 2, 0x7B);
}

}  // namespace
}  // namespace stitch::emulator
