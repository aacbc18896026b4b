#include "profiler/measure/timed_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/gpu/monitor.h"

namespace stitch::profiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TimedDevice, ShapesThatNoDeviceCanLaunchAreRefused) {
  const struct {
    LaunchShape shape;
    const char* message;  ///< null: fine
  } cases[] = {
      {{1, 1, 1, 0, false}, nullptr},
      {{(std::int64_t{1} << 31) - 1, 1024, 1, 232448, true}, nullptr},
      {{0, 32, 1, 0, false}, "0 blocks"},
      {{std::int64_t{1} << 31, 32, 1, 0, false}, "2147483648 blocks"},
      {{1, 0, 1, 0, false}, "0 threads"},
      {{1, 1025, 1, 0, false}, "1025 threads"},
      {{8, 32, 3, 0, false}, "clusters of 3 blocks in a grid of 8"},
      {{32, 32, 32, 0, false}, "clusters of 32 blocks"},
      {{8, 32, 0, 0, false}, "clusters of 0 blocks"},
      {{1, 32, 1, -1, false}, "-1 bytes"},
      {{1, 32, 1, 1 << 21, false}, "2097152 bytes"},
  };
  for (const auto& [shape, message] : cases) {
    const Status status = check_shape(shape);
    if (message == nullptr) {
      EXPECT_TRUE(status.ok()) << status.error().message;
    } else {
      ASSERT_FALSE(status.ok()) << message;
      EXPECT_EQ(status.error().kind, ErrorKind::constraint);
      EXPECT_THAT(status.error().message, HasSubstr(message));
    }
  }
}

TEST(TimedDevice, TasksMustBeTheSameStepsOnOtherBuffers) {
  const BufferHandle a{1, 64, 0}, b{2, 64, 0};
  const PlannedLaunch launch{{1}, {4, 32, 1, 0, false}, {a}};
  PlannedLaunch elsewhere = launch, wider = launch, other = launch;
  elsewhere.arguments = {b};
  wider.shape.threads = 64;
  other.kernel.id = 2;
  const PlannedCopy copy{a, b, 64}, shorter{a, b, 32};
  const PlannedCall call{{1}, {a, a}, b}, called_elsewhere{{1}, {b, b}, a}, another{{2}, {a, a}, b},
      short_call{{1}, {a}, b};
  const struct {
    std::vector<std::vector<PlanStep>> rotations;
    bool graph;
    const char* message;  ///< null: fine
  } cases[] = {
      {{{launch}}, false, nullptr},
      {{{launch}, {elsewhere}}, false, nullptr},
      {{{call}}, false, nullptr},
      {{{call}, {called_elsewhere}}, false, nullptr},
      {{{call, launch}}, true, nullptr},
      {{{call}, {another}}, false, "rotation 1: step 0"},
      {{{call}, {short_call}}, false, "rotation 1: step 0"},
      {{{call}, {launch}}, false, "rotation 1: step 0"},
      {{{call, call}}, false, "exactly one launch"},
      {{{launch, copy, other}, {elsewhere, copy, other}}, true, nullptr},
      {{}, true, "nothing to measure"},
      {{{}}, true, "nothing to measure"},
      {{{launch, launch}}, false, "exactly one launch"},
      {{{copy}}, false, "exactly one launch"},
      {{{launch}, {launch, launch}}, true, "rotation 1 has 2 steps, rotation 0 has 1"},
      {{{launch}, {wider}}, false, "rotation 1: step 0"},
      {{{launch, launch}, {launch, other}}, true, "rotation 1: step 1"},
      {{{launch, copy}, {launch, shorter}}, true, "rotation 1: step 1"},
      {{{launch, copy}, {launch, launch}}, true, "rotation 1: step 1"},
  };
  for (const auto& each : cases) {
    const Status status = check_task({each.rotations, each.graph, {}});
    if (each.message == nullptr) {
      EXPECT_TRUE(status.ok()) << status.error().message;
    } else {
      ASSERT_FALSE(status.ok()) << each.message;
      EXPECT_THAT(status.error().message, HasSubstr(each.message));
    }
  }
}

TEST(DeviceMonitor, ClocksThatWereSetAreNoThrottling) {
  EXPECT_THAT(throttle_reasons(0), IsEmpty());
  EXPECT_THAT(throttle_reasons(0x1 | 0x2 | 0x10 | 0x100), IsEmpty());  // idle, clocks set, sync boost, display
  EXPECT_THAT(throttle_reasons(0x4 | 0x40), ElementsAre("power cap", "hardware thermal slowdown"));
  EXPECT_THAT(throttle_reasons(0x8 | 0x20 | 0x80),
              ElementsAre("hardware slowdown", "software thermal slowdown", "power brake"));
}

TEST(DeviceMonitor, SaysWhyThereIsNone) {
  EXPECT_THAT(GpuMonitor::open("GPU-x", "libstitch-no-such-library.so").error().message, HasSubstr("no NVML: "));
  EXPECT_THAT(GpuMonitor::open("GPU-x", "libm.so.6").error().message, HasSubstr("libm.so.6 is no NVML"));
}

}  // namespace
}  // namespace stitch::profiler
