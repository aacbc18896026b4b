#include "base/json_text.h"

#include <gtest/gtest.h>

namespace stitch {
namespace {

TEST(JsonText, TextThatIsNoneIsReplaced) {
  EXPECT_EQ(json_text("h\xc3\xa4 \xf0\x9f\x90\x8e"), "\"h\xc3\xa4 \xf0\x9f\x90\x8e\"");
  for (const char* const bad : {"\xff", "\xc0", "\xed", "\xf5"}) EXPECT_EQ(json_text(bad), "\"\xef\xbf\xbd\"") << bad;
  EXPECT_EQ(json_text("\xc3"), "\"\xef\xbf\xbd\"") << "cut";
  EXPECT_EQ(json_text("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"") << "longer than needed";
}

TEST(JsonText, WhatJsonDoesNotTakeIsWrittenOtherwise) {
  EXPECT_EQ(json_text("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000ad\"");
  EXPECT_EQ(json_text(""), "\"\"");
}

}  // namespace
}  // namespace stitch
