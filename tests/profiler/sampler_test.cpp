#include "profiler/measure/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace stitch::profiler {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

/// A device whose every sample takes what a function says, and 20 µs of the clock besides.
class ScriptedSource final : public SampleSource {
 public:
  explicit ScriptedSource(std::function<double(int)> duration) : duration_(std::move(duration)) {}

  Result<std::vector<double>> take(int count) override {
    batches.push_back(count);
    std::vector<double> durations;
    for (int i = 0; i < count; ++i, ++taken_) {
      if (taken_ == fails_at) return make_error(ErrorKind::runtime, "it faulted");
      durations.push_back(duration_(taken_));
      clock.advance_us(static_cast<std::int64_t>(durations.back()) + 20);
    }
    return durations;
  }
  DeviceState state() override {
    DeviceState state;
    const auto batch = static_cast<int>(batches.size()) - 1;
    if (batch >= throttled_from && batch < throttled_to) state.throttled = {"power cap"};
    if (batch == throttled_from) state.throttled.emplace_back("power brake");
    return state;
  }
  void pause(double us) override {
    clock.advance_us(static_cast<std::int64_t>(us));
    ++pauses;
  }

  ManualClock clock;
  std::vector<int> batches;
  int throttled_from = -1, throttled_to = -1;  ///< batches
  int fails_at = -1;                           ///< sample
  int pauses = 0;

 private:
  std::function<double(int)> duration_;
  int taken_ = 0;
};

Sampling sample(ScriptedSource& source, const MeasureOptions& options = {}) {
  auto sampling = take_samples(source, source.clock, options);
  EXPECT_TRUE(sampling) << (sampling ? "" : sampling.error().message);
  return sampling ? *std::move(sampling) : Sampling{};
}

TEST(Sampler, BatchesGrowUntilTheRuleIsContent) {
  ScriptedSource source([](int) { return 100.0; });
  const Sampling sampling = sample(source);
  EXPECT_EQ(sampling.verdict, Verdict::precise);
  EXPECT_THAT(source.batches, ElementsAre(1, 4, 16));
  EXPECT_EQ(sampling.samples.size(), 21U);
  EXPECT_THAT(sampling.dropped, IsEmpty());
  EXPECT_EQ(source.pauses, 0);
}

TEST(Sampler, WhatWasTakenWhileTheDeviceThrottledIsDropped) {
  ScriptedSource source([](int i) { return i >= 1 && i < 21 ? 150.0 : 100.0; });
  source.throttled_from = 1;
  source.throttled_to = 3;
  const Sampling sampling = sample(source);
  EXPECT_EQ(sampling.verdict, Verdict::precise);
  EXPECT_THAT(sampling.samples, Each(100.0));
  EXPECT_EQ(sampling.dropped.size(), 20U);
  EXPECT_THAT(sampling.dropped, Each(150.0));
  EXPECT_THAT(sampling.dropped_reasons, ElementsAre("power cap", "power brake"));
  EXPECT_EQ(source.pauses, 2);
}

TEST(Sampler, ADeviceThatAlwaysThrottlesEndsByTheClock) {
  ScriptedSource source([](int) { return 100.0; });
  source.throttled_from = 0;
  source.throttled_to = 1 << 30;
  const Sampling sampling = sample(source);
  EXPECT_EQ(sampling.verdict, Verdict::out_of_time);
  EXPECT_THAT(sampling.samples, IsEmpty());
  EXPECT_FALSE(sampling.dropped.empty());
  EXPECT_LT(source.clock.now_us(), 2200000);
}

TEST(Sampler, LimitsBoundTheLastBatch) {
  MeasureOptions options;
  options.stopping.relative_deviation = 0;
  options.stopping.stable_window = 1000000;
  options.stopping.max_samples = 100;
  const auto alternating = [](int i) { return i % 2 == 0 ? 80.0 : 120.0; };
  ScriptedSource few(alternating);
  EXPECT_EQ(sample(few, options).samples.size(), 100U);
  EXPECT_THAT(few.batches, ElementsAre(1, 4, 16, 64, 15));
  options.stopping.max_time_us = 5000;  // at 120 µs a sample
  ScriptedSource brief(alternating);
  EXPECT_EQ(sample(brief, options).verdict, Verdict::out_of_time);
  EXPECT_LE(brief.clock.now_us(), 5200);
  // One sample is longer than all of the time there is.
  ScriptedSource slow([](int) { return 1e6; });
  EXPECT_EQ(sample(slow, options).samples.size(), 1U);
}

TEST(Sampler, ErrorsEndIt) {
  ScriptedSource source([](int) { return 100.0; });
  source.fails_at = 7;
  const auto sampling = take_samples(source, source.clock, {});
  ASSERT_FALSE(sampling);
  EXPECT_EQ(sampling.error().message, "it faulted");
}

}  // namespace
}  // namespace stitch::profiler
