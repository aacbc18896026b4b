#include "tuning/kernels/recorded_timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/generator_version.h"
#include "graph/canonical.h"
#include "kernel/program/schedule_hash.h"
#include "tests/base/test_folder.h"
#include "tests/base/test_variable.h"
#include "tests/tuning/sample_fragments.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/devices/device_set.h"
#include "tuning/kernels/kernel_workshop.h"

namespace stitch::tuning {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A recording as a GPU would have made it, of a softmax's candidates as tuning explores them.
class RecordedTimerOf : public testing::Test {
 protected:
  RecordedTimerOf() {
    canonical_ = graph::canonicalise(samples::softmax(16, 256))->graph;
    kernel_ = search::KernelCache(shared_tuner(shared_device()).scorer(), {6, false}).explore(canonical_)->kernel;
    recording_.generator = codegen::generator_version();
    recording_.target = "h100";
    recording_.architecture = "sm_90a";
    recording_.method = "CUPTI activity";
    recording_.device = {"GPU-1", "gpu", "NVIDIA H100 80GB HBM3", "sm_90a", "580.95 (CUDA 13.0)", 132, 85000000000};
    profiler::RecordedKernel kernel;
    kernel.key = kernel_->key;
    kernel.name = "softmax";
    for (std::size_t i = 0; i < kernel_->candidates.size(); ++i) kernel.candidates.push_back(took(i, 10));
    recording_.kernels = {kernel};
  }

  [[nodiscard]] profiler::RecordedCandidate took(std::size_t i, double us) const {
    profiler::RecordedCandidate candidate;
    candidate.schedule = kernel::schedule_hash(kernel_->candidates[i].schedule);
    candidate.median = us;
    for (int k = 0; k < 16; ++k) candidate.samples.push_back(us * (0.998 + 0.00025 * k));
    return candidate;
  }
  profiler::RecordedCandidate& candidate(std::size_t i) { return recording_.kernels[0].candidates[i]; }
  void fail(std::size_t i, ErrorKind kind, const char* why) {
    candidate(i).failure = make_error(kind, "{}", why);
    candidate(i).samples.clear();
  }
  void write() { ASSERT_TRUE(profiler::write_recording(files_, path_, recording_).ok()); }

  Result<profiler::Measurement> measure(KernelTimer& timer, int index) const { return measure(timer, kernel_, index); }
  static Result<profiler::Measurement> measure(KernelTimer& timer, const search::SharedKernel& kernel, int index) {
    BuiltKernel built;
    built.candidate = {kernel, index};
    return timer.measure_kernel(built);
  }

  TestFolder folder_;
  std::filesystem::path path_ = folder_ / "softmax.record";
  RealFileSystem files_;
  SystemClock clock_;
  graph::Graph canonical_;
  search::SharedKernel kernel_;
  profiler::Recording recording_;
};

TEST_F(RecordedTimerOf, WhatWasRecordedIsReplayed) {
  candidate(1) = took(1, 7.5);
  fail(2, ErrorKind::timeout, "no end after 20 s");
  recording_.kernels[0].candidates.pop_back();
  write();
  const auto timer = RecordedTimer::open(files_, path_);
  ASSERT_TRUE(timer.ok()) << timer.error().message;
  EXPECT_EQ((*timer)->identity().kind, "recorded");
  EXPECT_THAT((*timer)->identity().key, testing::MatchesRegex("recorded:[0-9a-f]{32}"));
  EXPECT_EQ((*timer)->identity().name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ((*timer)->identity().sm_count, 132);

  const auto fast = measure(**timer, 1);
  ASSERT_TRUE(fast.ok()) << fast.error().message;
  EXPECT_EQ(fast->median, 7.5);
  EXPECT_EQ(fast->kind, profiler::Measurement::Kind::device_time);
  EXPECT_EQ(fast->method, "recording of CUPTI activity");
  const auto hung = measure(**timer, 2);
  EXPECT_EQ(hung.error(), make_error(ErrorKind::timeout, "recorded on NVIDIA H100 80GB HBM3: no end after 20 s"));
  const auto missing = measure(**timer, static_cast<int>(kernel_->candidates.size()) - 1);
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
  EXPECT_THAT(missing.error().message, AllOf(HasSubstr("softmax.record: schedule "), HasSubstr(kernel_->key.hex())));
  EXPECT_EQ((*timer)->measure_plans({}).error().kind, ErrorKind::unsupported);

  EXPECT_FALSE((*timer)->has_plans());

  const auto other = std::make_shared<search::ExploredKernel>(*kernel_);
  other->key.low ^= 1;
  EXPECT_THAT(measure(**timer, other, 0).error().message, HasSubstr("softmax.record has no kernel "));
}

TEST_F(RecordedTimerOf, OtherGeneratorsRecordingsAreRefused) {
  recording_.generator = "0.0.9-000000000000";
  write();
  const auto timer = RecordedTimer::open(files_, path_);
  ASSERT_FALSE(timer.ok());
  EXPECT_EQ(timer.error().kind, ErrorKind::version_mismatch);
  EXPECT_THAT(timer.error().message, AllOf(HasSubstr(path_.string()), HasSubstr("generator 0.0.9-000000000000")));
  DeviceOptions where;
  where.name = "recorded:" + (folder_ / "none").string();
  EXPECT_EQ(DeviceSet::open(where, files_, clock_).error().kind, ErrorKind::not_found);
}

TEST(DeviceSetOf, WhatARunnerMayTakeIsANumberOfBytes) {
  RealFileSystem files;
  SystemClock clock;
  DeviceOptions where;
  where.name = "emulated:counts";
  where.runner = std::string(STITCH_BINARY_DIR) + "/bin/stitch-runner";
  for (const char* text : {"8GB", "-1", "99999999999999999999", "much"}) {
    const TestVariable most("STITCH_RUNNER_MEMORY", text);
    const auto devices = DeviceSet::open(where, files, clock);
    ASSERT_FALSE(devices.ok());
    EXPECT_EQ(devices.error().message, fmt::format("STITCH_RUNNER_MEMORY: '{}' is no number of bytes", text));
  }
  const TestVariable most("STITCH_RUNNER_MEMORY", "1000000");
  const auto devices = DeviceSet::open(where, files, clock);
  EXPECT_TRUE(devices.ok()) << devices.error().message;
}

class RecordedTimerEmulated : public RecordedTimerOf {
 protected:
  TunedFragment tune() {
    write();
    DeviceOptions where;
    where.name = "recorded:" + path_.string();
    devices_ = *DeviceSet::open(where, files_, clock_);
    TunerOptions options;
    options.verify.distributions.resize(1);
    auto tuner = Tuner::create(options, devices_->verifier(), devices_->timer(), files_, clock_);
    EXPECT_TRUE(tuner.ok()) << (tuner ? "" : tuner.error().message);
    const auto tuned = (*tuner)->tune({.fragment = canonical_, .name = "softmax"});
    EXPECT_TRUE(tuned.ok()) << (tuned ? "" : tuned.error().message);
    return tuned.value_or({});
  }
  std::unique_ptr<DeviceSet> devices_;
};

TEST_F(RecordedTimerEmulated, TuningTakesWhatWasFastestThere) {
  candidate(3) = took(3, 6);
  const TunedFragment tuned = tune();
  ASSERT_EQ(tuned.kernels.size(), 1U);
  EXPECT_EQ(tuned.kernels[0].key, kernel_->key);
  ASSERT_TRUE(tuned.kernels[0].measurement);
  EXPECT_EQ(tuned.kernels[0].measurement->median, 6);
  EXPECT_TRUE(tuned.kernels[0].verification->correct);
  EXPECT_EQ(tuned.plan.label, "predicted") << "no plan was measured";
  ASSERT_FALSE(tuned.trials.measurements.empty());
  EXPECT_EQ(tuned.trials.measurements[0].device, devices_->timer()->identity().key);
}

TEST_F(RecordedTimerEmulated, WhatFailedThereFailsHere) {
  fail(0, ErrorKind::correctness, "result 0 at [3]: 1 instead of 2");
  fail(1, ErrorKind::runtime, "CUDA_ERROR_ILLEGAL_ADDRESS");
  const TunedFragment tuned = tune();
  ASSERT_EQ(tuned.kernels.size(), 1U);
  const auto count = [&](db::Outcome outcome) {
    return std::count_if(tuned.trials.candidates.begin(), tuned.trials.candidates.end(),
                         [&](const db::Candidate& each) { return each.outcome == outcome; });
  };
  EXPECT_EQ(count(db::Outcome::correctness), 1);
  EXPECT_EQ(count(db::Outcome::runtime), 1);
  EXPECT_GT(count(db::Outcome::correct), 0);
}

}  // namespace
}  // namespace stitch::tuning
