#include "daemon/calibrated_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch::daemon {
namespace {

using testing::HasSubstr;

db::Device h100_pcie() {
  return device_record({"GPU-1", "gpu", "NVIDIA H100 PCIe", "sm_90a", "580.95 (CUDA 13.0)", 114, 85000000000}, {});
}

TEST(CalibratedDevice, WithoutCalibrationTheTableStandsWithTheDevicesOwnSize) {
  const auto found = calibrated_spec(h100_pcie());
  ASSERT_TRUE(found) << found.error().message;
  const DeviceSpec table = *find_device("h100");
  EXPECT_EQ(found->spec.name, "h100");
  EXPECT_EQ(found->spec.sm_count, 114);
  EXPECT_EQ(found->spec.l2_bandwidth, table.l2_bandwidth);
  EXPECT_EQ(found->spec.source, table.source);
  EXPECT_THAT(found->notes, testing::IsEmpty());
}

TEST(CalibratedDevice, WhatWasCalibratedIsPlannedWith) {
  db::Device device = h100_pcie();
  set_calibration(device, {{{"copy_fraction", {0.55, 0.01}}, {"launch_us", {0.9, 0.1}}, {"l2_latency", {9, 0}}}},
                  "h100", 1790000000000000);
  ASSERT_TRUE(db::validate([&] {
    db::Device stored = device;
    stored.provenance.tool = "test";
    return stored;
  }()));
  const auto found = calibrated_spec(device);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->spec.copy_fraction, 0.55);
  EXPECT_EQ(found->spec.launch_us, 0.9);
  EXPECT_EQ(found->spec.l2_latency, find_device("h100")->l2_latency);
  EXPECT_THAT(found->notes, testing::ElementsAre(HasSubstr("l2_latency: 9 was measured")));
  EXPECT_THAT(found->spec.source, HasSubstr("calibrated on GPU-1"));
  // Seen again, with another driver: the calibration stays.
  const db::Device again = device_record({"GPU-1", "gpu", "NVIDIA H100 PCIe", "sm_90a", "590.1", 114, 1}, device);
  EXPECT_EQ(again.constants, device.constants);
  EXPECT_EQ(again.driver, "590.1");
}

TEST(CalibratedDevice, UnknownDevicesAndForeignConstantsAreErrors) {
  db::Device device = h100_pcie();
  device.name = "NVIDIA H20";
  const auto unknown = calibrated_spec(device);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::not_found);
  EXPECT_THAT(unknown.error().message, HasSubstr("device GPU-1: no entry of the device table is for 'NVIDIA H20'"));
  device.target = "h200";
  EXPECT_EQ(calibrated_spec(device)->spec.name, "h200");
  for (const char* constants : {"[]", "{\"launch_us\": 3}", "no JSON"}) {
    device.constants = constants;
    const auto foreign = calibrated_spec(device);
    ASSERT_FALSE(foreign) << constants;
    EXPECT_EQ(foreign.error().kind, ErrorKind::parse);
    EXPECT_THAT(foreign.error().message, HasSubstr("device GPU-1: calibrated constants: "));
  }
}

}  // namespace
}  // namespace stitch::daemon
