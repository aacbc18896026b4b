#include "profiler/measure/sample_comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace stitch::profiler {
namespace {

/// Durations around `median` with a spread of `noise`, one in `outliers` of them three times as long (0: none).
std::vector<double> series(std::size_t count, double median, double noise, std::uint64_t seed,
                           std::uint64_t outliers = 0) {
  Random random(seed);
  std::vector<double> samples;
  for (std::size_t i = 0; i < count; ++i) {
    const double uniform = static_cast<double>(random.below(1U << 20)) / (1U << 20) - 0.5;
    const bool late = outliers > 0 && random.below(outliers) == 0;
    samples.push_back(median * (1 + noise * uniform) * (late ? 3 : 1));
  }
  return samples;
}

TEST(SampleComparisonTest, TellsWhatNoiseAllows) {
  struct Case {
    std::string name;
    std::vector<double> incumbent, challenger;
    Comparison expected;
  };
  const Case cases[] = {
      {"a tenth faster", series(40, 10, 0.02, 1), series(40, 9, 0.02, 2), Comparison::faster},
      {"a tenth slower", series(40, 10, 0.02, 1), series(40, 11, 0.02, 2), Comparison::slower},
      {"the same", series(40, 10, 0.02, 1), series(40, 10, 0.02, 2), Comparison::ambiguous},
      {"surely faster, but hardly", series(400, 10, 0.01, 1), series(400, 9.9, 0.01, 2), Comparison::ambiguous},
      {"faster, but lost in noise", series(12, 10, 1.5, 5), series(12, 9.5, 1.5, 6), Comparison::ambiguous},
      {"outliers do not hide it", series(60, 10, 0.02, 1, 6), series(60, 9, 0.02, 2, 6), Comparison::faster},
      {"outliers do not make it", series(60, 10, 0.02, 1, 4), series(60, 10, 0.02, 2), Comparison::ambiguous},
      {"too few samples", series(40, 10, 0.02, 1), {5, 5, 5, 5, 5, 5}, Comparison::ambiguous},
      {"none", {}, {5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, Comparison::ambiguous},
      {"constant series", std::vector<double>(20, 10.0), std::vector<double>(20, 8.0), Comparison::faster},
  };
  for (const Case& one : cases)
    EXPECT_EQ(compare_samples(one.incumbent, one.challenger).verdict, one.expected) << one.name;
}

TEST(SampleComparisonTest, EqualSeriesAreSeldomToldApart) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const auto a = series(20, 10, 0.4, 2 * seed), b = series(20, 10, 0.4, 2 * seed + 1);
    wrong += compare_samples(a, b, {.least_effect = 0}).verdict == Comparison::ambiguous ? 0 : 1;
  }
  EXPECT_LE(wrong, 5);  // one in a hundred
}

TEST(SampleComparisonTest, TheIntervalHoldsTheRatio) {
  const SampleComparison found = compare_samples(series(80, 10, 0.1, 3), series(80, 7, 0.1, 4));
  EXPECT_LE(found.low, found.ratio);
  EXPECT_GE(found.high, found.ratio);
  EXPECT_NEAR(found.ratio, 0.7, 0.03);
  EXPECT_NE(found.describe().find("of the incumbent ("), std::string::npos);
  EXPECT_EQ(compare_samples({{1.0}}, {{2.0}}).describe(), "2.000 of the incumbent, too few samples to tell");
}

TEST(SampleComparisonTest, OnlyLikeIsComparedWithLike) {
  const auto measured = [](double median, std::uint64_t seed) {
    Measurement measurement;
    measurement.samples = series(40, median, 0.02, seed);
    measurement.method = "CUPTI activity";
    return measurement;
  };
  const Measurement incumbent = measured(10, 1);
  EXPECT_EQ(compare_measurements(incumbent, measured(5, 2)).verdict, Comparison::faster);
  const struct {
    const char* unlike;
    void (*change)(Measurement&);
  } cases[] = {
      {"cold L2 and warm L2", [](Measurement& m) { m.cold_l2 = false; }},
      {"kernels and a CUDA graph", [](Measurement& m) { m.cuda_graph = true; }},
      {"CUPTI activity and CUPTI activity, the graph's kernels",
       [](Measurement& m) { m.method = "CUPTI activity, the graph's kernels"; }},
      {"us and sectors",
       [](Measurement& m) {
         m.kind = Measurement::Kind::event_count;
         m.unit = "sectors";
       }},
  };
  for (const auto& [unlike, change] : cases) {
    Measurement challenger = measured(5, 2);
    change(challenger);
    const SampleComparison comparison = compare_measurements(incumbent, challenger);
    EXPECT_EQ(comparison.verdict, Comparison::ambiguous);
    EXPECT_EQ(comparison.unlike, unlike);
    EXPECT_EQ(comparison.describe(), std::string("what cannot be compared with the incumbent: ") + unlike);
    Measurement other = incumbent;
    change(other);
    EXPECT_EQ(compare_measurements(other, challenger).verdict, Comparison::faster) << unlike << ", of both";
  }
}

}  // namespace
}  // namespace stitch::profiler
