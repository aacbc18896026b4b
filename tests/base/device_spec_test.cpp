#include "base/device_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace stitch {
namespace {

TEST(DeviceSpec, TableHasTheGpusItSays) {
  std::set<std::string> names;
  for (const DeviceSpec& device : known_devices()) names.insert(device.name);
  EXPECT_EQ(names, (std::set<std::string>{"a100", "a100-80gb", "a100-pcie", "b200", "b300", "gb200", "h100", "h100-nvl",
                                          "h100-pcie", "h20", "h200", "l4", "l40s", "rtx-pro-6000", "rtx3090",
                                          "rtx4090", "rtx5090", "t4", "v100"}));
  EXPECT_EQ(names.size(), known_devices().size());
}

TEST(DeviceSpec, FiguresAreFilledInAndPlausible) {
  for (const DeviceSpec& d : known_devices()) {
    SCOPED_TRACE(d.name);
    EXPECT_GE(d.compute_major, 7);
    EXPECT_TRUE(d.sm_count >= 20 && d.sm_count <= 200);
    EXPECT_TRUE(d.clock_hz > 1e9 && d.clock_hz < 3e9);
    for (const int lanes : {d.fp32_lanes_per_sm, d.int32_lanes_per_sm, d.fp64_lanes_per_sm, d.special_lanes_per_sm}) {
      EXPECT_TRUE(lanes >= 2 && lanes <= 128) << lanes;
    }
    EXPECT_TRUE(d.tensor.f16 >= 256 && d.tensor.f16 <= 4096);
    EXPECT_TRUE(d.tensor.f8 == 0 || d.tensor.f8 == 2 * d.tensor.f16) << d.tensor.f8;
    EXPECT_EQ(d.tensor.f8 > 0, 10 * d.compute_major + d.compute_minor >= 89);
    EXPECT_TRUE(d.tensor.synchronous_share > 0 && d.tensor.synchronous_share <= 1);
    EXPECT_TRUE(d.dram_bandwidth > 200e9 && d.dram_bandwidth < 10e12);
    EXPECT_TRUE(d.copy_fraction > 0.7 && d.copy_fraction < 1);
    EXPECT_LT(d.reachable_bandwidth(), d.dram_bandwidth);
    EXPECT_GT(d.l2_bandwidth, d.dram_bandwidth);
    EXPECT_GE(d.l2_bytes, std::int64_t{4} << 20);
    EXPECT_GE(d.shared_per_sm, d.shared_per_block);
    EXPECT_GE(d.shared_per_block, 48 << 10);
    EXPECT_EQ(d.registers_per_sm, 65536);
    EXPECT_EQ(d.threads_per_sm % 32, 0);
    EXPECT_GE(d.threads_per_sm, d.max_threads_per_block);
    EXPECT_GE(d.blocks_per_sm, 16);
    EXPECT_TRUE(d.shared_latency < d.l2_latency && d.l2_latency < d.dram_latency);
    EXPECT_EQ(d.has_clusters(), d.cluster_latency > 0);
    EXPECT_EQ(d.has_clusters(), d.compute_major >= 9);
    EXPECT_TRUE(d.launch_us > 0.5 && d.launch_us < 5);
    EXPECT_TRUE(d.grid_barrier_us > 0.5 && d.grid_barrier_us < 5);
    EXPECT_GT(d.block_barrier_cycles, 0);
    EXPECT_FALSE(d.source.empty());
    EXPECT_FALSE(d.full_name.empty());
  }
}

TEST(DeviceSpec, ArchitectureNames) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"v100", "sm_70"},    {"t4", "sm_75"},     {"a100", "sm_80"},      {"l4", "sm_89"},
      {"rtx4090", "sm_89"}, {"h100", "sm_90a"},  {"h200", "sm_90a"},     {"b200", "sm_100a"},
      {"rtx3090", "sm_86"}, {"b300", "sm_103a"}, {"rtx5090", "sm_120a"},
  };
  for (const auto& [name, architecture] : cases) EXPECT_EQ(find_device(name)->architecture(), architecture) << name;
}

TEST(DeviceSpec, NamesAreFoundInAnyCase) {
  EXPECT_EQ(find_device("H100")->name, "h100");
  const Result<DeviceSpec> unknown = find_device("h1000");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::invalid_argument);
  EXPECT_THAT(unknown.error().message, ::testing::HasSubstr("unknown GPU 'h1000'; known: v100, t4, a100"));
  EXPECT_FALSE(find_device("").ok());
}

}  // namespace
}  // namespace stitch
