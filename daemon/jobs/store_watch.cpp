#include "daemon/jobs/store_watch.h"

#include <cstdint>
#include <optional>

namespace stitch::daemon {

StoreWatch::StoreWatch(const db::Store& store, Notifier& changes, Notifier& promoted)
    : store_(store),
      changes_(changes),
      promoted_(promoted),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

void StoreWatch::watch(const std::stop_token& stop) {
  std::optional<db::StoreVersion> known = store_.version();
  std::int64_t promotion = store_.last_promotion().value_or(-1);
  // What was promoted before this may have been asked for already, and not found.
  promoted_.notify();
  while (!stop.stop_requested()) {
    std::int64_t seen = changes_.count();
    const auto version = store_.version();
    if (!version || version != known) {
      known = version;
      const auto last = store_.last_promotion();
      // A store that cannot be read is told of as well: who waits shall hear why.
      if (!last || *last != promotion) promoted_.notify();
      promotion = last.value_or(-1);
      changes_.notify();
      seen = changes_.count();
    }
    changes_.wait(seen, std::chrono::steady_clock::now() + every);
  }
}

}  // namespace stitch::daemon
