#include "base/clock.h"

#include <gtest/gtest.h>

namespace stitch {
namespace {

TEST(SystemClock, DoesNotGoBackAndKnowsTheYear) {
  const SystemClock clock;
  const std::int64_t before = clock.now_us();
  EXPECT_GE(clock.now_us(), before);
  constexpr std::int64_t year_2024 = 1'704'067'200'000'000;  // 2024-01-01T00:00:00Z in µs
  EXPECT_GT(clock.wall_us(), year_2024);
  EXPECT_LT(clock.wall_us(), 4 * year_2024);  // microseconds, not nanoseconds
}

TEST(ManualClock, StandsStillUntilTold) {
  ManualClock clock;
  EXPECT_EQ(clock.now_us(), 0);
  EXPECT_EQ(clock.now_us(), 0);
  clock.advance_us(1500);
  EXPECT_EQ(clock.now_us(), 1500);
  EXPECT_EQ(clock.wall_us(), 1500);
}

TEST(Stopwatch, NeverRunsBackwards) {
  const Stopwatch watch;
  const double first = watch.seconds();
  EXPECT_GE(first, 0);
  EXPECT_GE(watch.seconds(), first);
}

}  // namespace
}  // namespace stitch
