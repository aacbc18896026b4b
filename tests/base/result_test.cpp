#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace stitch {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return make_error(ErrorKind::invalid_argument, "{} is odd", x);
  return x / 2;
}

Result<int> quarter(int x) {
  STITCH_ASSIGN(const int once, half(x));
  STITCH_ASSIGN(const int twice, half(once));
  return twice;
}

Status check(int x) {
  STITCH_TRY(half(x));
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  EXPECT_TRUE(half(4).ok());
  EXPECT_EQ(*half(4), 2);
  EXPECT_FALSE(half(3));
  EXPECT_EQ(half(3).error(), (Error{ErrorKind::invalid_argument, "3 is odd"}));
  EXPECT_EQ(half(3).value_or(7), 7);
  EXPECT_EQ(half(8).value_or(7), 4);
}

TEST(Result, MacrosPassTheFirstErrorOn) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_EQ(quarter(5).error().message, "5 is odd");
  EXPECT_TRUE(check(2).ok());
  EXPECT_EQ(check(1).error().message, "1 is odd");
}

TEST(Result, CarriesWhatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> owner(std::make_unique<int>(5));
  std::unique_ptr<int> taken = *std::move(owner);
  EXPECT_EQ(*taken, 5);
}

TEST(Result, AnErrorAsTheValueIsNoFailure) {
  const Result<std::string> text(std::string("fine"));
  EXPECT_EQ(text->size(), 4U);
}

TEST(Error, ContextIsPutInFront) {
  const Error error = make_error(ErrorKind::io, "disk full").within("file a").within("saving");
  EXPECT_EQ(error.message, "saving: file a: disk full");
  EXPECT_EQ(error.kind, ErrorKind::io);
}

TEST(Error, EveryKindHasItsName) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ErrorKind::internal); ++i) {
    const std::string_view name = to_string(static_cast<ErrorKind>(i));
    EXPECT_NE(name, "unknown") << i;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(to_string(static_cast<ErrorKind>(static_cast<int>(ErrorKind::internal) + 1)), "unknown");
}

}  // namespace
}  // namespace stitch
