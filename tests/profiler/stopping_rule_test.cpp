#include "profiler/measure/stopping_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.h"

namespace stitch::profiler {
namespace {

using Series = std::function<double(Random&, int)>;

struct Outcome {
  Verdict verdict = Verdict::go_on;
  int samples = 0;
  double median = 0;
};

/// Takes samples until the rule is content; the clock gives every sample its own time and as much again for launches.
Outcome run(const Series& series, StoppingOptions options = {}, std::uint64_t seed = 1) {
  Random random(seed);
  StoppingRule rule(options);
  double elapsed = 0;
  Outcome outcome;
  while (outcome.verdict == Verdict::go_on) {
    const double sample = series(random, outcome.samples++);
    rule.add(sample);
    elapsed += 2 * sample;
    outcome.verdict = rule.verdict(elapsed);
  }
  outcome.median = rule.median();
  return outcome;
}

double normal(Random& random) {
  return std::sqrt(-2 * std::log(1 - random.uniform())) * std::cos(6.283185307179586 * random.uniform());
}

Series constant(double us) {
  return [us](Random&, int) { return us; };
}
Series noisy(double us, double share) {
  return [=](Random& random, int) { return us * (1 + share * normal(random)); };
}
/// Slower by `share` of `us` with every sample.
Series drifting(double us, double share) {
  return [=](Random&, int i) { return us * (1 + share * i); };
}
Series bimodal(double low, double high, double often) {
  return [=](Random& random, int) { return random.uniform() < often ? high : low; };
}
/// Little noise, and now and then (in one sample of 40) an outlier several times as long.
Series heavy_tailed(double us) {
  return [=](Random& random, int) {
    const double sample = us * (1 + 0.002 * normal(random));
    return random.below(40) == 0 ? sample * (2 + 8 * random.uniform()) : sample;
  };
}

TEST(StoppingRule, StopsByTheKindOfSeries) {
  const struct {
    const char* what;
    Series series;
    Verdict verdict;
    int least, most;   ///< samples
    double low, high;  ///< median
  } cases[] = {
      {"constant, long", constant(1000), Verdict::precise, 12, 12, 1000, 1000},
      {"constant, short: min_time decides", constant(10), Verdict::precise, 200, 200, 10, 10},
      {"quiet", noisy(1000, 0.002), Verdict::precise, 12, 12, 995, 1005},
      {"noisy", noisy(1000, 0.04), Verdict::stable, 48, 600, 970, 1030},
      {"rising by 5 % a sample", drifting(100, 0.05), Verdict::out_of_time, 100, 1000, 300, 5000},
      {"rising by 0.5 % a sample", drifting(10, 0.005), Verdict::out_of_samples, 2000, 2000, 59, 61},
      {"two modes, equally often", bimodal(1000, 1300, 0.5), Verdict::out_of_time, 48, 1000, 1000, 1300},
      {"two modes, one rare", bimodal(1000, 1300, 0.02), Verdict::precise, 12, 100, 1000, 1000},
      {"heavy tail", heavy_tailed(1000), Verdict::precise, 12, 60, 990, 1010},
  };
  for (const auto& each : cases) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      const Outcome outcome = run(each.series, {}, seed);
      if (std::string_view(each.what).starts_with("two modes, equally")) {
        // The median of such a series jumps between the modes for ever: whichever way it ends, it is not precise.
        EXPECT_NE(outcome.verdict, Verdict::precise) << each.what << ", seed " << seed;
      } else {
        EXPECT_EQ(outcome.verdict, each.verdict)
            << each.what << ", seed " << seed << ": " << to_string(outcome.verdict);
      }
      EXPECT_GE(outcome.samples, each.least) << each.what << ", seed " << seed;
      EXPECT_LE(outcome.samples, each.most) << each.what << ", seed " << seed;
      EXPECT_GE(outcome.median, each.low) << each.what << ", seed " << seed;
      EXPECT_LE(outcome.median, each.high) << each.what << ", seed " << seed;
    }
  }
}

TEST(StoppingRule, IsNeverContentBeforeItsLeast) {
  StoppingOptions options;
  options.min_samples = 20;
  options.min_time_us = 0;
  EXPECT_EQ(run(constant(1), options).samples, 20);
  options.min_time_us = 500;
  EXPECT_EQ(run(constant(1), options).samples, 500);
}

TEST(StoppingRule, EndsInAnyCase) {
  StoppingOptions options;
  options.relative_deviation = 0;
  options.stable_window = 1000;
  options.max_samples = 30;
  EXPECT_EQ(run(noisy(10, 0.1), options).verdict, Verdict::out_of_samples);
  EXPECT_EQ(run(noisy(10, 0.1), options).samples, 30);
  options.max_time_us = 100;
  const Outcome late = run(noisy(10, 0.01), options);
  EXPECT_EQ(late.verdict, Verdict::out_of_time);
  EXPECT_NEAR(late.samples, 5, 1);
  // Not a single sample was kept: the clock alone ends it.
  EXPECT_EQ(StoppingRule(options).verdict(99), Verdict::go_on);
  EXPECT_EQ(StoppingRule(options).verdict(100), Verdict::out_of_time);
}

TEST(StoppingRule, StatisticsByHand) {
  const std::vector<double> none, one = {7}, even = {4, 1, 3, 2}, odd = {9, 1, 5};
  EXPECT_EQ(median_of(none), 0);
  EXPECT_EQ(median_of(one), 7);
  EXPECT_EQ(median_of(even), 2.5);
  EXPECT_EQ(median_of(odd), 5);
  EXPECT_EQ(trimmed_deviation(none), 0);
  EXPECT_EQ(trimmed_deviation(one), 0);
  EXPECT_NEAR(trimmed_deviation(even), std::sqrt(5.0 / 3) / 2.5, 1e-12);
  // From ten samples on the extremes are left out.
  EXPECT_EQ(trimmed_deviation(std::vector<double>{5, 5, 5, 5, 1, 5, 5, 5, 900, 5}), 0);
  EXPECT_GT(trimmed_deviation(std::vector<double>{5, 5, 5, 5, 1, 5, 5, 5, 5}), 0.2);
}

}  // namespace
}  // namespace stitch::profiler
