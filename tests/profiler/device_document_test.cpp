#include "profiler/device/device_document.h"

#include <gtest/gtest.h>

namespace stitch::profiler {
namespace {

TEST(DeviceDocument, ComesBack) {
  const DeviceIdentity h100 = {"GPU-0102", "gpu", "NVIDIA H100 80GB HBM3", "sm_90a", "580.65", 132, 85'899'345'920};
  const DeviceIdentity back = identity_from(to_document(h100));
  EXPECT_EQ(back.key, h100.key);
  EXPECT_EQ(back.kind, h100.kind);
  EXPECT_EQ(back.name, h100.name);
  EXPECT_EQ(back.architecture, h100.architecture);
  EXPECT_EQ(back.driver, h100.driver);
  EXPECT_EQ(back.sm_count, h100.sm_count);
  EXPECT_EQ(back.memory_bytes, h100.memory_bytes);
}

TEST(DeviceDocument, WhatTheDriverReportsComesBack) {
  DeviceIdentity slice = {"MIG-0102", "gpu", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "sm_90a", "580.65", 16, 10 << 20};
  slice.traits = {9, 0, 16, 6'553'600, 233'472, 232'448, 2048, 32, 2'619'000, 640, 10'200'547'328, "1g.10gb"};
  const nlohmann::json document = to_document(slice);
  EXPECT_EQ(identity_from(document).traits, slice.traits);
  for (const auto& [name, value] : document["traits"].items()) {
    nlohmann::json missing = document, other = document;
    missing["traits"].erase(name);
    other["traits"][name] = nlohmann::json::array();
    EXPECT_THROW(identity_from(missing), nlohmann::json::exception) << name;
    EXPECT_THROW(identity_from(other), nlohmann::json::exception) << name;
  }
}

TEST(DeviceDocument, EveryFieldIsNeeded) {
  const nlohmann::json whole = to_document({"emulated", "emulated", "emulated device", "", "", 132, 0});
  ASSERT_EQ(whole.size(), 7U);
  for (const auto& [name, value] : whole.items()) {
    nlohmann::json missing = whole, other = whole;
    missing.erase(name);
    other[name] = nlohmann::json::array();
    EXPECT_THROW(identity_from(missing), nlohmann::json::exception) << name;
    EXPECT_THROW(identity_from(other), nlohmann::json::exception) << name;
  }
}

}  // namespace
}  // namespace stitch::profiler
