#include "client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daemon/http/http_server.h"
#include "tests/base/test_folder.h"

namespace stitch::client {
namespace {

using testing::HasSubstr;

/// What connecting gives where the server says that it speaks a protocol.
Result<std::unique_ptr<Client>> open_where_protocol_is(int protocol, const std::filesystem::path& socket) {
  daemon::HttpServerOptions options;
  options.socket = socket;
  const auto server = daemon::HttpServer::start(options, [protocol](const daemon::http::Request&) {
    api::ServerVersion version;
    version.protocol = protocol;
    daemon::http::Response response;
    response.body = api::encode_document(api::to_document(version), graph::Encoding::json);
    return response;
  });
  EXPECT_TRUE(server.ok()) << (server ? "" : server.error().message);
  return Client::open({.server = "unix://" + socket.string(), .cache = {}});
}

// Protocol 1 listed cost models where protocol 2 lists models: who speaks the one must not read the other.
TEST(ClientTest, AServerOfAnotherProtocolIsRefusedByItsNumber) {
  const TestFolder folder;
  EXPECT_TRUE(open_where_protocol_is(3, folder / "same").ok());
  const auto old = open_where_protocol_is(1, folder / "old");
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().kind, ErrorKind::version_mismatch);
  EXPECT_THAT(old.error().message, HasSubstr("the server speaks protocol 1, this library 3"));
}

}  // namespace
}  // namespace stitch::client
