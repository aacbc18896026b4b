// Conversions between all pairs of integer and float types against the host (tests/data/emulator/convert.cu).
#include <cfenv>

#include "tests/emulator/apply_kernel.h"

namespace stitch::emulator {
namespace {

using test::interesting;

using s8 = std::int8_t;
using u8 = std::uint8_t;
using s16 = std::int16_t;
using u16 = std::uint16_t;
using s32 = std::int32_t;
using u32 = std::uint32_t;
using s64 = std::int64_t;
using u64 = std::uint64_t;
using f32 = float;
using f64 = double;

/// cvt from float to integer: rounds, then saturates; NaN gives 0 (64-bit results of NaN: the lowest bits, PTX ISA).
template <class To, class From>
To saturated(From x) {
  if (std::isnan(x)) return To{0};
  constexpr double lowest = std::numeric_limits<To>::min();
  constexpr double past = 2.0 * static_cast<double>(static_cast<u64>(std::numeric_limits<To>::max()) / 2 + 1);
  if (static_cast<double>(x) <= lowest) return std::numeric_limits<To>::min();
  if (static_cast<double>(x) >= past) return std::numeric_limits<To>::max();
  return static_cast<To>(x);
}

class Convert : public testing::TestWithParam<const char*> {
 protected:
  template <class To, class From, class F>
  void check(const std::string& kernel, const std::vector<From>& x, F&& f) {
    const std::vector<To> y = test::apply<To>(GetParam(), kernel, x);
    test::expect_equal(kernel, x, x, y, [&](From a, From) { return static_cast<To>(f(a)); });
  }
  template <class To, class From>
  void pair(const std::string& from, const std::string& to) {
    const std::string kernel = from + "_to_" + to;
    std::vector<From> x = interesting<From>();
    if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      // C++ leaves out-of-range values open and the compiler uses it; 8-bit results go through a wider register.
      std::erase_if(x, [](From a) {
        return !(a > static_cast<From>(std::numeric_limits<To>::min()) - (sizeof(To) < 8 ? 1 : 0)) ||
               !(a < static_cast<From>(std::numeric_limits<To>::max()));
      });
      check<To>(kernel, x, [](From a) { return static_cast<To>(std::trunc(a)); });
    } else {
      check<To>(kernel, x, [](From a) { return static_cast<To>(a); });
    }
  }
  template <class From>
  void from(const std::string& name) {
    pair<s8, From>(name, "s8");
    pair<u8, From>(name, "u8");
    pair<s16, From>(name, "s16");
    pair<u16, From>(name, "u16");
    pair<s32, From>(name, "s32");
    pair<u32, From>(name, "u32");
    pair<s64, From>(name, "s64");
    pair<u64, From>(name, "u64");
    pair<f32, From>(name, "f32");
    pair<f64, From>(name, "f64");
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, Convert, testing::Values("convert", "convert_sm80"));

TEST_P(Convert, FromIntegers) {
  from<s8>("s8");
  from<u8>("u8");
  from<s16>("s16");
  from<u16>("u16");
  from<s32>("s32");
  from<u32>("u32");
  from<s64>("s64");
  from<u64>("u64");
}
TEST_P(Convert, FromFloats) {
  from<f32>("f32");
  from<f64>("f64");
}

/// static_cast<To> under a rounding mode of the host; volatile, so that nothing is folded or moved across.
template <class To, class From>
auto rounded(int mode) {
  return [mode](From value) {
    const int before = std::fegetround();
    std::fesetround(mode);
    const volatile From from = value;
    const volatile To result = static_cast<To>(from);
    std::fesetround(before);
    return To{result};
  };
}

TEST_P(Convert, FloatsToIntegersSaturate) {
  const std::vector<f32> x = interesting<f32>();
  check<s32>("f32_to_s32_rn", x, [](f32 a) { return saturated<s32>(std::nearbyint(a)); });
  check<s32>("f32_to_s32_rd", x, [](f32 a) { return saturated<s32>(std::floor(a)); });
  check<s32>("f32_to_s32_ru", x, [](f32 a) { return saturated<s32>(std::ceil(a)); });
  std::vector<f64> wide = interesting<f64>();
  std::erase_if(wide, [](f64 a) { return std::isnan(a); });
  check<s64>("f64_to_s64_rn", wide, [](f64 a) { return saturated<s64>(std::nearbyint(a)); });
}

TEST_P(Convert, RoundingModes) {
  check<f32>("f64_to_f32_rd", interesting<f64>(), rounded<f32, f64>(FE_DOWNWARD));
  check<f32>("f64_to_f32_ru", interesting<f64>(), rounded<f32, f64>(FE_UPWARD));
  check<f32>("s32_to_f32_rz", interesting<s32>(), rounded<f32, s32>(FE_TOWARDZERO));
  check<f32>("u64_to_f32_rd", interesting<u64>(), [](u64 a) {
    // Exact in the wider format, so that there is one rounding.
    return rounded<f32, long double>(FE_DOWNWARD)(static_cast<long double>(a));
  });
  check<f64>("s64_to_f64_ru", interesting<s64>(), rounded<f64, s64>(FE_UPWARD));
}

}  // namespace
}  // namespace stitch::emulator
