#include "client/http/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "client/client.h"
#include "client/http/event_parser.h"
#include "tests/base/test_folder.h"
#include "tests/base/test_variable.h"

namespace stitch::client {
namespace {

using testing::HasSubstr;

TEST(ServerAddressTest, IsReadFromItsText) {
  EXPECT_EQ(parse_address("unix:///run/stitch.sock")->socket, "/run/stitch.sock");
  EXPECT_EQ(parse_address("http://127.0.0.1:8080")->port, 8080);
  EXPECT_EQ(parse_address("http://localhost:80/")->host, "127.0.0.1");
  EXPECT_EQ(parse_address("http://[::1]:80")->host, "::1");
  const std::pair<std::string, std::string> cases[] = {
      {"", "neither unix://PATH nor http://HOST:PORT"},
      {"/run/x", "neither"},
      {"https://127.0.0.1:1", "neither"},
      {"unix://relative", "not absolute"},
      {"http://127.0.0.1", "no port"},
      {"http://127.0.0.1:0", "no port"},
      {"http://127.0.0.1:http", "no port"},
      {"http://127.0.0.1:70000", "no port"},
  };
  for (const auto& [text, message] : cases) {
    const auto address = parse_address(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.error().kind, ErrorKind::invalid_argument);
    EXPECT_THAT(address.error().message, HasSubstr(message));
  }
}

TEST(ServerAddressTest, NobodyThereIsUnavailable) {
  for (const char* address : {"unix:///nowhere/at/all.sock", "http://127.0.0.1:1"}) {
    const auto connection = Connection::open(*parse_address(address), 10);
    ASSERT_FALSE(connection.ok());
    EXPECT_EQ(connection.error().kind, ErrorKind::unavailable);
    EXPECT_THAT(connection.error().message, HasSubstr(address));
  }
}

// A plan is machine code, and plain HTTP protects nothing on its way.
TEST(ServerAddressTest, AnotherMachineMustBeTrustedExplicitly) {
  for (const char* there : {"http://192.0.2.1:8080", "http://[2001:db8::1]:8080"}) {
    ClientOptions options;
    options.server = there;
    const auto client = Client::open(options);
    ASSERT_FALSE(client.ok());
    EXPECT_EQ(client.error().kind, ErrorKind::invalid_argument);
    EXPECT_THAT(client.error().message, HasSubstr("STITCH_ALLOW_REMOTE"));
  }
  ServerAddress trusted = *parse_address("http://192.0.2.1:8080");  // an address of documentation: nobody is there
  trusted.trusted = true;
  EXPECT_NE(Connection::open(trusted, 0.01).error().kind, ErrorKind::invalid_argument);
}

// As a stopped server does it: connections wait in its backlog until that is full.
TEST(ServerAddressTest, AServerThatAcceptsNothingIsGivenUp) {
  const TestFolder folder;
  const std::string path = (folder / "s").string();
  boost::asio::io_context context;
  boost::asio::local::stream_protocol::acceptor acceptor(context);
  acceptor.open();
  acceptor.bind(path);
  acceptor.listen(0);
  std::vector<std::unique_ptr<Connection>> waiting;
  std::optional<Error> refused;
  while (!refused && waiting.size() < 1000) {
    auto connection = Connection::open(*parse_address("unix://" + path), 0.05);
    if (connection)
      waiting.push_back(*std::move(connection));
    else
      refused = connection.error();
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, ErrorKind::timeout) << refused->message;
  EXPECT_THAT(refused->message, HasSubstr("no connection within 0.05 s"));
}

// Somebody else may have made the default socket's folder first (base/private_folder.h).
TEST(ServerAddressTest, ADefaultSocketThatOthersMayReplaceIsNotConnectedTo) {
  const TestFolder runtime;
  std::filesystem::create_directory(runtime / "stitch");
  std::filesystem::permissions(runtime / "stitch", std::filesystem::perms::all);
  const TestVariable variable("XDG_RUNTIME_DIR", runtime.path());
  const auto connection = Connection::open(*parse_address(ClientOptions().server), 10);
  ASSERT_FALSE(connection.ok());
  EXPECT_EQ(connection.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(connection.error().message, HasSubstr("others may write to it"));
}

TEST(EventParserTest, EventsDoNotDependOnHowTheirBytesAreCut) {
  const std::string text =
      ": a comment\n\nid: 1\nevent: queued\ndata: {\"a\":1}\n\nid: 2\r\ndata:two\r\ndata: lines\r\n\r\n"
      "event: without data\n\nretry: 5\ndata\n\ndata: not finished";
  const std::vector<ServerEvent> expected = {
      {"1", "queued", "{\"a\":1}"}, {"2", "message", "two\nlines"}, {"2", "message", ""}};
  for (std::size_t step = 1; step <= text.size(); ++step) {
    std::vector<ServerEvent> events;
    EventParser parser([&](const ServerEvent& event) {
      events.push_back(event);
      return true;
    });
    for (std::size_t i = 0; i < text.size(); i += step)
      EXPECT_TRUE(parser.feed(std::string_view(text).substr(i, step)));
    EXPECT_EQ(events, expected) << "in pieces of " << step;
  }
}

TEST(EventParserTest, StopsWhenTheSinkHasEnough) {
  int seen = 0;
  EventParser parser([&](const ServerEvent&) { return ++seen < 2; });
  EXPECT_FALSE(parser.feed("data: 1\n\ndata: 2\n\ndata: 3\n\n"));
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace stitch::client
