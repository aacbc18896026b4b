// The server's own behaviour over real sockets: what comes over the wire, hostile peers, whom it serves.
#include "daemon/http/http_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>
#include <vector>

#include "base/random.h"
#include "tests/base/test_variable.h"
#include "tests/daemon/http_server_fixture.h"

namespace stitch::daemon {
namespace {

using testing::HasSubstr;

TEST_F(HttpServerTest, AnswersOnASocketForItsOwnerOnly) {
  start({});
  struct stat found {};
  ASSERT_EQ(::stat(socket_.c_str(), &found), 0);
  EXPECT_TRUE(S_ISSOCK(found.st_mode));
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  const raw::Answer answer = raw::request(socket_, "POST", "/x?y=1", "body");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "POST /x?y=1 body");
  EXPECT_THAT(answer.head, HasSubstr("Server: stitchd/"));
}

TEST_F(HttpServerTest, KeepsConnectionsAliveAndTakesPipelinedRequests) {
  start({});
  const raw::Socket socket(socket_);
  const std::string one = "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string two = "POST /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  ASSERT_TRUE(socket.send(one + two + raw::request_text("GET", "/3")));
  const std::string all = socket.receive_all();
  EXPECT_THAT(all, HasSubstr("GET /1 "));
  EXPECT_THAT(all, HasSubstr("POST /2 abc"));
  EXPECT_THAT(all, HasSubstr("GET /3 "));
}

TEST_F(HttpServerTest, HeadHasNoBodyAndExpectationsAreMet) {
  start({});
  EXPECT_EQ(raw::request(socket_, "HEAD", "/x").body, "");
  const raw::Socket socket(socket_);
  socket.send("POST /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_THAT(socket.receive(), HasSubstr("100 Continue"));
  socket.send("ok");
  EXPECT_EQ(raw::parse_answer(socket.receive_all()).body, "POST /x ok");
}

struct Hostile {
  std::string name, bytes;
  int status;  ///< 0: the connection is closed without an answer
};

TEST_F(HttpServerTest, ARequestBeginsWithItsFirstByte) {
  std::atomic<std::chrono::steady_clock::time_point> rest_sent{};
  start({}, [&](const http::Request& request) -> http::Reply {
    http::Response response;
    response.body = request.arrived < rest_sent.load() ? "before the rest" : "after the rest";
    return response;
  });
  std::string answer;
  for (int i = 0; i < 100 && answer != "before the rest"; ++i) {  // a busy machine may not have looked in time
    const std::string text = raw::request_text("POST", "/x", "body");
    const raw::Socket socket(socket_);
    ASSERT_TRUE(socket.send(text.substr(0, 1)));
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * i));
    rest_sent = std::chrono::steady_clock::now();
    ASSERT_TRUE(socket.send(text.substr(1)));
    answer = raw::parse_answer(socket.receive_all()).body;
  }
  EXPECT_EQ(answer, "before the rest");
}

TEST_F(HttpServerTest, HostileRequestsAreRefusedAndHurtNobodyElse) {
  HttpLimits limits;
  limits.body_bytes = 1000;
  limits.header_bytes = 2000;
  limits.header_seconds = 0.2;
  limits.body_seconds = 0.2;
  limits.idle_seconds = 0.2;
  start(limits);
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\n";
  const Hostile cases[] = {
      {"nothing", "", 0},
      {"garbage", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n\r\n", 400},
      {"text", "hello\r\n\r\n", 400},
      {"another protocol", "GET / HTTP/3.0\r\n\r\n", 400},
      {"a header without end", "GET / HTTP/1.1\r\nX: y", 0},
      {"a long target", "GET /" + std::string(5000, 'a') + " HTTP/1.1\r\n\r\n", 431},
      {"many headers", "GET / HTTP/1.1\r\n" + std::string(3000, 'h') + ": x\r\n\r\n", 431},
      {"a body that is announced too large", head + "Content-Length: 1001\r\n\r\n", 413},
      {"a body that is announced huge", head + "Content-Length: 99999999999999999999999\r\n\r\n", 400},
      {"a negative length", head + "Content-Length: -1\r\n\r\n", 400},
      {"two lengths", head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400},
      {"length and chunks", head + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunks that become too large", head + "Transfer-Encoding: chunked\r\n\r\n800\r\n" + std::string(2048, 'x'),
       413},
      {"a chunk without a size", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"a chunk's extension without end", head + "Transfer-Encoding: chunked\r\n\r\n1;x=" + std::string(200'000, 'x'),
       431},
      {"trailers without end", head + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + std::string(200'000, 'x'), 431},
      {"a body that never comes", head + "Content-Length: 10\r\n\r\nab", 0},
  };
  for (const Hostile& hostile : cases) {
    EXPECT_EQ(raw::talk(socket_, hostile.bytes).status, hostile.status) << hostile.name;
    expect_alive();
  }
}

TEST_F(HttpServerTest, ASlowLorisIsCutOff) {
  HttpLimits limits;
  limits.header_seconds = 0.3;
  start(limits);
  std::vector<raw::Socket> slow;
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(slow.emplace_back(socket_).send("GET / HTTP/1.1\r\nX-0: y\r\n"));
  expect_alive();
  // One more header line now and then: every byte in time, the whole never.
  bool open = true;
  for (int i = 0; i < 200 && open; ++i) {
    open = slow[0].send("X: y\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(open);
  for (const raw::Socket& socket : slow) EXPECT_NE(raw::parse_answer(socket.receive_all()).status, 200);
}

TEST_F(HttpServerTest, RandomBytesNeverStopIt) {
  HttpLimits limits;
  limits.header_seconds = limits.body_seconds = limits.idle_seconds = 0.05;
  start(limits);
  Random random(11);
  const std::string sound = raw::request_text("POST", "/v1/lookup", "{\"a\":1}", "Content-Type: application/json\r\n");
  for (int round = 0; round < 150; ++round) {
    std::string damaged = sound;
    for (int i = 0; i < 4; ++i) damaged[random.below(damaged.size())] = static_cast<char>(random());
    damaged.resize(damaged.size() - random.below(20));
    const raw::Socket socket(socket_);
    socket.send(damaged);
    socket.end_sending();
    static_cast<void>(socket.receive_all());
  }
  expect_alive();
}

TEST_F(HttpServerTest, AHandlerThatThrowsIsAnInternalError) {
  start({}, [](const http::Request&) -> http::Reply { throw std::runtime_error("oh"); });
  const raw::Answer answer = raw::request(socket_, "GET", "/");
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, HasSubstr("oh"));
}

TEST_F(HttpServerTest, ASocketOfADeadServerIsReplacedALiveOneIsNot) {
  start({});
  const auto second = HttpServer::start(on(socket_), echo);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::already_exists);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(::getpid())));
  expect_alive();
  server_.reset();
  // What kill -9 leaves: a socket file that nobody listens on.
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(left, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(left);
  start({});
  expect_alive();
  server_.reset();
  std::ofstream(socket_) << "somebody's notes";
  EXPECT_THAT(HttpServer::start(on(socket_), echo).error().message, HasSubstr("not a socket"));
  EXPECT_TRUE(std::filesystem::exists(socket_));
}

TEST_F(HttpServerTest, ADefaultSocketThatOthersMayReplaceIsNotServedOn) {
  const TestVariable variable("XDG_RUNTIME_DIR", folder_.path());
  HttpServerOptions options;
  options.socket = api::default_socket_path();
  const auto start = [&] { return HttpServer::start(options, [](const http::Request&) { return http::Response(); }); };
  const bool made = start().ok();
  std::filesystem::permissions(options.socket.parent_path(), std::filesystem::perms::all);
  const auto refused = start();
  EXPECT_TRUE(made);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("others may write to it"));
}

TEST_F(HttpServerTest, OnlyLoopbackAddressesAreServed) {
  HttpServerOptions options;
  for (const std::string address : {"0.0.0.0:0", "192.168.1.1:80", "[::]:0", "8.8.8.8:53"}) {
    options.tcp = address;
    const auto started = HttpServer::start(options, echo);
    ASSERT_FALSE(started.ok()) << address;
    EXPECT_THAT(started.error().message, HasSubstr("not a loopback address"));
  }
  for (const std::string address : {"example.org:80", "127.0.0.1:", "127.0.0.1:99999", "http", ""}) {
    options.tcp = address;
    EXPECT_EQ(HttpServer::start(options, echo).error().kind, ErrorKind::invalid_argument) << address;
  }
  options.tcp.reset();
  EXPECT_EQ(HttpServer::start(options, echo).error().kind, ErrorKind::invalid_argument);
  EXPECT_THAT(HttpServer::start(on(folder_ / std::string(200, 'x')), echo).error().message,
              HasSubstr("longer than 107"));
}

TEST_F(HttpServerTest, TcpServesNobodyWithoutTheSecret) {
  HttpServerOptions options;
  options.tcp = "0";
  EXPECT_THAT(HttpServer::start(options, echo).error().message, HasSubstr("no secret for its clients"));
}

TEST_F(HttpServerTest, TcpRefusesForeignHostNames) {
  HttpServerOptions options;
  options.tcp = "0";
  options.secret = "open sesame";
  auto started = HttpServer::start(options, echo);
  ASSERT_TRUE(started.ok());
  const auto talk = [&](const std::string& headers, const std::string& request = "GET /x HTTP/1.1") {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>((*started)->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const std::string text = request + "\r\n" + headers + "Connection: close\r\n\r\n";
    EXPECT_EQ(::send(descriptor, text.data(), text.size(), 0), std::ssize(text));
    std::string all(4096, '\0');
    all.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::recv(descriptor, all.data(), all.size(), MSG_WAITALL))));
    ::close(descriptor);
    return raw::parse_answer(all);
  };
  const std::string bearer = "Authorization: Bearer open sesame\r\n", local = "Host: localhost\r\n";
  const auto ask = [&](const std::string& host) { return talk("Host: " + host + "\r\n" + bearer).status; };
  EXPECT_EQ(ask("LOCALHOST:80"), 200) << "names of hosts have no case";
  EXPECT_EQ(ask("localhost:80"), 200);
  EXPECT_EQ(ask("127.0.0.1"), 200);
  EXPECT_EQ(ask("127.0.0.2:80"), 200);  // what --tcp 127.0.0.2:80 is asked by
  EXPECT_EQ(ask("[::1]:7"), 200);
  EXPECT_EQ(ask("evil.example"), 403);
  EXPECT_EQ(ask("localhost.evil.example"), 403);
  for (const char* host : {"127.0.0.1.evil.example", "192.168.1.1", "[::2]", "[::1", "", "127.0.0.2evil"}) {
    EXPECT_EQ(ask(host), 403) << host;
  }
  EXPECT_EQ(talk(bearer).status, 403) << "no Host";
  EXPECT_EQ(talk(local + "Host: evil.example\r\n" + bearer).status, 403) << "two of them";

  // The secret: another user of the machine, or a page that guesses, has not got it.
  const raw::Answer without = talk(local);
  EXPECT_EQ(without.status, 401);
  EXPECT_THAT(without.head, HasSubstr("WWW-Authenticate: Bearer"));
  EXPECT_THAT(without.body, HasSubstr("token file"));
  EXPECT_EQ(talk(local + "Authorization: bearer open sesame\r\n").status, 200);
  for (const std::string given : {"", "Bearer", "Bearer ", "Bearer open sesam", "Bearer open sesame!",
                                  "Basic open sesame", "Bearer open sesamE", "open sesame"}) {
    EXPECT_EQ(talk(local + "Authorization: " + given + "\r\n").status, 401) << given;
  }
  EXPECT_EQ(talk(local + bearer + bearer).status, 401);

  // What browsers add when a page sends something, even if the page knew the secret.
  for (const std::string page : {"Origin: https://evil.example", "Origin: null", "Origin: http://localhost:80",
                                 "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"}) {
    const raw::Answer refused = talk(local + bearer + page + "\r\n");
    EXPECT_EQ(refused.status, 403) << page;
    EXPECT_THAT(refused.body, HasSubstr("web pages")) << page;
  }
  EXPECT_EQ(talk(local + bearer + "Sec-Fetch-Site: none\r\n").status, 200) << "typed in by a person";
  // Refused by the header alone: no body is waited for.
  EXPECT_EQ(talk(local + "Content-Length: 1000000\r\n", "POST /v1/models HTTP/1.1").status, 401);
}

TEST_F(HttpServerTest, ASocketNeedsNoSecret) {
  start({});
  EXPECT_EQ(raw::request(socket_, "GET", "/x", "", "Origin: https://evil.example\r\n").status, 200)
      << "no page reaches it";
}

}  // namespace
}  // namespace stitch::daemon
