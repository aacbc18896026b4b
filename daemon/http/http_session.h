#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "daemon/http/http.h"
#include "daemon/http/http_limits.h"

// One connection of the HTTP server.
namespace stitch::daemon {

/// What all connections share.
struct HttpShared {
  HttpShared(HttpLimits with, std::string of_network, http::Handler handle, int handler_threads)
      : limits(with), secret(std::move(of_network)), handler(std::move(handle)), pool(handler_threads) {}

  const HttpLimits limits;
  const std::string secret;  ///< of requests over TCP
  const http::Handler handler;
  boost::asio::thread_pool pool;  ///< where handlers run
  std::atomic<bool> stopping = false;
  std::atomic<std::int64_t> buffered_bytes = 0;  ///< of request bodies
};

class HttpSession;

/// The open connections.
class HttpSessions {
 public:
  void add(const std::shared_ptr<HttpSession>& session);
  void remove(const std::shared_ptr<HttpSession>& session);
  [[nodiscard]] int count() const;
  /// Closes those that wait for a request, and wakes those whose reply waits for something; as shared.stopping is set,
  /// all end after their answer.
  void close_idle();
  void close_all();
  /// Blocks until the last one has ended, or until the time. Whether it has.
  bool wait_for_end(std::chrono::steady_clock::time_point until) const;

 private:
  mutable std::mutex mutex_;  ///< guards sessions_
  mutable std::condition_variable ended_;
  std::set<std::shared_ptr<HttpSession>> sessions_;
};

/// Serves a connection until it ends. `check_sender`: refuse requests that admission.h refuses, as of a web
/// page or of another user. `full`: only tell that there are too many connections.
void serve_connection(boost::asio::generic::stream_protocol::socket socket, HttpShared& shared, HttpSessions& sessions,
                      bool check_sender, bool full);

}  // namespace stitch::daemon
