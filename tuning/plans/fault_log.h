#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string_view>

#include "base/hash.h"
#include "db/trial_records.h"

namespace stitch::tuning {

/// Tells a log of candidates that are faults (tuning/plans/fault_report.h): tuning goes on without them, and nobody
/// would see it. Each is one line and told once, however many fragments share its kernel:
///
///     fragment 1b2e…, schedule 77a0c3f1d5e2: timeout: kernel stitch_… gave no answer to launch within 20 s and was …
///
/// Safe to use from several threads.
class FaultLog {
 public:
  /// `tell` may be empty.
  explicit FaultLog(std::function<void(std::string_view)> tell) : tell_(std::move(tell)) {}
  /// One that is no fault is passed over.
  void note(const db::Candidate& candidate);

 private:
  std::function<void(std::string_view)> tell_;
  std::mutex mutex_;         ///< guards known_, and is held while a line is told
  std::set<Hash128> known_;  ///< by schedule
};

}  // namespace stitch::tuning
