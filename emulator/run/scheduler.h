#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/run/interpreter.h"

namespace stitch::emulator {

/// Hands the units of a launch to host threads. Units start in order and run until they are done; one that can only
/// wait for others is parked with its state, and taken up again when something that others can see has happened. Since
/// a parked unit holds no host thread, any number of blocks is resident, whatever the number of threads.
class Scheduler {
 public:
  explicit Scheduler(LaunchContext& context);

  /// Works until no unit is left or the launch stops; called by every host thread with an interpreter of its own.
  void work(Interpreter& interpreter);
  /// Called by the launching thread before and after the host threads work: what it did before is then visible to them,
  /// and what they did to it, also to tools that do not see the synchronisation inside oneTBB.
  void hand_over() { const std::lock_guard guard(mutex_); }
  [[nodiscard]] bool completed() const { return finished_ == unit_count_; }

 private:
  std::unique_ptr<Unit> next(Interpreter& interpreter, std::unique_lock<std::mutex>& lock);
  void report_all_deadlocked(Interpreter& interpreter);
  /// Whether a parked unit spins on memory that the host can change.
  [[nodiscard]] bool looks_at_host() const;

  LaunchContext& context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Unit>> parked_;  ///< longest parked first
  std::uint64_t unit_count_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t finished_ = 0;
  int running_ = 0;
};

}  // namespace stitch::emulator
