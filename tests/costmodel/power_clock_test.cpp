// Which clock power leaves, of products that multiply all of the time and of such that wait.
#include "costmodel/contraction/power_clock.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stitch::costmodel {
namespace {

/// A loop of so many µs of which half is multiplying.
TimeAtFullClock waiting(double loop) { return {.multiplying = loop / 2, .loop = loop}; }

TEST(PowerClock, WhoMultipliesAllOfTheTimeHasWhatPowerLeaves) {
  const TimeAtFullClock all = {.multiplying = 100, .loop = 100};
  EXPECT_NEAR(clock_under_power(all, 0.5), 0.5, 1e-3);
  EXPECT_NEAR(time_at_clock(all, clock_under_power(all, 0.5)), 200, 0.4);
  EXPECT_EQ(clock_under_power(all, 1), 1);
}

/// Half of the power at each clock, so that the third power of the clock may be twice as much.
TEST(PowerClock, WhoWaitsOnTheSameClockKeepsTheThirdRootMore) {
  EXPECT_NEAR(clock_under_power(waiting(100), 0.5), 0.5 * std::cbrt(2.0), 1e-3);
  EXPECT_NEAR(clock_under_power(waiting(1), 0.5), clock_under_power(waiting(100), 0.5), 1e-9);
  EXPECT_EQ(clock_under_power(waiting(100), 0.8), 1) << "half of the power is less than 0.8³";
  EXPECT_EQ(clock_under_power({.loop = 10}, 0.5), 1) << "nothing multiplies";
}

/// Between both ends power is what the board has, whatever bounds the product; its memory's clock is not lowered.
TEST(PowerClock, AllOfThePowerIsTaken) {
  const double always = 0.5;
  for (const TimeAtFullClock& full :
       {TimeAtFullClock{.multiplying = 60, .loop = 100, .l2 = 80, .dram = 90, .behind = 7},
        TimeAtFullClock{.multiplying = 60, .loop = 60, .l2 = 90, .behind = 1},
        TimeAtFullClock{.multiplying = 60, .loop = 70, .l2 = 20, .dram = 150}}) {
    const double clock = clock_under_power(full, always), time = time_at_clock(full, clock);
    EXPECT_GT(clock, always);
    EXPECT_LT(clock, 1);
    EXPECT_NEAR(full.multiplying * clock * clock / time, std::pow(always, 3), 2e-3 * std::pow(always, 3));
  }
  EXPECT_EQ(clock_under_power({.multiplying = 10, .loop = 20, .dram = 100}, always), 1) << "memory leaves power";
}

TEST(PowerClock, WhatIsFasterAtTheFullClockIsFasterAtItsOwn) {
  double before = 0;
  for (double l2 = 0; l2 < 400; l2 += 20) {
    const TimeAtFullClock full = {.multiplying = 90, .loop = 100, .l2 = l2, .dram = 120};
    const double time = time_at_clock(full, clock_under_power(full, 0.6));
    EXPECT_GE(time, before * (1 - 1e-4)) << l2;
    before = time;
  }
}

}  // namespace
}  // namespace stitch::costmodel
