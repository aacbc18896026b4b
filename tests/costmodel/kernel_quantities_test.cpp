#include "costmodel/kernel_quantities.h"

#include <gtest/gtest.h>

#include "costmodel/analytical.h"
#include "costmodel/kernel_features.h"
#include "tests/profiler/kernel_case.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::costmodel::test {
namespace {

constexpr double mb = 1e6;

PhaseQuantities reading(double bytes, double between, double around, bool opposite) {
  PhaseQuantities phase;
  phase.rereads = {{bytes, between, around, 0, opposite}};
  return phase;
}

// 100 MB read by one phase and by the next, which also writes as much: of what is read again, a quarter of what L2
// keeps of both comes from there, if the second begins where the first ended.
TEST(FoundInL2, IsTheEndOfWhatDoesNotFit) {
  EXPECT_DOUBLE_EQ(reading(100 * mb, 0, 200 * mb, true).found_in_l2(25 * mb), 12.5 * mb);
  EXPECT_DOUBLE_EQ(reading(100 * mb, 5 * mb, 200 * mb, true).found_in_l2(25 * mb), 10 * mb);
  EXPECT_DOUBLE_EQ(reading(100 * mb, 30 * mb, 200 * mb, true).found_in_l2(25 * mb), 0);
  EXPECT_DOUBLE_EQ(reading(100 * mb, 0, 200 * mb, false).found_in_l2(25 * mb), 0);
}

// Where blocks have a part of the tensor each, what they ask for last is everywhere.
TEST(FoundInL2, IsNothingBehindBlocksThatAreEverywhere) {
  PhaseQuantities phase = reading(100 * mb, 0, 200 * mb, true);
  phase.rereads[0].front = 5 * mb;
  EXPECT_DOUBLE_EQ(phase.found_in_l2(25 * mb), 10 * mb);
  phase.rereads[0].front = 100 * mb;
  EXPECT_DOUBLE_EQ(phase.found_in_l2(25 * mb), 0);
  EXPECT_DOUBLE_EQ(phase.found_in_l2(200 * mb), 100 * mb);
}

TEST(FoundInL2, IsAllThatFits) {
  EXPECT_DOUBLE_EQ(reading(10 * mb, 0, 20 * mb, true).found_in_l2(25 * mb), 10 * mb);
  EXPECT_DOUBLE_EQ(reading(10 * mb, 0, 20 * mb, false).found_in_l2(25 * mb), 10 * mb);
  EXPECT_DOUBLE_EQ(reading(10 * mb, 6 * mb, 20 * mb, false).found_in_l2(25 * mb), 0);
}

// Mean of squares of everything, then everything divided by its root.
KernelQuantities normalised(std::int64_t elements) {
  const auto device = *find_device("h100");
  const auto gated = [](const kernel::KernelProgram& p) {
    return p.phases.size() == 3 && p.schedule.syncs == std::vector{kernel::Sync::gate, kernel::Sync::open} &&
           p.schedule.retained == 0;
  };
  const auto made = profiler::test::make_case(profiler::test::divided_by_norm(elements), gated);
  return kernel_quantities(*made.graph, made.program, device);
}

TEST(KernelQuantities, KnowWhatIsReadAgain) {
  const KernelQuantities kernel = normalised(1 << 24);
  ASSERT_EQ(kernel.phases.size(), 3U);
  EXPECT_TRUE(kernel.phases[0].rereads.empty());
  EXPECT_TRUE(kernel.phases[1].rereads.empty());
  ASSERT_EQ(kernel.phases[2].rereads.size(), 1U);
  const PhaseQuantities::Reread& again = kernel.phases[2].rereads[0];
  const double bytes = 4.0 * (1 << 24);
  EXPECT_EQ(again.bytes, bytes);
  EXPECT_TRUE(again.opposite);
  EXPECT_LT(again.front, bytes / 4) << "all blocks walk through it together";
  EXPECT_NEAR(again.around, bytes, 0.01 * bytes) << "what is stored passes L2 by";
  EXPECT_LT(again.between, 0.01 * bytes);
  EXPECT_EQ(kernel.phases[1].entry, PhaseEntry::gate);
  EXPECT_TRUE(kernel.phases[1].alone());
  EXPECT_EQ(kernel.phases[2].entry, PhaseEntry::open);
  EXPECT_FALSE(kernel.phases[2].alone());
}

// Blocks that keep the beginning of their walks find it there; what L2 has is the rest.
TEST(KernelQuantities, WhatBlocksRetainIsNotReadAgain) {
  const double bytes = 4.0 * (1 << 24);
  const auto retaining = [](const kernel::KernelProgram& p) { return p.schedule.retained > 0; };
  const auto made = profiler::test::make_case(profiler::test::divided_by_norm(1 << 24), retaining);
  const KernelQuantities kernel = kernel_quantities(*made.graph, made.program, *find_device("h100"));
  ASSERT_EQ(kernel.phases.size(), 3U);
  const kernel::RetainedLoad& load = made.program.phases[0].groups[0].retained.at(0);
  ASSERT_GT(load.share, 0.1);
  ASSERT_LT(load.share, 0.9);
  const GroupFeatures &first = kernel.phases[0].groups[0], &last = kernel.phases[2].groups[0];
  EXPECT_NEAR(first.dram_read_bytes, bytes, 0.01 * bytes);
  EXPECT_NEAR(last.dram_read_bytes, (1 - load.share) * bytes, 0.01 * bytes);
  EXPECT_NEAR(last.sector_bytes, last.dram_read_bytes + last.dram_write_bytes, 0.02 * bytes);
  EXPECT_NEAR(first.shared_bytes, load.share * bytes, 0.01 * bytes) << "left there";
  EXPECT_NEAR(last.shared_bytes, load.share * bytes, 0.01 * bytes) << "found there";
  const PhaseQuantities::Reread& again = kernel.phases[2].rereads.at(0);
  EXPECT_NEAR(again.bytes, (1 - load.share) * bytes, 0.01 * bytes);
  EXPECT_NEAR(again.around, (1 - load.share) * bytes, 0.01 * bytes) << "L2 need not hold what blocks retain";
}

// Amounts are those of one slab; what a slab keeps on chip is not read again.
TEST(KernelQuantities, AreOfOneSlab) {
  const double bytes = 4.0 * 200'704 * 256;
  const auto whole = [](const kernel::KernelProgram& p) {
    const auto& kept = p.phases[0].groups[0].retained;
    return p.schedule.slabs.count == 8 && !kept.empty() && kept[0].share == 1;
  };
  const auto made = profiler::test::make_case(profiler::test::centred_columns(200'704, 256), whole);
  const DeviceSpec device = *find_device("h100");
  const KernelQuantities kernel = kernel_quantities(*made.graph, made.program, device);
  EXPECT_EQ(kernel.slabs, 8);
  EXPECT_EQ(kernel.run_bytes, 128) << "32 columns";
  const GroupFeatures &first = kernel.phases.front().groups[0], &last = kernel.phases.back().groups[0];
  EXPECT_NEAR(first.dram_read_bytes, bytes / 8, 0.01 * bytes / 8);
  EXPECT_LT(last.dram_read_bytes, 0.01 * bytes / 8);
  EXPECT_NEAR(last.dram_write_bytes, bytes / 8, 0.01 * bytes / 8);
  for (const PhaseQuantities::Reread& again : kernel.phases.back().rereads) EXPECT_LT(again.bytes, 0.01 * bytes / 8);
  EXPECT_NEAR(kernel_features(*made.graph, made.program, device).dram_write_bytes, bytes, 0.02 * bytes);
  // Short runs cost more of each DRAM row.
  KernelQuantities shorter = kernel;
  shorter.run_bytes = 32;
  EXPECT_GT(analytical_us(shorter, device, {}), 1.1 * analytical_us(kernel, device, {}));
}

TEST(KernelQuantities, ALargerCacheIsNeverSlower) {
  const KernelQuantities kernel = normalised(1 << 22);
  DeviceSpec device = *find_device("h100");
  double before = 0;
  for (const double kept : {0.0, 0.2, 0.5, 1.0}) {
    AnalyticalConstants constants;
    constants.l2_kept = kept;
    const double us = analytical_us(kernel, device, constants);
    if (kept > 0) {
      EXPECT_LE(us, before);
    }
    before = us;
  }
  AnalyticalConstants none;
  none.l2_kept = 0;
  EXPECT_LT(before, analytical_us(kernel, device, none));
}

}  // namespace
}  // namespace stitch::costmodel::test
