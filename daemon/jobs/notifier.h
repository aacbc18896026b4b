#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace stitch::daemon {

/// Tells those who wait that something has changed. Who looks at what may change remembers the count from before the
/// look, and then waits for a greater one; so no change is missed between the look and the wait:
///
///   const std::int64_t seen = notifier.count();
///   if (nothing_new()) notifier.wait(seen, until);
///
/// Threads wait; coroutines subscribe, and are resumed by what they subscribed with (HttpSession). SingleFlight
/// notifies when a flight lands, Service when the store has changed. Safe to use from any thread.
class Notifier {
 public:
  using Wake = std::function<void()>;
  using Deadline = std::chrono::steady_clock::time_point;

  /// Ends a subscription when it is destroyed: from then on its wake is not called, nor is a call of it under way. The
  /// notifier must outlive it.
  class Subscription {
   public:
    Subscription(Notifier& notifier, std::int64_t id) : notifier_(notifier), id_(id) {}
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;
    ~Subscription();

   private:
    Notifier& notifier_;
    const std::int64_t id_;
  };

  Notifier() = default;
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  /// How often something has changed.
  [[nodiscard]] std::int64_t count() const;
  /// Something has changed.
  void notify();

  /// Calls `wake` once when the count is greater than `seen`, which may be before this returns. It is called while the
  /// notifier is locked, by whoever notifies: it must not block, nor use the notifier.
  [[nodiscard]] Subscription subscribe(std::int64_t seen, Wake wake);

  /// Blocks until the count is greater than `seen`, or until the deadline has passed.
  void wait(std::int64_t seen, Deadline until) const;

 private:
  mutable std::mutex mutex_;  ///< guards everything below
  mutable std::condition_variable changed_;
  std::int64_t count_ = 0;
  std::int64_t last_id_ = 0;
  std::map<std::int64_t, Wake> subscriptions_;  ///< by id; those that were not woken yet
};

}  // namespace stitch::daemon
