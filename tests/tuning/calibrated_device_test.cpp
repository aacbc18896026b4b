#include "tuning/devices/calibrated_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/sqlite_store.h"
#include "tests/db/sample_records.h"

namespace stitch::tuning {
namespace {

using testing::HasSubstr;

db::Device h100_pcie() {
  return device_record({"GPU-1", "gpu", "NVIDIA H100 PCIe", "sm_90a", "580.95 (CUDA 13.0)", 114, 85000000000}, {});
}

const DeviceTraits h100_pcie_traits = {9,    0,  114,       52'428'800, 233'472,        232'448,
                                       2048, 32, 1'593'000, 5120,       84'929'019'904, ""};
const DeviceTraits h20_traits = {9,    0,  78,        62'914'560, 233'472,         232'448,
                                 2048, 32, 2'619'000, 6144,       102'000'000'000, ""};

TEST(CalibratedDevice, WithoutCalibrationTheTableStandsWithTheDevicesOwnSize) {
  const auto found = calibrated_spec(h100_pcie());
  ASSERT_TRUE(found) << found.error().message;
  const DeviceSpec table = *find_device("h100-pcie");
  EXPECT_EQ(found->spec.name, "h100-pcie");
  EXPECT_EQ(found->spec.sm_count, 114);
  EXPECT_EQ(found->spec.l2_bandwidth, table.l2_bandwidth);
  EXPECT_EQ(found->spec.source, table.source);
  EXPECT_THAT(found->notes, testing::IsEmpty());
}

TEST(CalibratedDevice, WhatWasCalibratedIsPlannedWith) {
  db::Device device = h100_pcie();
  set_calibration(device, {{{"copy_fraction", {0.55, 0.01}}, {"launch_us", {0.9, 0.1}}, {"l2_latency", {9, 0}}}},
                  "h100-pcie", 1790000000000000);
  ASSERT_TRUE(db::validate([&] {
    db::Device stored = device;
    stored.provenance.tool = "test";
    return stored;
  }()));
  const auto found = calibrated_spec(device);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->spec.copy_fraction, 0.55);
  EXPECT_EQ(found->spec.launch_us, 0.9);
  EXPECT_EQ(found->spec.l2_latency, find_device("h100-pcie")->l2_latency);
  EXPECT_THAT(found->notes, testing::ElementsAre(HasSubstr("l2_latency: 9 was measured")));
  EXPECT_THAT(found->spec.source, HasSubstr("calibrated on GPU-1"));
  // Seen again, with another driver: the calibration stays.
  const db::Device again = device_record({"GPU-1", "gpu", "NVIDIA H100 PCIe", "sm_90a", "590.1", 114, 1}, device);
  EXPECT_EQ(again.constants, device.constants);
  EXPECT_EQ(again.driver, "590.1");
}

/// A GPU by its name and what its driver reports, if that is known: nothing can be run on it.
class BusyGpu final : public profiler::TimedDevice {
 public:
  explicit BusyGpu(std::string name, const DeviceTraits& traits = {})
      : identity_{"GPU-1",     "gpu", std::move(name), "sm_90a", "580.95", traits.known() ? traits.sm_count : 114,
                  85000000000, traits} {}
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return identity_; }
  Result<std::unique_ptr<profiler::TimedSession>> timed_session() override {
    return make_error(ErrorKind::unavailable, "somebody else has the GPU");
  }

 private:
  profiler::DeviceIdentity identity_;
};

TEST(PlanningDevice, IsTheOneThatIsThereUnlessAnotherIsAskedFor) {
  const SystemClock clock;
  const auto name_of = [&](std::string_view target, profiler::TimedDevice* gpu) {
    const auto planned = planning_device(target, gpu, nullptr, clock);
    return planned ? planned->spec.name : planned.error().message;
  };
  BusyGpu h200("NVIDIA H200"), unknown("NVIDIA H1000");
  EXPECT_EQ(name_of("", nullptr), "h100");
  EXPECT_EQ(name_of("a100", nullptr), "a100");
  EXPECT_EQ(name_of("", &h200), "h200");
  EXPECT_EQ(name_of("h200", &h200), "h200");
  EXPECT_THAT(name_of("h100", &h200), HasSubstr("NVIDIA H200 (h200): plans for h100 cannot be measured on it"));
  EXPECT_THAT(name_of("", &unknown), HasSubstr("no entry of the device table is for 'NVIDIA H1000'"));
  EXPECT_EQ(name_of("h200", &unknown), "h200") << "what comes closest, somebody has to say";
  EXPECT_EQ(planning_device("h200", &unknown, nullptr, clock)->spec.sm_count, 114);
}

TEST(PlanningDevice, IsOfTheClassThatTheDriversAnswersMakeItWhateverItsName) {
  const SystemClock clock;
  BusyGpu pcie("NVIDIA H100 80GB HBM3", h100_pcie_traits), oem("GH100-xyz", h20_traits);
  EXPECT_EQ(planning_device("", &pcie, nullptr, clock)->spec.name, "h100-pcie");
  EXPECT_EQ(planning_device("", &pcie, nullptr, clock)->spec.dram_bandwidth, 2039e9);
  EXPECT_EQ(planning_device("", &oem, nullptr, clock)->spec.name, "h20");
  EXPECT_THAT(planning_device("", &oem, nullptr, clock)->notes, testing::IsEmpty());
  EXPECT_THAT(planning_device("h100", &pcie, nullptr, clock).error().message,
              HasSubstr("(h100-pcie): plans for h100 cannot be measured on it"));

  DeviceTraits slice = h100_pcie_traits;
  slice.sm_count = 14;
  slice.l2_bytes /= 8;
  slice.memory_bus_bits /= 8;
  slice.mig_profile = "1g.10gb";
  BusyGpu mig("NVIDIA H100 PCIe MIG 1g.10gb", slice);
  const auto planned = planning_device("", &mig, nullptr, clock);
  ASSERT_TRUE(planned) << planned.error().message;
  EXPECT_EQ(planned->spec.name, "h100-pcie~sm14-l2.6400-gbs255-mig1g.10gb");
  EXPECT_THAT(planned->notes, testing::ElementsAre(testing::AllOf(
                                  HasSubstr("NVIDIA H100 PCIe MIG 1g.10gb is of class h100-pcie~sm14"),
                                  HasSubstr("no entry of the device table"), HasSubstr("as for the h100-pcie"))));
  EXPECT_EQ(planning_device(planned->spec.name, &mig, nullptr, clock)->spec.name, planned->spec.name);

  // The class is kept with the device, and what is planned with later is the same.
  const db::Device record = device_record(mig.identity(), {});
  EXPECT_EQ(record.target, planned->spec.name);
  const auto stored = calibrated_spec(record);
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(stored->spec.name, planned->spec.name);
  EXPECT_EQ(stored->spec.l2_bandwidth, planned->spec.l2_bandwidth);
}

TEST(PlanningDevice, TakesWhatWasCalibratedAndElseSaysWhyNot) {
  const SystemClock clock;
  const TestFolder folder;
  db::SqliteOptions storage;
  storage.path = folder / "stitch.db";
  const auto store = db::open_sqlite_store(storage, clock);
  ASSERT_TRUE(store) << store.error().message;
  BusyGpu gpu("NVIDIA H100 PCIe");
  const auto before = planning_device("", &gpu, store->get(), clock);
  ASSERT_TRUE(before) << before.error().message;
  EXPECT_EQ(before->spec.launch_us, find_device("h100-pcie")->launch_us);
  EXPECT_EQ(before->spec.sm_count, 114);
  EXPECT_THAT(before->notes, testing::ElementsAre(HasSubstr("the device table: ")));

  const DeviceSpec entry = *find_device("h100-pcie");
  const profiler::Calibration calibration = {{{"launch_us", {0.9, 0.1}}}};
  ASSERT_TRUE(store_calibration(**store, gpu.identity(), entry, calibration, "13.0.88", clock));
  const auto after = planning_device("", &gpu, store->get(), clock);
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->spec.launch_us, 0.9);
  EXPECT_THAT(after->notes, testing::IsEmpty());
  const auto stored = (*store)->get_device("GPU-1");
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->provenance.judged, "calibrated");
  EXPECT_EQ(stored->provenance.toolkit, "13.0.88");
}

TEST(CalibratedDevice, UnknownDevicesAndForeignConstantsAreErrors) {
  db::Device device = h100_pcie();
  device.name = "NVIDIA H1000";
  const auto unknown = calibrated_spec(device);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::not_found);
  EXPECT_THAT(unknown.error().message, HasSubstr("device GPU-1: no entry of the device table is for 'NVIDIA H1000'"));
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
}  // namespace stitch::tuning
