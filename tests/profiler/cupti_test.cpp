// The real CUPTI, as far as it goes on any machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cuda/driver_api.h"
#include "profiler/gpu/cupti_api.h"
#include "profiler/gpu/cupti_counters.h"
#include "profiler/gpu/cupti_timer.h"

namespace stitch::profiler {
namespace {

using testing::HasSubstr;

class Cupti : public testing::Test {
 protected:
  void SetUp() override {
    auto api = CuptiApi::load();
    if (!api) GTEST_SKIP() << api.error().message;
    api_ = *api;
  }
  std::shared_ptr<const CuptiApi> api_;
};

TEST_F(Cupti, IsTheToolkits) {
  EXPECT_GE(api_->api_version, 24U);  // of CUDA 12.6
  EXPECT_EQ(api_->missing, "");
  EXPECT_THAT(api_->check(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "cuptiX").error().message,
              HasSubstr("cuptiX: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"));
}

// The libraries decide which counters a chip has and how many passes they take; neither needs a GPU.
TEST_F(Cupti, PlansCountersForChips) {
  for (const char* chip : {"GH100", "GA100", "AD102"}) {
    const auto plan = CounterPlan::make(api_, chip);
    ASSERT_TRUE(plan) << chip << ": " << plan.error().message;
    EXPECT_GT((*plan)->config().size(), 100U) << chip;
    EXPECT_GE((*plan)->passes(), 1U) << chip;
  }
  // One pass on the chip that is measured most: a kernel that changes its inputs is counted as it was timed.
  EXPECT_EQ((*CounterPlan::make(api_, "GH100"))->passes(), 1U);
  const auto unknown = CounterPlan::make(api_, "XY999");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(unknown.error().message, HasSubstr("cuptiProfilerHostInitialize: CUPTI_ERROR_"));
}

TEST_F(Cupti, WithoutADriverTimesAndCountsNothingAndSaysSo) {
  if (const auto driver = cuda::DriverApi::load(cuda::DriverUse::measure)) GTEST_SKIP() << "there is a GPU";
  const auto timer = CuptiTimer::start(api_, CuptiTimer::Kind::kernels);
  ASSERT_FALSE(timer);
  EXPECT_EQ(timer.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(timer.error().message, HasSubstr("cuptiActivity"));
  const auto never = []() -> Status { return make_error(ErrorKind::internal, "nothing may run"); };
  const auto counters = count_hardware(api_, nullptr, 0, never, never);
  ASSERT_FALSE(counters);
  EXPECT_THAT(counters.error().message, HasSubstr("cuptiProfilerInitialize: CUPTI_ERROR_"));
  // A timer that could not start leaves room for the next one.
  EXPECT_THAT(CuptiTimer::start(api_, CuptiTimer::Kind::graphs).error().message, HasSubstr("cuptiActivity"));
}

// The nearest thing to a driver that a machine without one has: NVIDIA's own stub, which has every entry.
TEST_F(Cupti, TheToolkitsStubHasEveryEntryAndIsNoDriver) {
  const auto stub = std::filesystem::path(api_->path).parent_path() / "stubs/libcuda.so";
  if (!std::filesystem::exists(stub)) GTEST_SKIP() << "no stub beside " << api_->path;
  const auto driver = cuda::DriverApi::load(cuda::DriverUse::measure, stub.string());
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(driver.error().message, HasSubstr("cuInit: CUDA_ERROR_STUB_LIBRARY"));
}

TEST(CuptiIntervals, OfAGraphsKernelsMakeItsSpan) {
  const std::vector<ActivityInterval> kernels = {{100, 200}, {210, 250}, {900, 1000}, {910, 950}};
  const auto graphs = spans_of(kernels, 2);
  ASSERT_TRUE(graphs);
  ASSERT_EQ(graphs->size(), 2U);
  EXPECT_DOUBLE_EQ((*graphs)[0].us(), 0.15) << "the gap counts";
  EXPECT_DOUBLE_EQ((*graphs)[1].us(), 0.1) << "the kernel that starts last ends before the other";
  const auto single = spans_of(kernels, 1);
  ASSERT_TRUE(single);
  EXPECT_EQ(single->size(), 4U);
  EXPECT_DOUBLE_EQ((*single)[3].us(), 0.04);
  const auto odd = spans_of(kernels, 3);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(odd.error().message, "4 kernels were recorded, which is no multiple of 3");
}

TEST(CuptiLibrary, SaysWhatItTried) {
  EXPECT_THAT(CuptiApi::load("libstitch-no-such-library.so").error().message,
              HasSubstr("no CUPTI to time with; tried:\n  libstitch-no-such-library.so"));
  EXPECT_THAT(CuptiApi::load("libm.so.6").error().message, HasSubstr("libm.so.6 is no CUPTI that can be used"));
}

}  // namespace
}  // namespace stitch::profiler
