#include "base/time_budget.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace stitch {
namespace {

/// Waits until the token fires; false if it does not for a minute.
bool fires(const std::stop_token& token) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, token, std::chrono::minutes(1), [] { return false; });
  return token.stop_requested();
}

TEST(TimeBudget, FiresWhenTheTimeIsOver) {
  const TimeBudget budget(0.001, {});
  EXPECT_TRUE(fires(budget.token()));
}

TEST(TimeBudget, FiresWhenSomebodyElseAsks) {
  std::stop_source other;
  const TimeBudget unlimited({}, other.get_token()), long_one(1e300, other.get_token());
  EXPECT_FALSE(unlimited.token().stop_requested());
  EXPECT_FALSE(long_one.token().stop_requested());
  other.request_stop();
  EXPECT_TRUE(unlimited.token().stop_requested());
  EXPECT_TRUE(long_one.token().stop_requested());
}

TEST(TimeBudget, HasNoTimeLeftOfANegativeOne) {
  const TimeBudget budget(-1, {});
  EXPECT_TRUE(fires(budget.token()));
}

}  // namespace
}  // namespace stitch
