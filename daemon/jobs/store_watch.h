#pragma once

#include <chrono>
#include <thread>

#include "daemon/jobs/notifier.h"
#include "db/store.h"

namespace stitch::daemon {

/// Looks, for all who wait, whether the store has changed: at each notification of this process, and for what others
/// that share the store have committed, `every` so often. To look is to compare some bytes in memory.
class StoreWatch {
 public:
  static constexpr std::chrono::milliseconds every{50};

  /// Notifies `changes` when anything was committed, `promoted` when something else is served. All must outlive it.
  StoreWatch(const db::Store& store, Notifier& changes, Notifier& promoted);

 private:
  void watch(const std::stop_token& stop);

  const db::Store& store_;
  Notifier& changes_;
  Notifier& promoted_;
  std::jthread thread_;
};

}  // namespace stitch::daemon
