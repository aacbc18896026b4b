#include "daemon/jobs/single_flight.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace stitch::daemon {
namespace {

db::PlanKey key(std::string_view name) { return {hash_bytes(name), {"h100", "sm_90a", "13.0", "1"}}; }

TEST(SingleFlightTest, OneFlightPerKeyHoweverManyJoin) {
  const SystemClock clock;
  SingleFlight predictions({.threads = 4}, clock);
  std::atomic<int> made = 0;
  std::atomic<bool> go_on = false;
  std::vector<Flight> flights;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      auto flight = predictions.join(key("a"), [&](const std::stop_token&) -> Status {
        ++made;
        while (!go_on) std::this_thread::yield();
        return {};
      });
      ASSERT_TRUE(flight.ok());
      const std::lock_guard lock(mutex);
      flights.push_back(*flight);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(predictions.under_way(), 1);
  go_on = true;
  for (const auto& flight : flights) EXPECT_TRUE(flight.get().ok());
  EXPECT_EQ(made, 1);
  EXPECT_TRUE(predictions
                  .join(key("a"),
                        [&](const std::stop_token&) -> Status {
                          ++made;
                          return Status();
                        })
                  ->get()
                  .ok());
  EXPECT_EQ(made, 2);
}

TEST(SingleFlightTest, FailuresAreRememberedForAWhile) {
  ManualClock clock;
  SingleFlight predictions({.threads = 1, .most_waiting = 64, .remember_failure_us = 1000}, clock);
  int tried = 0;
  const auto fail = [&](const std::stop_token&) -> Status {
    return make_error(ErrorKind::unsupported, "attempt {}", ++tried);
  };
  EXPECT_EQ(predictions.join(key("a"), fail)->get().error().message, "attempt 1");
  EXPECT_EQ(predictions.join(key("a"), fail)->get().error().message, "attempt 1");
  EXPECT_EQ(predictions.join(key("b"), fail)->get().error().message, "attempt 2");
  clock.advance_us(1000);
  EXPECT_EQ(predictions.join(key("a"), fail)->get().error().message, "attempt 3");
}

TEST(SingleFlightTest, WaitingOnesAreBoundedAndEndWithTheirOwner) {
  const SystemClock clock;
  std::atomic<bool> go_on = false, begun = false;
  std::optional<SingleFlight> predictions;
  predictions.emplace(SingleFlightOptions{.threads = 1, .most_waiting = 2}, clock);
  const auto first = predictions->join(key("a"), [&](const std::stop_token&) -> Status {
    begun = true;
    while (!go_on) std::this_thread::yield();
    return {};
  });
  while (!begun) std::this_thread::yield();
  const auto second = predictions->join(key("b"), [](const std::stop_token&) { return Status(); });
  EXPECT_EQ(predictions->join(key("c"), [](const std::stop_token&) { return Status(); }).error().kind,
            ErrorKind::resource_exhausted);
  EXPECT_TRUE(predictions->join(key("b"), [](const std::stop_token&) { return Status(); }).ok())
      << "joins what is there";
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    go_on = true;
  });
  predictions.reset();
  release.join();
  EXPECT_TRUE(first->get().ok());
  EXPECT_EQ(second->get().error().kind, ErrorKind::cancelled);
}

TEST(SingleFlightTest, WhatIsThrownIsAnError) {
  const SystemClock clock;
  SingleFlight predictions({}, clock);
  const auto flight =
      predictions.join(key("a"), [](const std::stop_token&) -> Status { throw std::runtime_error("thrown"); });
  EXPECT_EQ(flight->get().error(), (Error{ErrorKind::internal, "thrown"}));
}

/// Works until it is told to stop.
Status work_for_ever(const std::stop_token& stop) {
  while (!stop.stop_requested()) std::this_thread::yield();
  return make_error(ErrorKind::cancelled, "stopped");
}

TEST(SingleFlightTest, WorkThatTakesTooLongIsStopped) {
  const SystemClock clock;
  SingleFlight predictions({.threads = 1, .most_time = std::chrono::milliseconds(50)}, clock);
  const auto slow = predictions.join(key("a"), work_for_ever);
  const auto behind = predictions.join(key("b"), [](const std::stop_token&) { return Status(); });
  EXPECT_EQ(slow->get().error(), (Error{ErrorKind::timeout, "a plan could not be predicted within 0.05 s"}));
  EXPECT_TRUE(behind->get().ok());
  EXPECT_EQ(predictions.join(key("a"), work_for_ever)->get().error().kind, ErrorKind::timeout) << "it is remembered";
}

TEST(SingleFlightTest, AStopReachesWhatIsUnderWayAndWhatWaits) {
  const SystemClock clock;
  SingleFlight predictions({.threads = 1}, clock);
  const auto first = predictions.join(key("a"), work_for_ever);
  const auto second = predictions.join(key("b"), work_for_ever);
  predictions.request_stop();
  EXPECT_EQ(first->get().error().kind, ErrorKind::cancelled);
  EXPECT_EQ(second->get().error().kind, ErrorKind::cancelled);
  EXPECT_EQ(predictions.join(key("c"), work_for_ever).error().kind, ErrorKind::cancelled);
}

}  // namespace
}  // namespace stitch::daemon
