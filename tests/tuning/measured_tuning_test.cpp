#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "db/sqlite_store.h"
#include "graph/canonical.h"
#include "profiler/runner/device.h"
#include "tests/base/test_folder.h"
#include "tests/tuning/law_timer.h"
#include "tests/tuning/sample_fragments.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/devices/device_set.h"
#include "tuning/kernels/device_timer.h"
#include "tuning/kernels/kernel_workshop.h"
#include "tuning/plans/remembering_tuner.h"

// What measured times do to plans. Kernels are really generated, compiled and verified and the store is a real one; the
// times come from a script, as no machine without a GPU has any.
namespace stitch::tuning {
namespace {

using profiler::Measurement;

class ScriptedTimer final : public KernelTimer {
 public:
  ScriptedTimer() {
    identity_.key = "GPU-script";
    identity_.kind = "gpu";
    identity_.name = "script";
    identity_.architecture = "sm_90a";
    identity_.sm_count = 132;
  }
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return identity_; }

  Result<Measurement> measure_kernel(const BuiltKernel& built) override { return of_candidate(built.candidate.place); }
  Result<std::vector<Measurement>> measure_plans(std::span<const RunnablePlan> plans) override {
    std::vector<Measurement> measured;
    for (const RunnablePlan& plan : plans) {
      EXPECT_EQ(plan.images.size(), plan.plan->launches.size());
      for (const auto& image : plan.images) EXPECT_FALSE(image.cubin.empty() || image.ptx.empty());
      Measurement one = series(of_plan(measured.size()), 0.01, measured.size());
      one.cold_l2 = is_cold(measured.size());
      measured.push_back(std::move(one));
    }
    plans_measured = plans.size();
    return measured;
  }

  std::function<Result<Measurement>(int candidate)> of_candidate = [](int) { return series(10, 0.01, 1); };
  std::function<double(std::size_t place)> of_plan = [](std::size_t) { return 10.0; };
  std::function<bool(std::size_t place)> is_cold = [](std::size_t) { return true; };
  std::size_t plans_measured = 0;

 private:
  profiler::DeviceIdentity identity_;
};

class MeasuredTuningEmulated : public testing::Test {
 protected:
  MeasuredTuningEmulated() {
    db::SqliteOptions storage;
    storage.path = folder_ / "stitch.db";
    store_ = *db::open_sqlite_store(storage, clock_);
    graph_ = graph::canonicalise(samples::softmax(64, 512))->graph;
    key_ = graph::canonicalise(graph_)->key;
  }

  /// A tuner of its own: what the shared one measured would be remembered.
  void make_tuner() {
    TunerOptions options;
    options.verify.distributions.resize(1);
    options.measured_candidates = 4;
    auto made = Tuner::create(options, shared_device(), &timer_, files_, clock_);
    ASSERT_TRUE(made.ok()) << made.error().message;
    tuned_.reset();
    tuner_ = *std::move(made);
    tuned_ = *RememberingTuner::open(*store_, *tuner_, clock_);
  }
  TunedFragment tune() {
    make_tuner();
    auto tuned = tuned_->tune({.fragment = graph_, .name = "softmax"});
    EXPECT_TRUE(tuned.ok()) << (tuned ? "" : tuned.error().message);
    return tuned.value_or({});
  }
  static std::vector<db::Outcome> outcomes(const TunedFragment& tuned) {
    std::vector<db::Outcome> all;
    for (const db::Candidate& candidate : tuned.trials.candidates) all.push_back(candidate.outcome);
    return all;
  }

  TestFolder folder_;
  SystemClock clock_;
  RealFileSystem files_;
  ScriptedTimer timer_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<Tuner> tuner_;
  std::unique_ptr<RememberingTuner> tuned_;
  graph::Graph graph_;
  Hash128 key_;
};

TEST_F(MeasuredTuningEmulated, TheFastestCandidateIsTaken) {
  timer_.of_candidate = [](int c) { return series(c == 2 ? 7 : 10, 0.01, static_cast<std::uint64_t>(c)); };
  timer_.of_plan = [](std::size_t) { return 7.5; };
  const TunedFragment tuned = tune();
  ASSERT_EQ(tuned.kernels.size(), 1U);
  ASSERT_TRUE(tuned.kernels[0].measurement);
  EXPECT_NEAR(tuned.kernels[0].measurement->median, 7, 0.1);
  EXPECT_EQ(tuned.trials.candidates.size(), 4U);
  for (const db::Candidate& candidate : tuned.trials.candidates) {
    EXPECT_EQ(candidate.outcome, db::Outcome::correct);
    EXPECT_TRUE(candidate.detail.starts_with(R"({"compiled_us":)")) << candidate.detail;
  }
  EXPECT_EQ(tuned.kernels[0].candidates, 8) << "twice as many are built as are measured";
  EXPECT_GT(tuned.kernels[0].estimated_us, 0);
  EXPECT_EQ(tuned.trials.measurements.size(), 4U);
  EXPECT_EQ(tuned.plan.label, "measured");
  EXPECT_NEAR(*tuned.plan.measured_us, 7.5, 0.1);
  ASSERT_TRUE(tuned_->keep(tuned).ok());
  const db::Lookup served = *store_->find_plan({key_, tuner_->target()}, {});
  ASSERT_TRUE(served.plan);
  EXPECT_EQ(served.plan->label, db::Label::measured);
  EXPECT_NEAR(*served.plan->measured_us, 7.5, 0.1);
  EXPECT_EQ(store_->list_measurements(served.plan->id)->front().device, "GPU-script");
  EXPECT_EQ(store_->get_device("GPU-script")->sm_count, 132);
  EXPECT_TRUE(tuned_->is_settled(key_));
}

TEST_F(MeasuredTuningEmulated, NearTiesKeepTheBestPrediction) {
  timer_.of_candidate = [](int c) { return series(c == 0 ? 10 : 9.9, 0.01, static_cast<std::uint64_t>(c)); };
  const TunedFragment near = tune();
  timer_.of_candidate = [](int c) { return series(c == 0 ? 10 : 8, 1.5, static_cast<std::uint64_t>(c)); };
  const TunedFragment noisy = tune();
  timer_.of_candidate = [](int) { return series(10, 0, 1); };
  const TunedFragment equal = tune();
  EXPECT_EQ(near.plan.id, equal.plan.id);
  EXPECT_EQ(noisy.plan.id, equal.plan.id);
}

TEST_F(MeasuredTuningEmulated, CandidatesThatHangOrFaultAreFailures) {
  timer_.of_candidate = [](int c) -> Result<Measurement> {
    if (c == 0) return make_error(ErrorKind::timeout, "no end after 20 s");
    if (c == 1) return make_error(ErrorKind::runtime, "the runner ended by signal 11");
    if (c == 2) return make_error(ErrorKind::unavailable, "every sample was throttled");
    return series(10, 0.01, 1);
  };
  const TunedFragment tuned = tune();
  const auto became = outcomes(tuned);
  EXPECT_EQ(std::count(became.begin(), became.end(), db::Outcome::timeout), 1);
  EXPECT_EQ(std::count(became.begin(), became.end(), db::Outcome::runtime), 1);
  ASSERT_EQ(tuned.kernels.size(), 1U);
  EXPECT_TRUE(tuned.kernels[0].verification->correct);
}

TEST_F(MeasuredTuningEmulated, OnlyAClearlyFasterChallengerIsPromoted) {
  const TunedFragment first = tune();  // candidate 0
  ASSERT_TRUE(tuned_->keep(first).ok());

  timer_.of_candidate = [](int c) { return series(c == 1 ? 9 : 10, 0.01, static_cast<std::uint64_t>(c)); };
  timer_.of_plan = [](std::size_t place) { return place == 0 ? 9.95 : 10.0; };  // challenger, incumbent
  const TunedFragment near = tune();
  EXPECT_EQ(timer_.plans_measured, 2U);
  ASSERT_NE(near.plan.id, first.plan.id);
  ASSERT_TRUE(near.comparison);
  EXPECT_EQ(near.comparison->verdict, profiler::Comparison::ambiguous);
  ASSERT_TRUE(tuned_->keep(near).ok());
  EXPECT_EQ(store_->find_plan({key_, tuner_->target()}, {})->plan->id, first.plan.id);

  timer_.of_plan = [](std::size_t place) { return place == 0 ? 9.0 : 10.0; };
  const TunedFragment fast = tune();
  const Status kept = tuned_->keep(fast);
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_EQ(store_->find_plan({key_, tuner_->target()}, {})->plan->id, fast.plan.id);
  const auto promotions = store_->list_promotions({});
  ASSERT_EQ(promotions->items.size(), 2U);
  EXPECT_EQ(promotions->items.back().previous, first.plan.id);
}

TEST_F(MeasuredTuningEmulated, WhatWasMeasuredOtherwiseIsNotPromoted) {
  const TunedFragment first = tune();
  ASSERT_TRUE(tuned_->keep(first).ok());
  timer_.of_candidate = [](int c) { return series(c == 1 ? 9 : 10, 0.01, static_cast<std::uint64_t>(c)); };
  timer_.of_plan = [](std::size_t place) { return place == 0 ? 5.0 : 10.0; };
  timer_.is_cold = [](std::size_t place) { return place != 0; };
  const TunedFragment warm = tune();
  ASSERT_NE(warm.plan.id, first.plan.id);
  ASSERT_TRUE(warm.comparison);
  EXPECT_EQ(warm.comparison->unlike, "cold L2 and warm L2");
  ASSERT_TRUE(tuned_->keep(warm).ok());
  EXPECT_EQ(store_->find_plan({key_, tuner_->target()}, {})->plan->id, first.plan.id);
}

TEST_F(MeasuredTuningEmulated, EventCountsAreNoTimes) {
  DeviceOptions where;
  where.name = "emulated:counts";
  where.runner = std::string(STITCH_BINARY_DIR) + "/bin/stitch-runner";
  const auto devices = DeviceSet::open(where, files_, clock_);
  ASSERT_TRUE(devices.ok()) << devices.error().message;
  TunerOptions options;
  options.verify.distributions.resize(1);
  options.measured_candidates = 2;
  auto tuner = Tuner::create(options, (*devices)->verifier(), (*devices)->timer(), files_, clock_);
  ASSERT_TRUE(tuner.ok()) << tuner.error().message;
  const auto tuned = (*tuner)->tune({.fragment = graph_, .name = "softmax"});
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  EXPECT_EQ(tuned->plan.label, "predicted");
  EXPECT_FALSE(tuned->plan.measured_us);
  ASSERT_FALSE(tuned->bundle.measurements.empty());
  EXPECT_EQ(tuned->bundle.measurements[0].kind, db::MeasurementRecord::Kind::event_count);
  EXPECT_GE(tuned->kernels.at(0).measurement->median, 2.0 * 64 * 512 * 4 / 32);  // read and written once
}

TEST_F(MeasuredTuningEmulated, EachRoundOfAPlanAddsItsSamples) {
  RealProcessLauncher launcher;
  profiler::Quarantine quarantine(files_, clock_, {});
  profiler::RunnerOptions runner;
  runner.program = std::string(STITCH_BINARY_DIR) + "/bin/stitch-runner";
  runner.arguments = {"--device", "emulated", "--counts"};
  const auto device = profiler::RunnerDevice::create(launcher, runner, quarantine);
  ASSERT_TRUE(device.ok()) << device.error().message;
  // A sum over all of it: its workspace has partial sums, and a counter that begins at zero with every run.
  const auto fragment = graph::canonicalise(samples::scaled_difference(1 << 18))->graph;
  const auto samples_of = [&](int rounds) {
    TimerOptions timing;
    timing.kernel.rotations = 1;
    timing.plan_rounds = rounds;
    DeviceTimer timer(**device, timing);
    TunerOptions options;
    options.verify.distributions.resize(1);
    options.measured_candidates = 1;
    auto tuner = Tuner::create(options, shared_device(), &timer, files_, clock_);
    EXPECT_TRUE(tuner.ok()) << (tuner ? "" : tuner.error().message);
    auto tuned = (*tuner)->tune({.fragment = fragment, .name = "sum"});
    EXPECT_TRUE(tuned.ok()) << (tuned ? "" : tuned.error().message);
    EXPECT_FALSE(tuned->plan.zeroed.empty());
    const auto whole = std::ranges::find(tuned->bundle.measurements, db::MeasurementRecord::Subject::plan,
                                         &db::MeasurementRecord::subject_kind);
    EXPECT_NE(whole, tuned->bundle.measurements.end());
    return *whole;
  };
  const db::MeasurementRecord once = samples_of(1), thrice = samples_of(3);
  EXPECT_EQ(thrice.samples.size(), 3 * once.samples.size());
  EXPECT_EQ(thrice.stopped, once.stopped + "; " + once.stopped + "; " + once.stopped);
  EXPECT_EQ(thrice.samples.front(), once.samples.front());
  EXPECT_GE(once.samples.front(), 3.0 * (1 << 18) * 4 / 32);  // a, b and c, each read once
}

}  // namespace
}  // namespace stitch::tuning
