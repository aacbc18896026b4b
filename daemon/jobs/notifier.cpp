#include "daemon/jobs/notifier.h"

#include <utility>

namespace stitch::daemon {

Notifier::Subscription::~Subscription() {
  const std::lock_guard lock(notifier_.mutex_);
  notifier_.subscriptions_.erase(id_);
}

std::int64_t Notifier::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

void Notifier::notify() {
  const std::lock_guard lock(mutex_);
  ++count_;
  changed_.notify_all();
  for (const auto& [id, wake] : std::exchange(subscriptions_, {})) wake();
}

Notifier::Subscription Notifier::subscribe(std::int64_t seen, Wake wake) {
  const std::lock_guard lock(mutex_);
  const std::int64_t id = ++last_id_;
  if (count_ > seen) {
    wake();
  } else {
    subscriptions_.emplace(id, std::move(wake));
  }
  return {*this, id};
}

void Notifier::wait(std::int64_t seen, Deadline until) const {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return count_ > seen; });
}

}  // namespace stitch::daemon
