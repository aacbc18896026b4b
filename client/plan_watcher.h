#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "client/plan_handle.h"

namespace stitch::client {

/// Looks for better plans for many handles with one thread, which asks for one after the other and then rests. A
/// program with hundreds of fragments that let each handle watch for itself would keep as many connections open, of
/// which a server has so many. Made by whoever holds many plans (python/native); safe to use from several threads.
class PlanWatcher {
 public:
  /// `rest`: between two rounds, which are no more than a twentieth of the time.
  explicit PlanWatcher(std::chrono::milliseconds rest = std::chrono::milliseconds(500)) : rest_(rest) {}
  ~PlanWatcher() { stop(); }

  /// From now on, until nobody else holds it, the handle has the better plans that the server comes to have.
  void add(std::weak_ptr<PlanHandle> handle);
  /// Ends the thread, after the question that is under way. What is added later is not looked after.
  void stop();
  /// Handles that are looked after.
  [[nodiscard]] std::size_t size() const;

 private:
  void watch(const std::stop_token& stop);

  const std::chrono::milliseconds rest_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<std::weak_ptr<PlanHandle>> handles_;
  bool stopped_ = false;
  std::condition_variable_any resting_;
  std::jthread thread_;  ///< last: it uses everything above
};

}  // namespace stitch::client
