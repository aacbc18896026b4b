// The device headers of codegen/device on the emulator, against the host: reductions, vector access, grid and cluster
// barriers, and the scalar functions whose meaning the operators of the graph fix (tests/data/emulator/device.cu).
#include <algorithm>
#include <functional>

#include "emulator/lanes/float_format.h"
#include "tests/emulator/apply_kernel.h"

namespace stitch::emulator {
namespace {

using test::apply;
using test::get;
using test::interesting;
using test::interesting_pairs;
using test::load_kernel;
using test::make;
using test::noise;
using test::put;
using test::run_clean;
using test::shape;

using s8 = std::int8_t;
using u8 = std::uint8_t;
using s16 = std::int16_t;
using u16 = std::uint16_t;
using s32 = std::int32_t;
using u32 = std::uint32_t;
using s64 = std::int64_t;
using u64 = std::uint64_t;

/// Runs a reduction over blocks of 128 and folds the same way on the host: by lanes in a butterfly, then in order.
template <class S, class T, class F, class Widen, class Narrow>
void check_reduction(const std::string& kernel, const std::vector<S>& x, F&& combine, Widen&& widen, Narrow&& narrow) {
  Memory memory;
  const Buffer y = make(memory, "y", x.size() * sizeof(S));
  ParameterBlock parameters;
  parameters.add(y).add(put(memory, "x", x));
  run_clean(load_kernel("device", kernel), shape(static_cast<u32>(x.size() / 128), 128), parameters, memory);
  std::vector<S> wanted;
  for (std::size_t block = 0; block < x.size(); block += 128) {
    std::optional<T> total;
    for (std::size_t warp = 0; warp < 128; warp += 32) {
      T lanes[32];
      for (std::size_t i = 0; i < 32; ++i) lanes[i] = widen(x[block + warp + i]);
      for (std::size_t width = 16; width > 0; width /= 2) {
        for (std::size_t i = 0; i < width; ++i) lanes[i] = combine(lanes[i], lanes[i + width]);
      }
      total = total ? combine(*total, lanes[0]) : lanes[0];
    }
    wanted.insert(wanted.end(), 128, narrow(*total));
  }
  EXPECT_EQ(get<S>(memory, y), wanted) << kernel;
}

template <class T, class F>
void check_reduction(const std::string& kernel, const std::vector<T>& x, F&& combine) {
  check_reduction<T, T>(kernel, x, combine, std::identity{}, std::identity{});
}

template <class T>
std::vector<T> numbers(std::size_t count) {
  std::vector<T> values;
  for (const float v : noise(count, 20)) values.push_back(static_cast<T>(v * 60));
  return values;
}

TEST(DeviceHeaders, Reductions) {
  const auto add = [](auto a, auto b) { return static_cast<decltype(a)>(a + b); };
  const auto max = [](auto a, auto b) { return std::max(a, b); };
  const auto min = [](auto a, auto b) { return std::min(a, b); };
  check_reduction("sum_f32", noise(384, 1), add);
  check_reduction("sum_f64", numbers<double>(256), add);
  check_reduction("max_f32", noise(256, 2), max);
  check_reduction("min_f64", numbers<double>(256), min);
  check_reduction("sum_s32", numbers<s32>(256), add);
  check_reduction("min_s16", numbers<s16>(256), min);
  check_reduction("xor_s64", numbers<s64>(256), [](s64 a, s64 b) { return a ^ b; });
  std::vector<u8> bytes(256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<u8>(mix(3, i) % 200);
  check_reduction("max_u8", bytes, max);
  std::vector<u8> flags(384, 1);
  flags[200] = 0;
  check_reduction("and_pred", flags, [](u8 a, u8 b) { return static_cast<u8>(a & b); });
  std::vector<u16> brains, halves;
  for (const float v : noise(256, 4)) {
    brains.push_back(float_to_bfloat(v));
    halves.push_back(float_to_half(1 + v / 100));
  }
  check_reduction<u16, float>("sum_bf16", brains, add, bfloat_to_float, float_to_bfloat);
  check_reduction<u16, float>("product_f16", halves, std::multiplies<float>{}, half_to_float, float_to_half);
}

TEST(DeviceHeaders, MaximumPassesNanOn) {
  std::vector<float> x = noise(256, 5);
  x[77] = std::numeric_limits<float>::quiet_NaN();
  Memory memory;
  const Buffer y = make(memory, "y", 1024);
  ParameterBlock parameters;
  parameters.add(y).add(put(memory, "x", x));
  run_clean(load_kernel("device", "max_f32"), shape(2, 128), parameters, memory);
  const std::vector<float> result = get<float>(memory, y);
  EXPECT_TRUE(std::isnan(result[0]));
  EXPECT_EQ(result[128], *std::max_element(x.begin() + 128, x.end()));
}

TEST(DeviceHeaders, ArgmaxTakesTheFirstOfEquals) {
  std::vector<float> x = noise(128 * 4, 6);
  x[40] = x[90] = x[125] = 5;  // a tie
  x[128 + 3] = std::nanf("");  // NaN is the most extreme
  x[256 + 127] = 1e30F;        // at the end
  std::fill_n(x.begin() + 384, 128, -1.0F);
  Memory memory;
  const Buffer y = make(memory, "y", 32);
  ParameterBlock parameters;
  parameters.add(y).add(put(memory, "x", x));
  run_clean(load_kernel("device", "argmax"), shape(4, 128), parameters, memory);
  EXPECT_EQ(get<s64>(memory, y), (std::vector<s64>{40, 3, 127, 0}));
}

template <class T>
void check_copy(const std::string& kernel, std::size_t vector, u64 requests_for_whole_warp) {
  const std::size_t whole = vector * 64 * 3;
  for (const std::size_t count : {whole, whole + 1, whole + vector - 1, std::size_t{1}}) {
    std::vector<T> x(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<T>(mix(7, i));
    Memory memory;
    const Buffer y = make(memory, "y", count * sizeof(T));
    ParameterBlock parameters;
    parameters.add(y).add(put(memory, "x", x)).add(static_cast<int>(count));
    const LaunchReport report = run_clean(load_kernel("device", kernel), shape(4, 64), parameters, memory);
    EXPECT_EQ(get<T>(memory, y), x) << kernel << " of " << count;
    if (count == whole) {
      EXPECT_EQ(report.counters.global_loads.requests, requests_for_whole_warp) << kernel;
      EXPECT_EQ(report.counters.global_loads.sectors, report.counters.global_loads.unique_sectors);
    }
  }
}

TEST(DeviceHeaders, VectorsAndTails) {
  check_copy<u8>("copy_u8x16", 16, 6);
  check_copy<u16>("copy_bf16x8", 8, 6);
  check_copy<u16>("copy_f16x2", 2, 6);
  check_copy<u32>("copy_f32x4", 4, 6);
  check_copy<u64>("copy_f64x2", 2, 6);
}

class DeviceBarriers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(HostThreads, DeviceBarriers, testing::Values(1, 4));

TEST_P(DeviceBarriers, GridAndLastBlock) {
  constexpr u32 blocks = 20;
  const std::vector<float> x = numbers<float>(blocks * 128);
  double total = 0;
  for (const float v : x) total += v;
  LaunchOptions options;
  options.host_threads = GetParam();
  Memory memory;
  const Buffer input = put(memory, "x", x), counter = make(memory, "counter", 8, Contents::zero());
  // Twice on the same counters: they are left at zero (or at a generation that does not matter).
  for (int round = 0; round < 2; ++round) {
    const Buffer sum = make(memory, "sum", 4), share = make(memory, "share", x.size() * 4);
    const Buffer partials = make(memory, "partials", blocks * 4);
    ParameterBlock parameters;
    parameters.add(sum).add(input).add(partials).add(counter);
    run_clean(load_kernel("device", "last_block_sum"), shape(blocks, 128), parameters, memory, options);
    EXPECT_NEAR(get<float>(memory, sum)[0], total, 1e-2);
    ParameterBlock more;
    more.add(share).add(input).add(partials).add(counter);
    run_clean(load_kernel("device", "grid_share"), shape(blocks, 128), more, memory, options);
    const std::vector<float> result = get<float>(memory, share);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(result[i], x[i] / total, 1e-4);
  }
}

TEST_P(DeviceBarriers, GridOfClusters) {
  constexpr u32 blocks = 20;
  const std::vector<float> x = numbers<float>(blocks * 128);
  double total = 0;
  for (const float v : x) total += v;
  LaunchOptions options;
  options.host_threads = GetParam();
  Memory memory;
  const Buffer input = put(memory, "x", x), counter = make(memory, "counter", 8, Contents::zero());
  LaunchConfig config = shape(blocks, 128);
  config.cluster.x = 4;
  // Two barriers a launch: the counter is at zero again, for the next one.
  for (int round = 0; round < 2; ++round) {
    const Buffer share = make(memory, "share", x.size() * 4), partials = make(memory, "partials", blocks * 4);
    ParameterBlock parameters;
    parameters.add(share).add(input).add(partials).add(counter);
    const LaunchReport report =
        run_clean(load_kernel("device", "grid_share_clusters"), config, parameters, memory, options);
    EXPECT_EQ(get<u32>(memory, counter)[0], 0u);
    EXPECT_EQ(report.counters.global_atomics, 2 * blocks / 4) << "one arrival for each cluster";
    const std::vector<float> result = get<float>(memory, share);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(result[i], x[i] / total, 1e-4);
  }
}

TEST_P(DeviceBarriers, Gate) {
  constexpr u32 blocks = 20;
  const std::vector<float> x = numbers<float>(blocks * 128);
  double total = 0;
  for (const float v : x) total += v;
  LaunchOptions options;
  options.host_threads = GetParam();
  Memory memory;
  const Buffer input = put(memory, "x", x), counter = make(memory, "counter", 8, Contents::zero());
  // On the same counter: the count is zero again, the open side changes from launch to launch.
  for (int round = 0; round < 3; ++round) {
    const Buffer share = make(memory, "share", x.size() * 4), partials = make(memory, "partials", (blocks + 1) * 4);
    ParameterBlock parameters;
    parameters.add(share).add(input).add(partials).add(counter);
    run_clean(load_kernel("device", "gated_share"), shape(blocks, 128), parameters, memory, options);
    EXPECT_EQ(get<u32>(memory, counter)[0], round % 2 == 0 ? 0x80000000u : 0u);
    const std::vector<float> result = get<float>(memory, share);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(result[i], x[i] / total, 1e-4);
  }
}

TEST_P(DeviceBarriers, Cluster) {
  const std::vector<float> x = numbers<float>(12 * 128);
  LaunchOptions options;
  options.host_threads = GetParam();
  Memory memory;
  const Buffer y = make(memory, "y", x.size() * 4);
  ParameterBlock parameters;
  parameters.add(y).add(put(memory, "x", x));
  LaunchConfig config = shape(12, 128);
  config.cluster.x = 4;
  run_clean(load_kernel("device", "cluster_sum"), config, parameters, memory, options);
  const std::vector<float> result = get<float>(memory, y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double wanted = 0;
    for (std::size_t k = i / 512 * 512; k < i / 512 * 512 + 512; ++k) wanted += x[k];
    ASSERT_NEAR(result[i], wanted, 1e-2);
  }
}

template <class R, class T, class F>
void check_unary(const std::string& kernel, const std::vector<T>& x, F&& f) {
  test::expect_equal(kernel, x, x, apply<R>("device", kernel, x), [&](T a, T) { return f(a); });
}
template <class T, class F>
void check_binary(const std::string& kernel, F&& f) {
  std::vector<T> x, z;
  interesting_pairs(x, z);
  test::expect_equal(kernel, x, z, apply<T>("device", kernel, x, z), f);
}
/// Within a relative error, and the same at zero, infinity and NaN.
template <class T, class F>
void check_close(const std::string& kernel, const std::vector<T>& x, const std::vector<T>& z, const std::vector<T>& y,
                 double relative, F&& f) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double wanted = f(static_cast<double>(x[i]), static_cast<double>(z[i]));
    if (test::same_value(y[i], static_cast<T>(wanted))) continue;
    const double scale = std::max(std::abs(wanted), static_cast<double>(std::numeric_limits<T>::min()));
    ASSERT_LE(std::abs(static_cast<double>(y[i]) - wanted), relative * scale)
        << kernel << " of " << x[i] << " and " << z[i] << " gives " << y[i] << ", not " << wanted;
  }
}

TEST(DeviceHeaders, FloatFunctions) {
  const std::vector<float> x = interesting<float>();
  std::vector<float> moderate = noise(500, 8);
  for (float& v : moderate) v *= 20;
  check_close("exponential_f32", moderate, moderate, apply<float>("device", "exponential_f32", moderate), 4e-6,
              [](double a, double) { return std::exp(a); });
  check_close("logistic_f32", moderate, moderate, apply<float>("device", "logistic_f32", moderate), 5e-6,
              [](double a, double) { return 1 / (1 + std::exp(-a)); });
  const std::vector<double> wide = interesting<double>();
  check_close("logistic_f64", wide, wide, apply<double>("device", "logistic_f64", wide), 1e-15,
              [](double a, double) { return 1 / (1 + std::exp(-a)); });
  check_unary<float>("sign_f32", x, [](float a) { return std::isnan(a) ? a : a > 0 ? 1.0F : a < 0 ? -1.0F : a; });
  check_unary<float>("round_f32", x, [](float a) { return std::round(a); });
  check_binary<float>("maximum_f32", [](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? std::nanf("") : std::signbit(a) && a == b ? b : std::max(a, b);
  });
  check_binary<double>("minimum_f64", [](double a, double b) {
    return std::isnan(a) || std::isnan(b) ? std::nan("") : a < b ? a : b;
  });
}

TEST(DeviceHeaders, Powers) {
  std::vector<double> a, b;
  interesting_pairs(a, b);
  check_close("power_f64", a, b, apply<double>("device", "power_f64", a, b), 4e-16,
              [](double x, double y) { return std::pow(x, y); });
  std::vector<float> x, z;
  interesting_pairs(x, z);
  check_close("power_f32", x, z, apply<float>("device", "power_f32", x, z), 1e-6,
              [](double base, double exponent) { return std::pow(base, exponent); });
  check_binary<s32>("power_s32", [](s32 base, s32 exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
    u32 result = 1;
    for (u32 bit = 1U << 31; bit != 0; bit >>= 1) {
      result *= result;
      if ((static_cast<u32>(exponent) & bit) != 0) result *= static_cast<u32>(base);
    }
    return static_cast<s32>(result);
  });
}

template <class T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(u64{0} - static_cast<u64>(a));
  return static_cast<T>(a / b);
}
template <class T>
T rest(T a, T b) {
  return b == 0 ? a : std::is_signed_v<T> && b == static_cast<T>(-1) ? T{0} : static_cast<T>(a % b);
}

TEST(DeviceHeaders, IntegerFunctions) {
  check_binary<s8>("divide_s8", quotient<s8>);
  check_binary<u32>("divide_u32", quotient<u32>);
  check_binary<s64>("divide_s64", quotient<s64>);
  check_binary<s32>("remainder_s32", rest<s32>);
  check_binary<u64>("remainder_u64", rest<u64>);
  check_binary<s16>("shift_left_s16",
                    [](s16 a, s16 b) { return static_cast<s16>(b >= 0 && b < 16 ? static_cast<u16>(a) << b : 0); });
  check_binary<u32>("shift_right_u32", [](u32 a, u32 b) { return b < 32 ? a >> b : 0; });
  check_binary<s64>("shift_right_s64", [](s64 a, s64 b) { return a >> (b >= 0 && b < 63 ? b : 63); });
}

// Random123's known answers, with JAX's rotations: kat_vectors, threefry2x32 20 rounds.
TEST(DeviceHeaders, ThreefryKnownAnswers) {
  const std::vector<u32> keys0 = {0, ~0U, 0x13198a2e};
  const std::vector<u32> y = apply<u32>("device", "threefry", keys0, std::vector<u32>{0, ~0U, 0x03707344});
  const auto reference = [](u32 k0, u32 k1, u32 x0, u32 x1) {
    const u32 keys[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bda};
    const int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    x0 += k0;
    x1 += k1;
    for (u32 i = 0; i < 20; ++i) {
      x0 += x1;
      x1 = std::rotl(x1, rotations[i % 8]) ^ x0;
      if (i % 4 != 3) continue;
      x0 += keys[(i / 4 + 1) % 3];
      x1 += keys[(i / 4 + 2) % 3] + i / 4 + 1;
    }
    return std::pair(x0, x1);
  };
  EXPECT_EQ(reference(0, 0, 0, 0), std::pair(0x6b200159U, 0x99ba4efeU));
  EXPECT_EQ(reference(~0U, ~0U, ~0U, ~0U), std::pair(0x1cb996fcU, 0xbb002be7U));
  EXPECT_EQ(reference(0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3), std::pair(0xc4923a9cU, 0x483df7a0U));
  const u32 keys1[] = {0, ~0U, 0x03707344};
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto [first, second] = reference(keys0[i], keys1[i], 5, 9);
    EXPECT_EQ(y[i], first ^ second);
  }
}

/// The value of a small float's pattern.
double small_value(u32 bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1U << exponent_bits) - 1);
  const u32 mantissa = bits & ((1U << mantissa_bits) - 1);
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                               : std::ldexp((1U << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  return (bits >> (exponent_bits + mantissa_bits)) != 0 ? -magnitude : magnitude;
}

TEST(DeviceHeaders, EveryEightBitFloat) {
  std::vector<u8> patterns(256);
  for (std::size_t i = 0; i < 256; ++i) patterns[i] = static_cast<u8>(i);
  check_unary<float>("f8e4m3_to_f32", patterns, [](u8 x) {
    return (x & 0x7F) == 0x7F ? std::nanf("") : static_cast<float>(small_value(x, 4, 3));
  });
  check_unary<float>("f8e5m2_to_f32", patterns, [](u8 x) {
    if ((x & 0x7C) != 0x7C) return static_cast<float>(small_value(x, 5, 2));
    return (x & 3) != 0 ? std::nanf("") : x > 127 ? -HUGE_VALF : HUGE_VALF;
  });
}

/// The nearest pattern below `special`, ties to even; beyond half a step past the largest: `special`.
u8 nearest_pattern(float x, int exponent_bits, int mantissa_bits, u32 special) {
  const u32 sign = std::signbit(x) ? 0x80 : 0;
  const double magnitude = std::min(std::abs(static_cast<double>(x)), 1e6);  // far beyond all of them
  u32 best = 0;
  double distance = HUGE_VAL;
  for (u32 bits = 0; bits <= special; ++bits) {
    const double gap = std::abs(magnitude - small_value(bits, exponent_bits, mantissa_bits));
    if (gap < distance || (gap == distance && bits % 2 == 0)) {
      best = bits;
      distance = gap;
    }
  }
  return static_cast<u8>(sign | best);
}

TEST(DeviceHeaders, RoundingToSmallFloats) {
  std::vector<float> x = interesting<float>();
  for (u32 i = 0; i < 4000; ++i)
    x.push_back(std::ldexp(static_cast<float>(i % 67) - 33, static_cast<int>(i % 41) - 24));
  check_unary<u16>("f32_to_f16", x, float_to_half);
  check_unary<u16>("f32_to_bf16", x, float_to_bfloat);
  check_unary<u8>("f32_to_f8e5m2", x, [](float a) {
    const u8 sign = std::signbit(a) ? 0x80 : 0;
    return std::isnan(a)   ? static_cast<u8>(sign | 0x7E)
           : std::isinf(a) ? static_cast<u8>(sign | 0x7C)
                           : nearest_pattern(a, 5, 2, 0x7C);
  });
  check_unary<u8>("f32_to_f8e4m3", x, [](float a) {
    const u8 sign = std::signbit(a) ? 0x80 : 0;
    return !std::isfinite(a) ? static_cast<u8>(sign | 0x7F) : nearest_pattern(a, 4, 3, 0x7F);
  });
  std::vector<u16> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<u16>(i);
  check_unary<float>("f16_to_f32", patterns, half_to_float);
  check_unary<float>("bf16_to_f32", patterns, bfloat_to_float);
}

template <class To, class From>
To saturated(From x) {
  if (std::isnan(x)) return To{0};
  if (x <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  if (x >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  return static_cast<To>(x);
}

TEST(DeviceHeaders, ConversionsSaturate) {
  const std::vector<float> x = interesting<float>();
  const std::vector<double> wide = interesting<double>();
  check_unary<s8>("f32_to_s8", x, saturated<s8, float>);
  check_unary<u16>("f32_to_u16", x, saturated<u16, float>);
  check_unary<s32>("f32_to_s32", x, saturated<s32, float>);
  check_unary<u32>("f32_to_u32", x, saturated<u32, float>);
  check_unary<s64>("f64_to_s64", wide, saturated<s64, double>);
  check_unary<u64>("f64_to_u64", wide, saturated<u64, double>);
  check_unary<u8>("f32_to_pred", x, [](float a) { return static_cast<u8>(a != 0 ? 1 : 0); });
  check_unary<s64>("bits_of_f64", wide, [](double a) { return std::bit_cast<s64>(a); });
}

}  // namespace
}  // namespace stitch::emulator
