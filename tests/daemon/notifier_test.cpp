#include "daemon/jobs/notifier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace stitch::daemon {
namespace {

constexpr auto forever = Notifier::Deadline::max();

TEST(NotifierTest, AChangeBetweenTheLookAndTheWaitIsNotMissed) {
  Notifier notifier;
  const std::int64_t seen = notifier.count();
  notifier.notify();
  notifier.wait(seen, forever);
  int woken = 0;
  const auto subscription = notifier.subscribe(seen, [&] { ++woken; });
  EXPECT_EQ(woken, 1);
  notifier.notify();
  EXPECT_EQ(woken, 1) << "once";
}

TEST(NotifierTest, SubscribersAreWokenByTheNextChange) {
  Notifier notifier;
  int one = 0, other = 0, ended = 0;
  const auto first = notifier.subscribe(notifier.count(), [&] { ++one; });
  const auto second = notifier.subscribe(notifier.count(), [&] { ++other; });
  {
    const auto third = notifier.subscribe(notifier.count(), [&] { ++ended; });
  }
  EXPECT_EQ(one, 0);
  notifier.notify();
  notifier.notify();
  EXPECT_EQ(one, 1);
  EXPECT_EQ(other, 1);
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(notifier.count(), 2);
}

TEST(NotifierTest, ThreadsWaitForAChangeOrUntilTheirDeadline) {
  Notifier notifier;
  std::thread waits([&] { notifier.wait(0, forever); });
  notifier.notify();
  waits.join();
  notifier.wait(1, std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
  EXPECT_EQ(notifier.count(), 1);
}

// Subscriptions end while others notify: what a wake refers to may be gone right after.
TEST(NotifierTest, NothingIsWokenAfterItsSubscriptionHasEnded) {
  Notifier notifier;
  std::atomic<bool> stop = false;
  std::thread notifies([&] {
    while (!stop) notifier.notify();
  });
  for (int i = 0; i < 2000; ++i) {
    auto alive = std::make_unique<std::atomic<bool>>(true);
    {
      const auto subscription = notifier.subscribe(notifier.count(), [&] { EXPECT_TRUE(*alive); });
    }
    *alive = false;
  }
  stop = true;
  notifies.join();
}

}  // namespace
}  // namespace stitch::daemon
