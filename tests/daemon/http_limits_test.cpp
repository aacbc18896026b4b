// The server's bounds on memory and connections, over real sockets.
#include "daemon/http/http_limits.h"

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

TEST_F(HttpServerTest, BodiesThatWouldFillMemoryTogetherAreRefused) {
  HttpLimits limits;
  limits.body_bytes = 1000;
  limits.buffered_bytes = 1500;
  limits.small_body_bytes = 0;
  start(limits);
  const raw::Socket first(socket_);
  first.send(
      "POST /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n");
  ASSERT_THAT(first.receive(), HasSubstr("100 Continue"));
  first.send(std::string(999, 'y'));  // from now on its memory is set aside
  int status = 200;
  for (int i = 0; i < 1000 && status != 503; ++i) {
    status = raw::request(socket_, "POST", "/2", std::string(900, 'x')).status;
  }
  EXPECT_EQ(status, 503);
  first.send("y");
  EXPECT_EQ(raw::parse_answer(first.receive_all()).status, 200);
  // The memory is given back a moment after the answer is sent.
  for (int i = 0; i < 1000 && status != 200; ++i) {
    status = raw::request(socket_, "POST", "/2", std::string(900, 'x')).status;
  }
  EXPECT_EQ(status, 200);
}

TEST_F(HttpServerTest, SmallBodiesAreTakenWhenMemoryIsFull) {
  HttpLimits limits;
  limits.body_bytes = 1'000'000;
  limits.buffered_bytes = 500'000;
  limits.small_body_bytes = 10'000;
  start(limits);
  const raw::Socket large(socket_);
  large.send("POST /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 500000\r\n\r\n");
  large.send(std::string(499'999, 'y'));
  const std::string medium(40'000, 'x'), small(10'000, 'x');
  int status = 200;
  for (int i = 0; i < 1000 && status != 503; ++i) status = raw::request(socket_, "POST", "/2", medium).status;
  EXPECT_EQ(status, 503);
  EXPECT_EQ(raw::request(socket_, "POST", "/3", small).body, "POST /3 " + small);
  large.send("y");
  EXPECT_EQ(raw::parse_answer(large.receive_all()).status, 200);
}

TEST_F(HttpServerTest, WhoClaimsMuchAndSendsNothingTakesNothingFromOthers) {
  start({});
  std::vector<raw::Socket> silent;
  for (int i = 0; i < 8; ++i) {
    const std::string_view claim = i % 2 == 0 ? "Transfer-Encoding: chunked" : "Content-Length: 268435456";
    silent.emplace_back(socket_).send(
        fmt::format("POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n{}\r\n\r\n", claim));
    ASSERT_THAT(silent.back().receive(), HasSubstr("100 Continue"));
  }
  const std::string large(std::size_t{3} << 20, 'x');
  EXPECT_EQ(raw::request(socket_, "POST", "/2", "ab").body, "POST /2 ab");
  EXPECT_EQ(raw::request(socket_, "POST", "/3", large).body, "POST /3 " + large);
}

TEST_F(HttpServerTest, ConnectionsAreBounded) {
  HttpLimits limits;
  limits.connections = 4;
  SilentRoutes silent;
  start(limits, [&](const http::Request& request) { return poll_or_echo(silent, request); });
  std::vector<raw::Socket> held;
  for (int i = 0; i < 4; ++i) held.push_back(busy_connection(socket_));
  while (silent.polls < 4) std::this_thread::yield();  // until then it is silent, and makes room
  const raw::Answer refused = raw::request(socket_, "GET", "/x");
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.head, HasSubstr("Retry-After"));
  EXPECT_EQ(raw::request(socket_, "GET", "/v1/health").status, 200) << "is answered all the same";
  held.clear();
  expect_served_again();
  server_.reset();  // nobody waits for what ends here
}

TEST_F(HttpServerTest, WhoIsSilentForLongestMakesRoom) {
  HttpLimits limits;
  limits.connections = 8;
  start(limits);
  std::vector<raw::Socket> silent;
  for (int i = 0; i < 8; ++i) silent.emplace_back(socket_);
  silent[0].send("GET /0 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(silent[0].receive(), HasSubstr("GET /0 "));  // now it has been silent for the shortest time
  EXPECT_EQ(raw::request(socket_, "POST", "/x", "ab").body, "POST /x ab");
  EXPECT_EQ(silent[1].receive(), "") << "closed";
  silent[0].send("GET /again HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(silent[0].receive(), HasSubstr("GET /again "));
  for (int i = 0; i < 300; ++i) {
    silent.emplace_back(socket_);
    if (i % 50 == 0) expect_alive();
  }
  expect_alive();
}

TEST_F(HttpServerTest, ReservedConnectionsThatAreSilentMakeRoomToo) {
  HttpLimits limits;
  limits.connections = 2;
  limits.reserved_connections = 2;
  SilentRoutes silent;
  start(limits, [&](const http::Request& request) { return poll_or_echo(silent, request); });
  std::vector<raw::Socket> held;
  for (int i = 0; i < 2; ++i) held.push_back(busy_connection(socket_));
  while (silent.polls < 2) std::this_thread::yield();
  for (int i = 0; i < 10; ++i) held.emplace_back(socket_);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(raw::request(socket_, "GET", "/v1/health").status, 200);
  EXPECT_EQ(raw::request(socket_, "GET", "/x").status, 503);
  server_.reset();  // nobody waits for what ends here
}

}  // namespace
}  // namespace stitch::daemon
