#include "costmodel/phase_time.h"

#include <gtest/gtest.h>

namespace stitch::costmodel::test {
namespace {

/// One phase of `tiles` blocks of 256 threads that reads and writes so much, a lane 64 bytes at a time.
KernelQuantities streaming(std::int64_t tiles, double read, double written) {
  KernelQuantities kernel;
  kernel.blocks = tiles;
  kernel.threads = 256;
  kernel.resident = 8;
  PhaseQuantities& phase = kernel.phases.emplace_back();
  phase.tiles = tiles;
  GroupFeatures& group = phase.groups.emplace_back();
  group.tiles = tiles;
  group.threads = kernel.threads;
  group.dram_read_bytes = read;
  group.dram_write_bytes = written;
  group.l2_bytes = read + written;
  group.sector_bytes = read + written;
  group.bytes_in_flight = 64;
  return kernel;
}

PhaseTime time_of(const KernelQuantities& kernel, const AnalyticalConstants& constants = {}) {
  return phase_time(kernel.phases[0], kernel, *find_device("h100"), constants);
}

/// Bytes a second of device memory.
double dram_rate(const KernelQuantities& kernel) { return kernel.phases[0].bytes() / time_of(kernel).dram * 1e6; }

constexpr double bytes = 1e9;

TEST(PhaseTime, CopiesAtTheCopyBandwidthAndReadsFaster) {
  const DeviceSpec device = *find_device("h100");
  // Whole waves of 132 SMs with eight blocks.
  const std::int64_t tiles = 132 * 8 * 100;
  const double copy = dram_rate(streaming(tiles, bytes, bytes));
  EXPECT_NEAR(copy / device.copy_bandwidth(), 1, 0.01);
  EXPECT_GT(dram_rate(streaming(tiles, 2 * bytes, bytes)), 1.01 * copy);
  EXPECT_GT(dram_rate(streaming(tiles, bytes, 0)), 1.05 * copy);
  EXPECT_LT(dram_rate(streaming(tiles, 0, bytes)), 0.95 * copy);
  EXPECT_LE(dram_rate(streaming(tiles, bytes, 0)), device.reachable_bandwidth());
}

TEST(PhaseTime, BandwidthBendsWithBytesInFlight) {
  double before = 0;
  for (const double each : {2.0, 4.0, 8.0, 16.0, 32.0, 64.0}) {
    KernelQuantities kernel = streaming(132 * 8, bytes, 0);
    kernel.phases[0].groups[0].bytes_in_flight = each;
    const double rate = dram_rate(kernel);
    EXPECT_GT(rate, before);
    // Twice as much in flight is at most twice the bandwidth, and near the limit much less.
    EXPECT_LT(rate, before > 0 ? 2 * before : 1e13);
    if (each == 64) {
      EXPECT_LT(rate, 1.05 * before);
    }
    before = rate;
  }
}

// Of a loop's turn loads are outstanding until they are there; what is asked for a turn ahead always is.
TEST(PhaseTime, LoadsMadeAheadAreAlwaysOnTheirWay) {
  const auto rate = [](double ahead) {
    KernelQuantities kernel = streaming(132, bytes, 0);
    kernel.resident = 1;
    kernel.phases[0].groups[0].ahead_share = ahead;
    return dram_rate(kernel);
  };
  EXPECT_LT(rate(0), rate(0.5));
  EXPECT_LT(rate(0.5), rate(1));
}

TEST(PhaseTime, AnSmTakesNoMoreThanItsPort) {
  const DeviceSpec device = *find_device("h100");
  const AnalyticalConstants constants;
  for (const int blocks : {1, 8, 16}) {
    KernelQuantities kernel = streaming(blocks, bytes, 0);
    kernel.phases[0].groups[0].bytes_in_flight = 1024;
    EXPECT_NEAR(dram_rate(kernel), blocks * constants.sm_dram_bytes_per_clock * device.clock_hz,
                1e-3 * dram_rate(kernel));
    EXPECT_NEAR(bytes / time_of(kernel).l2 * 1e6 / (blocks * constants.alone_bytes_per_clock * device.clock_hz), 1,
                0.01);
  }
}

TEST(PhaseTime, TheSmWithMostBlocksIsWaitedFor) {
  // 192 blocks: 60 of 132 SMs have two.
  KernelQuantities kernel = streaming(192, bytes, 0);
  kernel.phases[0].groups[0].instructions = 1e9;
  const double uneven = time_of(kernel).issue;
  KernelQuantities even = streaming(264, bytes, 0);
  even.phases[0].groups[0].instructions = 1e9;
  EXPECT_NEAR(uneven / time_of(even).issue, 264.0 / 192, 1e-9);
}

TEST(PhaseTime, FewWarpsIssueLess) {
  const auto issue = [](int threads) {
    KernelQuantities kernel = streaming(132, bytes, 0);
    kernel.threads = threads;
    kernel.phases[0].groups[0].threads = threads;
    kernel.phases[0].groups[0].instructions = 1e9;
    return time_of(kernel).issue;
  };
  const AnalyticalConstants constants;
  EXPECT_NEAR(issue(128) / issue(1024), 1 / constants.warp_issue, 1e-9);
  EXPECT_LT(issue(256), issue(128));
}

TEST(PhaseTime, ALastWaveHasTheBandwidthOfItsBlocks) {
  const double whole = time_of(streaming(132 * 8, bytes, 0)).dram;
  const double one_more = time_of(streaming(132 * 8 + 1, bytes, 0)).dram;
  EXPECT_GT(one_more, whole);
  EXPECT_LT(one_more, 1.5 * whole);
}

TEST(PhaseTime, WhatIsInSeriesShowsOnce) {
  KernelQuantities kernel = streaming(132 * 80, bytes, bytes);
  const double before = time_of(kernel).total(0);
  kernel.phases[0].groups[0].serial_cycles = find_device("h100")->clock_hz * 1e-6;  // one µs
  EXPECT_NEAR(time_of(kernel).total(0) - before, 1, 1e-9);
}

}  // namespace
}  // namespace stitch::costmodel::test
