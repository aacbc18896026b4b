#include "client/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/client.h"
#include "client/event_parser.h"
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
    const auto connection = Connection::open(*parse_address(address));
    ASSERT_FALSE(connection.ok());
    EXPECT_EQ(connection.error().kind, ErrorKind::unavailable);
    EXPECT_THAT(connection.error().message, HasSubstr(address));
  }
}

// Somebody else may have made the default socket's folder first (base/private_folder.h).
TEST(ServerAddressTest, ADefaultSocketThatOthersMayReplaceIsNotConnectedTo) {
  const TestFolder runtime;
  std::filesystem::create_directory(runtime / "stitch");
  std::filesystem::permissions(runtime / "stitch", std::filesystem::perms::all);
  const TestVariable variable("XDG_RUNTIME_DIR", runtime.path());
  const auto connection = Connection::open(*parse_address(ClientOptions().server));
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
