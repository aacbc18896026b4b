#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "daemon/http/http_server.h"
#include "daemon/jobs/notifier.h"
#include "tests/daemon/raw_http.h"
#include "tests/daemon/running_service.h"

// The server over real sockets, with handlers of a few lines.
namespace stitch::daemon {

inline http::Reply echo(const http::Request& request) {
  http::Response response;
  response.body = request.method + " " + request.target + " " + request.body;
  return response;
}

inline HttpServerOptions on(const std::filesystem::path& socket) {
  HttpServerOptions options;
  options.socket = socket;
  return options;
}

class HttpServerTest : public testing::Test {
 protected:
  void start(const HttpLimits& limits, HttpServer::Handler handler = echo) {
    HttpServerOptions options = on(socket_);
    options.limits = limits;
    auto started = HttpServer::start(options, std::move(handler));
    ASSERT_TRUE(started.ok()) << started.error().message;
    server_ = *std::move(started);
  }
  /// Room is made a moment after a connection was closed.
  void expect_served_again() const {
    int status = 0;
    for (int i = 0; i < 1000 && status != 200; ++i) {
      status = raw::request(socket_, "GET", "/x").status;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(status, 200);
  }
  void expect_alive() const { EXPECT_EQ(raw::request(socket_, "GET", "/alive").body, "GET /alive "); }

  const TestFolder folder_;
  const std::filesystem::path socket_ = folder_ / "s";
  std::unique_ptr<HttpServer> server_;
};

using Later = boost::asio::awaitable<std::optional<http::Response>>;

inline constexpr auto forever = std::chrono::hours(1);

inline Notifier::Deadline in(std::chrono::steady_clock::duration duration) {
  return std::chrono::steady_clock::now() + duration;
}

/// Waits for what never comes, until nobody waits for the reply any more.
inline Later wait_forever(Notifier& notifier, http::Waiter& waiter) {
  const bool awaited = co_await waiter.wait(notifier, 0, in(forever));
  EXPECT_FALSE(awaited);
  co_return std::nullopt;
}

inline boost::asio::awaitable<void> stream_nothing(Notifier& notifier, http::StreamWriter& writer) {
  co_await writer.wait(notifier, 0, in(forever));
}

/// "/poll" and "/stream" wait for a notifier that nobody notifies.
struct SilentRoutes {
  Notifier notifier;
  std::atomic<int> polls = 0;  ///< begun
  http::Pending poll() {
    ++polls;
    return [this](http::Waiter& waiter) { return wait_forever(notifier, waiter); };
  }
  http::Stream stream() {
    return {"text/event-stream", "", [this](http::StreamWriter& writer) { return stream_nothing(notifier, writer); }};
  }
};

/// Answers "/poll" never, and anything else at once.
inline http::Reply poll_or_echo(SilentRoutes& silent, const http::Request& request) {
  return request.target == "/poll" ? http::Reply(silent.poll()) : echo(request);
}

/// A connection whose answer is awaited.
inline raw::Socket busy_connection(const std::filesystem::path& path) {
  raw::Socket socket(path);
  socket.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(socket.receive(), testing::HasSubstr("200 OK"));
  socket.send("GET /poll HTTP/1.1\r\nHost: x\r\n\r\n");
  return socket;
}

}  // namespace stitch::daemon
