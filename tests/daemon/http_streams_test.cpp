// Replies that wait, streams, and how all of them end, over real sockets.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/daemon/http_server_fixture.h"

namespace stitch::daemon {
namespace {

using testing::HasSubstr;

/// Asks at each notification; answers at the fifth time.
Later answer_at_fifth(std::atomic<int>& asked, Notifier& notifier, http::Waiter& waiter) {
  while (true) {
    const std::int64_t seen = notifier.count();
    if (++asked == 5) break;
    const bool awaited = co_await waiter.wait(notifier, seen, in(forever));
    if (!awaited) co_return std::nullopt;
  }
  http::Response response;
  co_await waiter.work([&] { response.body = "at last"; });
  co_return response;
}

TEST_F(HttpServerTest, PendingRepliesAreWokenUntilTheyAnswer) {
  std::atomic<int> asked = 0;
  Notifier notifier;
  start({}, [&](const http::Request&) -> http::Reply {
    return http::Pending([&](http::Waiter& waiter) { return answer_at_fifth(asked, notifier, waiter); });
  });
  std::atomic<bool> answered = false;
  std::thread notifies([&] {
    for (int seen = 0; !answered; std::this_thread::yield()) {
      if (asked == seen) continue;
      seen = asked;
      notifier.notify();
    }
  });
  EXPECT_EQ(raw::request(socket_, "GET", "/").body, "at last");
  answered = true;
  notifies.join();
  EXPECT_EQ(asked, 5);
}

Later answer_at_deadline(Notifier& notifier, std::chrono::milliseconds patience, http::Waiter& waiter) {
  const bool awaited = co_await waiter.wait(notifier, notifier.count(), in(patience));
  http::Response response;
  response.body = awaited ? "it is time" : "gone";
  co_return response;
}

TEST_F(HttpServerTest, PendingRepliesWaitNoLongerThanTheyWant) {
  Notifier silent;
  start({}, [&](const http::Request&) -> http::Reply {
    return http::Pending(
        [&](http::Waiter& waiter) { return answer_at_deadline(silent, std::chrono::milliseconds(20), waiter); });
  });
  EXPECT_EQ(raw::request(socket_, "GET", "/").body, "it is time");
}

Later throw_at_work(http::Waiter& waiter) {
  co_await waiter.work([] { throw std::runtime_error("at work"); });
  co_return std::nullopt;
}

TEST_F(HttpServerTest, APendingReplyThatThrowsIsAnInternalError) {
  start({}, [](const http::Request&) -> http::Reply {
    return http::Pending([](http::Waiter& waiter) { return throw_at_work(waiter); });
  });
  const raw::Answer answer = raw::request(socket_, "GET", "/");
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, HasSubstr("at work"));
}

TEST_F(HttpServerTest, WhoHasGoneHoldsNoConnection) {
  HttpLimits limits;
  limits.connections = 2;
  SilentRoutes silent;
  start(limits, [&](const http::Request& request) -> http::Reply {
    if (request.target == "/poll") return silent.poll();
    if (request.target == "/stream") return silent.stream();
    return echo(request);
  });
  raw::Socket poll(socket_), stream(socket_);
  poll.send("GET /poll HTTP/1.1\r\nHost: x\r\n\r\n");
  stream.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(stream.receive(), HasSubstr("200 OK"));
  EXPECT_EQ(raw::request(socket_, "GET", "/x").status, 503);
  poll.close();
  stream.close();
  expect_served_again();
  server_.reset();  // nobody waits for what ends here
}

boost::asio::awaitable<void> stream_with_a_pause(Notifier& silent, http::StreamWriter& writer) {
  bool wanted = co_await writer.send("first");
  EXPECT_TRUE(wanted);
  wanted = co_await writer.wait(silent, 0, in(std::chrono::milliseconds(350)));
  EXPECT_TRUE(wanted);
  co_await writer.send("last");
}

TEST_F(HttpServerTest, StreamsAreChunkedWithSignsOfLife) {
  HttpLimits limits;
  limits.heartbeat_seconds = 0.05;
  Notifier silent;
  start(limits, [&](const http::Request&) -> http::Reply {
    http::Stream stream;
    stream.idle = ":\n";
    stream.run = [&](http::StreamWriter& writer) { return stream_with_a_pause(silent, writer); };
    return stream;
  });
  const raw::Answer answer = raw::request(socket_, "GET", "/");
  EXPECT_THAT(answer.head, HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_THAT(answer.body, testing::StartsWith("5\r\nfirst\r\n2\r\n:\n\r\n"));
  EXPECT_THAT(answer.body, testing::EndsWith("4\r\nlast\r\n0\r\n\r\n"));
  server_.reset();  // nobody waits for what ends here
}

TEST_F(HttpServerTest, StoppingFinishesRequestsAndSendsFollowersAway) {
  std::atomic<bool> begun = false, go_on = false;
  SilentRoutes silent;
  start({}, [&](const http::Request& request) -> http::Reply {
    if (request.target == "/poll") return silent.poll();
    if (request.target == "/stream") return silent.stream();
    begun = true;
    while (!go_on) std::this_thread::yield();
    return echo(request);
  });
  raw::Answer slow, poll, stream;
  std::thread threads[] = {std::thread([&] { slow = raw::request(socket_, "GET", "/slow"); }),
                           std::thread([&] { poll = raw::request(socket_, "GET", "/poll"); }),
                           std::thread([&] { stream = raw::request(socket_, "GET", "/stream"); })};
  const raw::Socket idle(socket_);
  while (!begun) std::this_thread::yield();
  std::thread stop([&] { server_->stop(); });
  EXPECT_EQ(idle.receive(), "");  // closed, long before its idle time is over
  go_on = true;
  stop.join();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(slow.body, "GET /slow ");
  EXPECT_THAT((std::vector{poll.status, stream.status}), testing::Each(testing::AnyOf(0, 200, 503)));
  EXPECT_FALSE(std::filesystem::exists(socket_));
  EXPECT_FALSE(raw::Socket(socket_).connected());
}

}  // namespace
}  // namespace stitch::daemon
