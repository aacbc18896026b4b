#include "base/driver_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch {
namespace {

TEST(DriverName, GpusAreFoundByWhatTheirDriverCallsThem) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"NVIDIA H100 80GB HBM3", "h100"},
      {"NVIDIA H100 PCIe", "h100-pcie"},
      {"NVIDIA H100 NVL", "h100-nvl"},
      {"NVIDIA H200", "h200"},
      {"NVIDIA H200 NVL", "h200"},
      {"NVIDIA B200", "b200"},
      {"NVIDIA A100-SXM4-40GB", "a100"},
      {"NVIDIA A100-SXM4-80GB", "a100-80gb"},
      {"NVIDIA A100 80GB PCIe", "a100-pcie"},
      {"NVIDIA A100-PCIE-40GB", "a100"},
      {"NVIDIA GeForce RTX 3090", "rtx3090"},
      {"NVIDIA L40S", "l40s"},
      {"NVIDIA H20", "h20"},
      {"NVIDIA GB200", "gb200"},
      {"NVIDIA B300 SXM6 AC", "b300"},
      {"NVIDIA GeForce RTX 5090", "rtx5090"},
      {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"},
      {"NVIDIA L4", "l4"},
      {"Tesla T4", "t4"},
      {"Tesla V100-SXM2-16GB", "v100"},
      {"NVIDIA GeForce RTX 4090", "rtx4090"},
  };
  for (const auto& [name, device] : cases) {
    const auto found = find_device_by_driver_name(name);
    ASSERT_TRUE(found.ok()) << name;
    EXPECT_EQ(found->name, device) << name;
  }
}

TEST(DriverName, OthersAreNotTakenForThem) {
  for (const std::string_view name :
       {"NVIDIA H1000", "NVIDIA L40", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 5090 D", "NVIDIA A10",
        "NVIDIA A100X", "Tesla T40", "NVIDIA GeForce RTX 4080", "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU", "Quadro 4090", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "emulated", ""}) {
    const auto found = find_device_by_driver_name(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.error().kind, ErrorKind::not_found);
    EXPECT_THAT(found.error().message, testing::AllOf(testing::HasSubstr("'" + std::string(name) + "'"),
                                                      testing::HasSubstr("h100, h200, h20")));
  }
}

TEST(DriverName, EveryEntryOfTheTableHasOne) {
  for (const DeviceSpec& device : known_devices()) {
    const auto found = find_device_by_driver_name(device.full_name);
    ASSERT_TRUE(found.ok()) << device.full_name;
    EXPECT_EQ(found->name, device.name);
  }
}

}  // namespace
}  // namespace stitch
