#include "daemon/http/http_sessions.h"

#include <algorithm>

namespace stitch::daemon {

void OpenConnection::expire_after(double seconds) {
  const auto duration = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  deadline_ = (std::chrono::steady_clock::now() + duration).time_since_epoch();
}

void HttpSessions::add(const std::shared_ptr<OpenConnection>& connection) {
  const std::lock_guard lock(mutex_);
  connections_.insert(connection);
}

void HttpSessions::remove(const std::shared_ptr<OpenConnection>& connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
  ended_.notify_all();
}

Admission HttpSessions::admit(const HttpLimits& limits) {
  const std::lock_guard lock(mutex_);
  std::int64_t staying = 0;
  std::shared_ptr<OpenConnection> longest;
  for (const auto& connection : connections_) {
    if (connection->is_leaving()) continue;
    ++staying;
    if (!connection->is_waiting() || connection->admission() == Admission::refused) continue;
    if (!longest || connection->waiting_since() < longest->waiting_since()) longest = connection;
  }
  if (staying < limits.connections) return Admission::open;
  if (longest) {
    longest->set_leaving(true);
    longest->close(Closing::waiting);
    return longest->admission();
  }
  return staying < limits.connections + limits.reserved_connections ? Admission::reserved : Admission::refused;
}

void HttpSessions::close_late(OpenConnection::Time now) {
  const std::lock_guard lock(mutex_);
  for (const auto& connection : connections_) {
    if (connection->is_late(now)) connection->close(Closing::late);
  }
}

void HttpSessions::close_idle() { close_each(Closing::waiting); }
void HttpSessions::close_all() { close_each(Closing::all); }

void HttpSessions::close_each(Closing which) {
  const std::lock_guard lock(mutex_);
  for (const auto& connection : connections_) connection->close(which);
}

bool HttpSessions::wait_for_end(OpenConnection::Time until) const {
  std::unique_lock lock(mutex_);
  return ended_.wait_until(lock, until, [&] { return connections_.empty(); });
}

}  // namespace stitch::daemon
