#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "daemon/http/http_limits.h"

// The open connections, and which of them have to go.
namespace stitch::daemon {

/// What a connection is good for.
enum class Admission : std::uint8_t {
  open,      ///< any number of requests
  reserved,  ///< one request, for reserved_target: there are too many connections
  refused,   ///< to be told that there are too many connections
};

/// Which connections are closed; seen on the connection's own thread, at the moment of closing.
enum class Closing : std::uint8_t { all, waiting, late };

/// A connection as those see it who look after all of them. Its times are written by its own thread and read by any: a
/// timer for each connection would cost each request several times over.
class OpenConnection {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  explicit OpenConnection(Admission admission) : admission_(admission) {}
  virtual ~OpenConnection() = default;
  /// From any thread; happens later, on its own, and wakes it if its reply waits for something.
  virtual void close(Closing which) = 0;

  [[nodiscard]] Admission admission() const { return admission_; }
  /// Whether it has missed a time limit.
  [[nodiscard]] bool is_late(Time now) const { return now.time_since_epoch() >= deadline_.load(); }
  [[nodiscard]] bool is_waiting() const { return waiting_since() != Duration::max(); }
  /// Since when it waits for a request; Duration::max() when it does not.
  [[nodiscard]] Duration waiting_since() const { return waiting_since_; }
  /// Whether it was asked to make room for another one.
  [[nodiscard]] bool is_leaving() const { return leaving_; }
  void set_leaving(bool leaving) { leaving_ = leaving; }

 protected:
  void expire_after(double seconds);
  void expire_never() { deadline_ = Duration::max(); }
  void begin_waiting() { waiting_since_ = std::chrono::steady_clock::now().time_since_epoch(); }
  void end_waiting() { waiting_since_ = Duration::max(); }

 private:
  const Admission admission_;
  std::atomic<Duration> deadline_ = Duration::max();
  std::atomic<Duration> waiting_since_ = Duration::max();
  std::atomic<bool> leaving_ = false;
};

class HttpSessions {
 public:
  void add(const std::shared_ptr<OpenConnection>& connection);
  void remove(const std::shared_ptr<OpenConnection>& connection);
  /// What one more connection is good for. When it is one too many, the one that has waited for a request for the
  /// longest is closed, and its place given away.
  [[nodiscard]] Admission admit(const HttpLimits& limits);
  /// Closes those that have missed a time limit.
  void close_late(OpenConnection::Time now);
  /// Closes those that wait for a request, and wakes those whose reply waits for something.
  void close_idle();
  void close_all();
  /// Blocks until the last one has ended, or until the time. Whether it has.
  bool wait_for_end(OpenConnection::Time until) const;

 private:
  void close_each(Closing which);

  mutable std::mutex mutex_;  ///< guards connections_
  mutable std::condition_variable ended_;
  std::set<std::shared_ptr<OpenConnection>> connections_;
};

}  // namespace stitch::daemon
