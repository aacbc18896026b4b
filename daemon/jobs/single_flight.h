#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "db/records.h"

namespace stitch::daemon {

struct PredictionOptions {
  int threads = 2;
  int most_waiting = 64;                          ///< predictions started and not finished; more are refused
  std::int64_t remember_failure_us = 30'000'000;  ///< how long a failure is given again without trying
};

/// Predictions under way: one per key, however many ask for it (single flight), on threads of their own.
class Predictions {
 public:
  using Flight = std::shared_future<Status>;
  /// Makes a plan and stores it.
  using Work = std::function<Status()>;

  /// `clock` must outlive it.
  Predictions(PredictionOptions options, const Clock& clock);
  /// Waits for what is under way; what has not begun ends as cancelled.
  ~Predictions();

  /// Joins the flight for this key, or starts one. A recent failure is given again. Error: resource_exhausted.
  Result<Flight> join(const db::PlanKey& key, Work work);

  [[nodiscard]] int under_way() const;

 private:
  struct Task {
    db::PlanKey key;
    Work work;
    std::promise<Status> promise;
  };
  struct Failure {
    Error error;
    std::int64_t until_us = 0;
  };

  void work_loop(const std::stop_token& stop);
  void land(Task& task, const Status& status);

  const PredictionOptions options_;
  const Clock& clock_;
  mutable std::mutex mutex_;  ///< guards what follows, up to the threads
  std::condition_variable_any wake_;
  std::deque<Task> queue_;
  std::map<db::PlanKey, Flight> flights_;
  std::map<db::PlanKey, Failure> failures_;

  std::vector<std::jthread> threads_;
};

}  // namespace stitch::daemon
