// How a GPU is measured, on the emulated driver with stand-ins for CUPTI and NVML: what is recorded, when it is asked
// for, what is dropped, and what is said when something is missing. No figure here is a time of anything.
#include "profiler/gpu/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/gpu/cupti_timer.h"
#include "tests/profiler/fake_cupti.h"
#include "tests/profiler/fake_nvml.h"

namespace stitch::profiler::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr auto kernel_kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
constexpr auto graph_kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;

class MeasuredOnTheEmulatedDriverGpu : public testing::Test {
 protected:
  void SetUp() override {
    GpuOptions options;
    options.nvml = FakeNvml::library();
    auto opened = GpuContext::open(options);
    if (!opened) GTEST_SKIP() << opened.error().message;
    if (!(*opened)->identity.emulated) GTEST_SKIP() << "the driver is a real one, and so is its CUPTI";
    gpu_ = std::move(*opened);
    // As on a GPU, which tells times.
    gpu_->identity.emulated = false;
    gpu_->cupti = cupti_.api();
    ASSERT_EQ(gpu_->driver->allocate(&memory_, 256), CUDA_SUCCESS);
    task_.options.stopping = {.min_samples = 6, .max_samples = 6, .min_time_us = 0, .max_time_us = 1e9};
    task_.options.warm_up_us = 0;
    task_.options.cool_down_us = 0;
    task_.options.counters = task_.options.cold_l2 = false;  // to flush what an emulated H100 has takes long
    task_.rotations.resize(2);
    for (auto& steps : task_.rotations) steps = {PlannedLaunch{}};
  }

  void TearDown() override {
    if (memory_ != 0) gpu_->driver->free(memory_);
  }

  /// What one sample does on the stream: something that the driver sees, and for so long by CUPTI's clock.
  std::function<Status()> kernel(std::uint64_t ns) {
    return [this, ns]() -> Status {
      STITCH_TRY(gpu_->check(gpu_->driver->fill_async(memory_, 0, 256, gpu_->stream), "cuMemsetD8Async"));
      if (!capturing_) cupti_.ran(kernel_kind, ns);
      return {};
    };
  }

  /// Launches of graphs are seen as a whole, or by their kernels: of `each` ns.
  void see_graphs(std::vector<std::uint64_t> each) {
    static std::function<void()> launched;
    launched = [this, each = std::move(each)] {
      std::uint64_t whole = 0;
      for (const std::uint64_t ns : each) whole += ns;
      cupti_.ran(graph_kind, whole);
      for (const std::uint64_t ns : each) cupti_.ran(kernel_kind, ns, 50);
    };
    static decltype(cuda::DriverApi::launch_graph) real;
    real = gpu_->driver->launch_graph;
    auto driver = std::make_shared<cuda::DriverApi>(*gpu_->driver);
    driver->launch_graph = [](CUgraphExec graph, CUstream stream) {
      launched();
      return real(graph, stream);
    };
    gpu_->driver = std::move(driver);
    capturing_ = true;
    task_.cuda_graph = true;
  }

  FakeCupti cupti_;
  FakeNvml nvml_;
  std::shared_ptr<GpuContext> gpu_;
  MeasureTask task_;
  CUdeviceptr memory_ = 0;
  bool capturing_ = false;
};

TEST_F(MeasuredOnTheEmulatedDriverGpu, SamplesAreWhatCuptiRecordedInTurns) {
  task_.options.cold_l2 = true;
  const auto measured = measure_work(*gpu_, {kernel(10'000), kernel(12'000)}, task_);
  ASSERT_TRUE(measured) << measured.error().message;
  // Three launches warm up, so that the second rotation is the first that counts.
  EXPECT_THAT(measured->samples, ElementsAre(12, 10, 12, 10, 12, 10));
  EXPECT_EQ(measured->median, 11);
  EXPECT_EQ(measured->method, "CUPTI activity");
  EXPECT_EQ(measured->rotation, 2);
  EXPECT_EQ(measured->before.sm_clock_mhz, 1755);
  EXPECT_THAT(measured->driver, HasSubstr("580.95.05"));
  EXPECT_EQ(measured->no_counters, "");
}

TEST_F(MeasuredOnTheEmulatedDriverGpu, WhatWasTakenWhileTheGpuThrottledIsDropped) {
  nvml_.throttle(0x04, 2, 0);  // before the first batch, and at its end
  const auto measured = measure_work(*gpu_, {kernel(10'000)}, task_);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_THAT(measured->samples, SizeIs(6));
  EXPECT_THAT(measured->dropped_samples, ElementsAre(10));
  EXPECT_THAT(measured->dropped_reasons, ElementsAre("power cap"));
  EXPECT_THAT(measured->before.throttled, ElementsAre("power cap"));
}

TEST_F(MeasuredOnTheEmulatedDriverGpu, NothingButThrottledSamplesIsNoMeasurement) {
  nvml_.throttle(0, 0, 0x08);
  task_.options.stopping.max_time_us = 2e4;
  const auto measured = measure_work(*gpu_, {kernel(10'000)}, task_);
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(measured.error().message, HasSubstr("while the GPU throttled (hardware slowdown)"));
}

TEST_F(MeasuredOnTheEmulatedDriverGpu, MissingRecordsAreToldWithTheirNumber) {
  cupti_.spoil(1, 0);
  auto measured = measure_work(*gpu_, {kernel(10'000)}, task_);
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().message, "CUPTI recorded 0 of 1 launches (1 more without times, 7 records dropped)");
  cupti_.spoil(0, 1);
  measured = measure_work(*gpu_, {kernel(10'000)}, task_);
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().message, "CUPTI recorded 0 of 1 launches (0 more without times, 7 records dropped)");
  EXPECT_TRUE(measure_work(*gpu_, {kernel(10'000)}, task_)) << "a timer that failed leaves room for the next one";
}

TEST_F(MeasuredOnTheEmulatedDriverGpu, PlansAreTimedAsWholeGraphs) {
  see_graphs({3000, 4000});
  const auto measured = measure_work(*gpu_, {kernel(0), kernel(0)}, task_);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_THAT(measured->samples, Each(7));
  EXPECT_TRUE(measured->cuda_graph);
  EXPECT_EQ(measured->method, "CUPTI activity");
}

TEST_F(MeasuredOnTheEmulatedDriverGpu, OrFromTheirFirstKernelToTheirLast) {
  cupti_.refuses_graphs = true;
  see_graphs({3000, 4000});
  for (auto& steps : task_.rotations) steps = {PlannedLaunch{}, PlannedLaunch{}};
  task_.options.counters = true;
  const auto measured = measure_work(*gpu_, {kernel(0), kernel(0)}, task_);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_THAT(measured->samples, Each(7.05)) << "with the gap between them";
  EXPECT_EQ(measured->method, "CUPTI activity, the graph's kernels");
  EXPECT_EQ(measured->no_counters, "a CUDA graph is counted by its kernels");
  EXPECT_EQ(gpu_->no_graph_times, "cuptiActivityEnable: CUPTI_ERROR_NOT_SUPPORTED");
}

TEST_F(MeasuredOnTheEmulatedDriverGpu, WhatCuptiRefusesIsSaidInItsWords) {
  cupti_.refuses_all = true;
  const auto measured = measure_work(*gpu_, {kernel(10'000)}, task_);
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(measured.error().message, HasSubstr("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"));
  gpu_->cupti = nullptr;
  gpu_->no_cupti = "no CUPTI here";
  EXPECT_EQ(measure_work(*gpu_, {kernel(10'000)}, task_).error().message, "no CUPTI here");
}

TEST_F(MeasuredOnTheEmulatedDriverGpu, WorkThatFailsEndsItWithItsError) {
  const auto fails = []() -> Status { return make_error(ErrorKind::runtime, "the third rotation"); };
  EXPECT_EQ(measure_work(*gpu_, {fails}, task_).error().message, "the third rotation");
  see_graphs({1000});
  EXPECT_EQ(measure_work(*gpu_, {fails}, task_).error().message, "the third rotation");
}

TEST_F(MeasuredOnTheEmulatedDriverGpu, CountersAreThoseOfOneMoreLaunch) {
  task_.options.counters = true;
  cupti_.passes = 2;
  const auto measured = measure_work(*gpu_, {kernel(10'000)}, task_);
  ASSERT_TRUE(measured) << measured.error().message;
  ASSERT_TRUE(measured->counters) << measured->no_counters;
  EXPECT_EQ(*measured->counters, (HardwareCounters{1e6, 2e6, 0.5}));
}

// They are an extra: what goes wrong with them is noted, not asked for again, and no reason to have measured in vain.
TEST_F(MeasuredOnTheEmulatedDriverGpu, CountersThatFailAreNoted) {
  task_.options.counters = true;
  const auto note = [&] {
    gpu_->no_counters.clear();
    const auto measured = measure_work(*gpu_, {kernel(10'000)}, task_);
    EXPECT_TRUE(measured && !measured->counters);
    return measured ? measured->no_counters : measured.error().message;
  };
  cupti_.is_done = false;
  EXPECT_EQ(note(), "CUPTI wants more than its 1 passes");
  cupti_.is_done = true;
  cupti_.dropped_ranges = 1;
  EXPECT_EQ(note(), "CUPTI dropped the range");
  auto old = std::make_shared<CuptiApi>(*cupti_.api());
  old->missing = "cuptiRangeProfilerEnable";
  gpu_->cupti = old;
  EXPECT_EQ(note(), "a stand-in for CUPTI has no cuptiRangeProfilerEnable");
}

// Libraries launch as many kernels for a call as they like: a sample is from the first one's start to the last one's
// end.
TEST_F(MeasuredOnTheEmulatedDriverGpu, ACallIsAsManyKernelsAsItWasSeenToRun) {
  for (auto& steps : task_.rotations) steps = {PlannedCall{{0}, {}, {}}};
  const auto split = [this]() -> Status {
    STITCH_TRY(kernel(5000)());
    cupti_.ran(kernel_kind, 2000, 50);
    return {};
  };
  const auto measured = measure_work(*gpu_, {split, split}, task_);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_THAT(measured->samples, Each(7.05));
  EXPECT_EQ(measured->method, "CUPTI activity, the call's kernels");
  EXPECT_EQ(measured->launches, 1);
  const auto nothing = [] { return Status(); };
  const auto none = measure_work(*gpu_, {nothing, nothing}, task_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(none.error().message, "the library's call runs no kernel");
}

TEST_F(MeasuredOnTheEmulatedDriverGpu, OrOneGraph) {
  for (auto& steps : task_.rotations) steps = {PlannedCall{{0}, {}, {}}};
  see_graphs({3000, 4000});
  auto measured = measure_work(*gpu_, {kernel(0), kernel(0)}, task_);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_THAT(measured->samples, Each(7));
  cupti_.refuses_graphs = true;
  gpu_->graph_times_tried = false;
  measured = measure_work(*gpu_, {kernel(0), kernel(0)}, task_);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_THAT(measured->samples, Each(7.05)) << "by its kernels, with the gap between them";
}

TEST_F(MeasuredOnTheEmulatedDriverGpu, OneTimerAtATime) {
  const auto first = CuptiTimer::start(cupti_.api(), CuptiTimer::Kind::kernels);
  ASSERT_TRUE(first) << first.error().message;
  const auto second = CuptiTimer::start(cupti_.api(), CuptiTimer::Kind::kernels);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::internal);
}

}  // namespace
}  // namespace stitch::profiler::test
