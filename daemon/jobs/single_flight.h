#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "daemon/jobs/notifier.h"
#include "db/records.h"

namespace stitch::daemon {

struct SingleFlightOptions {
  int threads = 2;
  int most_waiting = 64;                          ///< flights started and not landed; more are refused
  std::int64_t remember_failure_us = 30'000'000;  ///< how long a failure is given again without trying
  /// Work that takes longer is told to stop, and fails with kind timeout: others wait for its thread.
  std::chrono::milliseconds most_time{60'000};
};

/// Work that somebody waits for, done once however many wait for it. Copies are the same flight.
class Flight {
 public:
  /// Notified once, when the flight lands.
  [[nodiscard]] Notifier& landing() const { return state_->landing; }
  [[nodiscard]] bool landed() const { return state_->landing.count() > 0; }
  /// How the work ended; blocks until it has.
  [[nodiscard]] Status get() const;

 private:
  friend class SingleFlight;
  struct State {
    Status status;  ///< written before the landing is notified
    Notifier landing;
  };
  void land(Status status) const;

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Predictions under way: one per key, however many ask for it, on threads of their own.
class SingleFlight {
 public:
  /// Makes a plan and stores it. Must return soon after its stop token fires, with kind cancelled.
  using Work = std::function<Status(const std::stop_token&)>;

  /// `clock` must outlive it.
  SingleFlight(SingleFlightOptions options, const Clock& clock);
  ~SingleFlight();

  /// Tells what is under way to stop, and does not wait for it; what has not begun ends as cancelled, and so does what
  /// is still asked for.
  void request_stop();

  /// Joins the flight for this key, or starts one. A recent failure is given again. Error: resource_exhausted.
  Result<Flight> join(const db::PlanKey& key, Work work);

  [[nodiscard]] int under_way() const;

 private:
  struct Task {
    db::PlanKey key;
    Work work;
    Flight flight;
  };
  /// Work that has begun.
  struct Running {
    std::stop_source stop;
    Notifier::Deadline until;
    bool late = false;  ///< it was told to stop because its time was over
  };
  struct Failure {
    Error error;
    std::int64_t until_us = 0;
  };

  void work_loop(const std::stop_token& stop);
  void watch_loop(const std::stop_token& stop);
  Status run(const Task& task);
  void land(const Task& task, const Status& status);

  const SingleFlightOptions options_;
  const Clock& clock_;
  mutable std::mutex mutex_;  ///< guards what follows, up to the threads
  std::condition_variable_any wake_;
  std::deque<Task> queue_;
  std::list<Running> running_;
  bool stopping_ = false;
  std::map<db::PlanKey, Flight> flights_;
  std::map<db::PlanKey, Failure> failures_;

  std::vector<std::jthread> threads_;
};

}  // namespace stitch::daemon
