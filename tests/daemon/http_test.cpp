#include "daemon/http/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch::daemon::http {
namespace {

using graph::Encoding;
using testing::ElementsAre;
using testing::Pair;
using testing::StartsWith;

TEST(EntityTagTest, AnIfNoneMatchNamesTags) {
  for (const std::string_view names : {"\"ab\"", "W/\"ab\"", "*", " \"x\" ,\t\"ab\" ", "\"\",\"ab\""})
    EXPECT_TRUE(http::has_tag(names, "ab")) << names;
  for (const std::string_view names : {"", ",", "ab", "\"a\"", "\"abc\"", "\"ab", "W/ab", "\"AB\"", "W/W/\"ab\""})
    EXPECT_FALSE(http::has_tag(names, "ab")) << names;
}

TEST(HttpTargetTest, IsTakenApartAndDecoded) {
  const auto target = parse_target("/v1/jobs/7?name=bert%20base&after=3&flag&empty=");
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->path, "/v1/jobs/7");
  EXPECT_THAT(target->query,
              ElementsAre(Pair("after", "3"), Pair("empty", ""), Pair("flag", ""), Pair("name", "bert base")));
  EXPECT_EQ(parse_target("/")->path, "/");
  EXPECT_EQ(parse_target("/%2e%2E/a")->path, "/../a");
  EXPECT_TRUE(parse_target("/x?")->query.empty());
}

TEST(HttpTargetTest, ErrorsNameThePlace) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "target: not an absolute path"},
      {"http://x/", "target: not an absolute path"},
      {"/a%", "target: byte 2: a percent sign"},
      {"/a%4", "target: byte 2: a percent sign"},
      {"/a%zz", "target: byte 2: a percent sign"},
      {"/a%00", "target: byte 2: a control character"},
      {"/a?b=%0a", "target: byte 5: a control character"},
      {"/a?b=1&b=2", "query: 'b' appears twice"},
  };
  for (const auto& [text, message] : cases) {
    const auto target = parse_target(text);
    ASSERT_FALSE(target.ok()) << text;
    EXPECT_EQ(target.error().kind, ErrorKind::invalid_argument);
    EXPECT_THAT(target.error().message, StartsWith(message));
  }
}

TEST(HttpEncodingTest, IsToldByMediaTypes) {
  EXPECT_EQ(*encoding_of(""), Encoding::json);
  EXPECT_EQ(*encoding_of("application/json; charset=utf-8"), Encoding::json);
  EXPECT_EQ(*encoding_of("Application/CBOR"), Encoding::cbor);
  EXPECT_EQ(encoding_of("text/xml").error().kind, ErrorKind::unsupported);
  EXPECT_EQ(wanted_encoding(""), Encoding::json);
  EXPECT_EQ(wanted_encoding("*/*"), Encoding::json);
  EXPECT_EQ(wanted_encoding("text/html, application/cbor;q=0.9"), Encoding::cbor);
}

TEST(HttpErrorTest, EveryKindHasAStatusOfItsClass) {
  for (int i = 0; i <= static_cast<int>(ErrorKind::internal); ++i) {
    const int status = status_of(static_cast<ErrorKind>(i));
    EXPECT_GE(status, 400);
    EXPECT_LT(status, 600);
  }
  EXPECT_EQ(status_of(ErrorKind::not_found), 404);
  EXPECT_EQ(status_of(ErrorKind::resource_exhausted), 503);
  const Response full = error_response({ErrorKind::resource_exhausted, "full"}, Encoding::json);
  EXPECT_EQ(full.body, R"({"error":{"kind":"resource_exhausted","message":"full"}})");
  EXPECT_THAT(full.headers, ElementsAre(Pair("Retry-After", "5")));
}

}  // namespace
}  // namespace stitch::daemon::http
