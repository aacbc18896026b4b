#include "profiler/gpu/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/profiler/fake_nvml.h"

namespace stitch::profiler::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(GpuMonitor, SaysWhatNvmlSaysInUnitsOfItsOwn) {
  FakeNvml nvml;
  const auto monitor = GpuMonitor::open("GPU-1234", FakeNvml::library());
  ASSERT_TRUE(monitor) << monitor.error().message;
  EXPECT_EQ((*monitor)->driver_version(), "580.95.05");
  nvml.throttle(0x44, 1, 0);
  const DeviceState state = (*monitor)->state();
  EXPECT_EQ(state.sm_clock_mhz, 1755);
  EXPECT_EQ(state.memory_clock_mhz, 2619);
  EXPECT_EQ(state.temperature_c, 41);
  EXPECT_EQ(state.power_w, 350.5);
  EXPECT_THAT(state.throttled, ElementsAre("power cap", "hardware thermal slowdown"));
  EXPECT_THAT((*monitor)->state().throttled, IsEmpty());
}

TEST(GpuMonitor, LeavesOutWhatNvmlDoesNotTell) {
  FakeNvml nvml;
  const auto monitor = GpuMonitor::open("GPU-1234", FakeNvml::library());
  ASSERT_TRUE(monitor) << monitor.error().message;
  nvml.know_power(false);
  EXPECT_EQ((*monitor)->state().power_w, std::nullopt);
  EXPECT_EQ((*monitor)->state().temperature_c, 41);
}

TEST(GpuMonitor, NamesTheGpuThatNvmlDoesNotHave) {
  const auto monitor = GpuMonitor::open("1234", FakeNvml::library());
  ASSERT_FALSE(monitor);
  EXPECT_EQ(monitor.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(monitor.error().message, HasSubstr("NVML has no 1234: Not Found"));
}

TEST(GpuMonitor, OtherLibrariesAreNoNvml) {
  EXPECT_THAT(GpuMonitor::open("GPU-1", "libm.so.6").error().message, HasSubstr("no NVML that can be used"));
  EXPECT_THAT(GpuMonitor::open("GPU-1", "libnothing.so.1").error().message, HasSubstr("no NVML: libnothing"));
}

}  // namespace
}  // namespace stitch::profiler::test
