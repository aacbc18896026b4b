// The CUDA math library as NVRTC inlines it, against the host's: errors in units of the last place as the CUDA C++
// Programming Guide (mathematical functions appendix) promises them (tests/data/emulator/math_f32.cu, math_f64.cu).
#include <algorithm>
#include <cfenv>
#include <cmath>

#include "tests/emulator/apply_kernel.h"

namespace stitch::emulator {
namespace {

using test::apply;
using test::interesting;

/// Distance in representable values; NaNs are equal, infinities one step past the largest number.
template <class T>
double ulps(T got, T wanted) {
  if (test::same_value(got, wanted) || got == wanted) return 0;
  if (std::isnan(got) || std::isnan(wanted)) return HUGE_VAL;
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  const auto order = [](T x) {
    const Bits bits = std::bit_cast<Bits>(x);
    return bits >= 0 ? bits : std::numeric_limits<Bits>::min() - bits;
  };
  if (std::signbit(got) != std::signbit(wanted)) return HUGE_VAL;
  return std::abs(static_cast<double>(order(got) - order(wanted)));
}

template <class T>
struct Unary {
  const char* kernel;
  long double (*f)(long double);
  double ulps;
  T lowest = -std::numeric_limits<T>::infinity();  ///< arguments outside are left out
  T highest = std::numeric_limits<T>::infinity();
  double absolute = 0;  ///< allowed instead
};
template <class T>
void PrintTo(const Unary<T>& row, std::ostream* out) {
  *out << row.kernel;
}

template <class T>
std::vector<T> arguments(T lowest, T highest) {
  std::vector<T> x = interesting<T>();
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const double u = static_cast<double>(mix(40, i) >> 11) * 0x1p-53;
    x.push_back(static_cast<T>((u - 0.5) * (i % 3 == 0 ? 2 : i % 3 == 1 ? 40 : 400)));
  }
  std::erase_if(x, [&](T v) { return v < lowest || v > highest; });
  return x;
}

template <class T>
void check(const std::string& file, const Unary<T>& row) {
  const std::vector<T> x = arguments<T>(row.lowest, row.highest);
  const std::vector<T> y = apply<T>(file, row.kernel, x);
  int shown = 0;
  for (std::size_t i = 0; i < x.size() && shown < 3; ++i) {
    const auto wanted = static_cast<T>(row.f(static_cast<long double>(x[i])));
    if (ulps(y[i], wanted) <= row.ulps || std::abs(y[i] - wanted) <= static_cast<T>(row.absolute)) continue;
    ++shown;
    ADD_FAILURE() << row.kernel << " of " << test::bits_text(x[i]) << " gives " << test::bits_text(y[i]) << ", not "
                  << test::bits_text(wanted) << ": " << ulps(y[i], wanted) << " ulp";
  }
}

using L = long double;

class MathF32 : public testing::TestWithParam<Unary<float>> {};
TEST_P(MathF32, WithinThePromisedError) { check("math_f32", GetParam()); }
const Unary<float> f32_rows[] = {
    {"k_exp", [](L x) { return std::exp(x); }, 2},
    {"k_exp2", [](L x) { return std::exp2(x); }, 2},
    {"k_exp10", [](L x) { return std::pow(L{10}, x); }, 2},
    {"k_expm1", [](L x) { return std::expm1(x); }, 1},
    {"k_log", [](L x) { return std::log(x); }, 1},
    {"k_log2", [](L x) { return std::log2(x); }, 1},
    {"k_log10", [](L x) { return std::log10(x); }, 2},
    {"k_log1p", [](L x) { return std::log1p(x); }, 1},
    {"k_sqrt", [](L x) { return std::sqrt(x); }, 0},
    {"k_rsqrt", [](L x) { return 1 / std::sqrt(x); }, 2, 1e-37F},
    {"k_cbrt", [](L x) { return std::cbrt(x); }, 1},
    {"k_sin", [](L x) { return std::sin(x); }, 2, -1e6F, 1e6F},
    {"k_cos", [](L x) { return std::cos(x); }, 2, -1e6F, 1e6F},
    {"k_tan", [](L x) { return std::tan(x); }, 4, -1e6F, 1e6F},
    {"k_asin", [](L x) { return std::asin(x); }, 2},
    {"k_acos", [](L x) { return std::acos(x); }, 2},
    {"k_atan", [](L x) { return std::atan(x); }, 2},
    {"k_sinh", [](L x) { return std::sinh(x); }, 3},
    {"k_cosh", [](L x) { return std::cosh(x); }, 2},
    {"k_tanh", [](L x) { return std::tanh(x); }, 2},
    {"k_asinh", [](L x) { return std::asinh(x); }, 3},
    {"k_acosh", [](L x) { return std::acosh(x); }, 4},
    {"k_atanh", [](L x) { return std::atanh(x); }, 3},
    {"k_erf", [](L x) { return std::erf(x); }, 2},
    {"k_erfc", [](L x) { return std::erfc(x); }, 4, -1e30F, 9},
    {"k_floor", [](L x) { return std::floor(x); }, 0},
    {"k_ceil", [](L x) { return std::ceil(x); }, 0},
    {"k_trunc", [](L x) { return std::trunc(x); }, 0},
    {"k_rint", [](L x) { return std::nearbyint(x); }, 0},
    {"k_round", [](L x) { return std::round(x); }, 0},
    {"k_fabs", [](L x) { return std::fabs(x); }, 0},
    {"k_reciprocal", [](L x) { return 1 / x; }, 0},
    {"k_sigmoid", [](L x) { return 1 / (1 + std::exp(-x)); }, 3, -80, 80},
    {"k_saturate", [](L x) { return x > 0 ? std::min(x, L{1}) : L{0}; }, 0},
    {"k_is_finite", [](L x) { return std::isfinite(x) ? L{1} : L{0}; }, 0},
    {"k_is_nan", [](L x) { return std::isnan(x) ? L{1} : L{0}; }, 0},
    {"k_is_inf", [](L x) { return std::isinf(x) ? L{1} : L{0}; }, 0},
    // Intrinsics: 2 + floor(|1.173 x|) ulp; absolute errors elsewhere.
    {"k_fast_exp", [](L x) { return std::exp(x); }, 96, -80, 80},
    {"k_fast_log", [](L x) { return std::log(x); }, 3, 1e-37F, 1e37F, 1e-6},
    {"k_fast_sin", [](L x) { return std::sin(x); }, 0, -3.14159F, 3.14159F, 0x1p-21},
    {"k_fast_cos", [](L x) { return std::cos(x); }, 0, -3.14159F, 3.14159F, 0x1p-21},
};
INSTANTIATE_TEST_SUITE_P(Table, MathF32, testing::ValuesIn(f32_rows),
                         [](const auto& each) { return std::string(each.param.kernel + 2); });

class MathF64 : public testing::TestWithParam<Unary<double>> {};
TEST_P(MathF64, WithinThePromisedError) { check("math_f64", GetParam()); }
const Unary<double> f64_rows[] = {
    {"k_exp", [](L x) { return std::exp(x); }, 1},
    {"k_expm1", [](L x) { return std::expm1(x); }, 1},
    {"k_log", [](L x) { return std::log(x); }, 1},
    {"k_log1p", [](L x) { return std::log1p(x); }, 1},
    {"k_sqrt", [](L x) { return L{std::sqrt(static_cast<double>(x))}; }, 0},  // rounded once
    {"k_rsqrt", [](L x) { return 1 / std::sqrt(x); }, 1, 1e-300},
    {"k_cbrt", [](L x) { return std::cbrt(x); }, 1},
    {"k_sin", [](L x) { return std::sin(x); }, 2, -1e15, 1e15},
    {"k_cos", [](L x) { return std::cos(x); }, 2, -1e15, 1e15},
    {"k_tanh", [](L x) { return std::tanh(x); }, 1},
    {"k_atan", [](L x) { return std::atan(x); }, 2},
    {"k_erf", [](L x) { return std::erf(x); }, 2},
    {"k_floor", [](L x) { return std::floor(x); }, 0},
    {"k_rint", [](L x) { return std::nearbyint(x); }, 0},
    {"k_reciprocal", [](L x) { return 1 / x; }, 0},
};
INSTANTIATE_TEST_SUITE_P(Table, MathF64, testing::ValuesIn(f64_rows),
                         [](const auto& each) { return std::string(each.param.kernel + 2); });

template <class T, class F>
void check_binary(const std::string& file, const std::string& kernel, double allowed, F&& f) {
  std::vector<T> x, z;
  test::interesting_pairs(x, z);
  const std::vector<T> y = apply<T>(file, kernel, x, z);
  int shown = 0;
  for (std::size_t i = 0; i < x.size() && shown < 3; ++i) {
    const T wanted = f(x[i], z[i]);
    if (ulps(y[i], wanted) <= allowed) continue;
    ++shown;
    ADD_FAILURE() << kernel << " of " << test::bits_text(x[i]) << " and " << test::bits_text(z[i]) << " gives "
                  << test::bits_text(y[i]) << ", not " << test::bits_text(wanted);
  }
}

/// f of volatile copies, in a rounding mode of the host.
template <class T, class F>
T in_mode(int mode, F f, T a, T b) {
  const int before = std::fegetround();
  std::fesetround(mode);
  const volatile T x = a, y = b;
  const volatile T result = f(x, y);
  std::fesetround(before);
  return result;
}

TEST(MathOfTwo, F32) {
  const auto check32 = [](const char* kernel, double allowed, auto f) {
    check_binary<float>("math_f32", kernel, allowed, f);
  };
  check32("k_divide", 0, [](float a, float b) { return a / b; });
  check32("k_pow", 8, [](float a, float b) { return static_cast<float>(std::pow(L{a}, L{b})); });
  check32("k_atan2", 3, [](float a, float b) { return static_cast<float>(std::atan2(L{a}, L{b})); });
  check32("k_fmod", 0, [](float a, float b) { return std::fmod(a, b); });
  check32("k_remainder", 0, [](float a, float b) { return std::remainder(a, b); });
  check32("k_hypot", 3, [](float a, float b) { return static_cast<float>(std::hypot(L{a}, L{b})); });
  const auto pick = [](float a, float b, bool a_wins) { return std::isnan(a) ? b : std::isnan(b) || a_wins ? a : b; };
  check32("k_fmax", 0, [&](float a, float b) { return pick(a, b, a > b); });
  check32("k_fmin", 0, [&](float a, float b) { return pick(a, b, a < b); });
  check32("k_copysign", 0, [](float a, float b) { return std::copysign(a, b); });
}

TEST(MathOfTwo, F32InEveryRoundingMode) {
  const auto check32 = [](const char* kernel, int mode, auto f) {
    check_binary<float>("math_f32", kernel, 0, [&](float a, float b) { return in_mode(mode, f, a, b); });
  };
  const auto add = [](float a, float b) { return a + b; };
  const auto multiply = [](float a, float b) { return a * b; };
  const auto divide = [](float a, float b) { return a / b; };
  check32("k_add_up", FE_UPWARD, add);
  check32("k_add_down", FE_DOWNWARD, add);
  check32("k_add_zero", FE_TOWARDZERO, add);
  check32("k_mul_up", FE_UPWARD, multiply);
  check32("k_mul_down", FE_DOWNWARD, multiply);
  check32("k_div_up", FE_UPWARD, divide);
  check32("k_div_zero", FE_TOWARDZERO, divide);
  check32("k_fma_down", FE_DOWNWARD, [](float a, float b) { return std::fma(a, b, 0.1F); });
}

TEST(MathOfTwo, F64) {
  const auto check64 = [](const char* kernel, double allowed, auto f) {
    check_binary<double>("math_f64", kernel, allowed, f);
  };
  check64("k_divide", 0, [](double a, double b) { return a / b; });
  check64("k_pow", 2, [](double a, double b) { return std::pow(a, b); });
  check64("k_fmod", 0, [](double a, double b) { return std::fmod(a, b); });
  check64("k_atan2", 2, [](double a, double b) { return std::atan2(a, b); });
  check64("k_add_up", 0, [](double a, double b) {
    return in_mode(
        FE_UPWARD, [](double x, double y) { return x + y; }, a, b);
  });
  check64("k_mul_zero", 0, [](double a, double b) {
    return in_mode(
        FE_TOWARDZERO, [](double x, double y) { return x * y; }, a, b);
  });
  check64("k_fma_down", 0, [](double a, double b) {
    return in_mode(
        FE_DOWNWARD, [](double x, double y) { return std::fma(x, y, 0.1); }, a, b);
  });
  check64("k_div_up", 0, [](double a, double b) {
    return in_mode(
        FE_UPWARD, [](double x, double y) { return x / y; }, a, b);
  });
}

}  // namespace
}  // namespace stitch::emulator
