#include "client/http/request_target.h"

#include <gtest/gtest.h>

namespace stitch::client {
namespace {

TEST(RequestTarget, NamesAreEncoded) {
  EXPECT_EQ(encoded("bert-base_1.0~x"), "bert-base_1.0~x");
  EXPECT_EQ(encoded("a b&c=d/\xc3\xa4"), "a%20b%26c%3Dd%2F%C3%A4");
  EXPECT_EQ(encoded("two\nlines\x7f"), "two%20lines%20") << "what a target cannot carry";
  EXPECT_EQ(with_name("/v1/models", "bert base"), "/v1/models?name=bert%20base");
}

TEST(RequestTarget, CodeIsAskedForByServersOldWord) {
  EXPECT_EQ(code_query(api::CodeInside::none), "");
  EXPECT_EQ(code_query(api::CodeInside::all), "?code=1");
  EXPECT_EQ(code_query(api::CodeInside::ptx), "?code=ptx");
}

}  // namespace
}  // namespace stitch::client
