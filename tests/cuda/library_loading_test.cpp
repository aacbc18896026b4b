#include "cuda/library_loading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace stitch::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(LibraryLoading, TheFirstThatHasAllFunctionsIsTaken) {
  decltype(&::strlen) length = nullptr;
  const Status loaded = load_first({"libnosuchthing.so.1", "libc.so.6"}, "thing",
                                   [&](FunctionFinder& finder) { finder.find(length, "strlen"); });
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(length("four"), 4U);
}

TEST(LibraryLoading, WhatIsMissedIsNamedOfEach) {
  decltype(&::strlen) length = nullptr;
  const Status loaded = load_first({"libnosuchthing.so.1", "libc.so.6"}, "thing", [&](FunctionFinder& finder) {
    finder.find(length, "strlen");
    finder.find(length, "no_such_function");
    finder.find(length, "nor_this");
  });
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(loaded.error().message, AllOf(HasSubstr("no thing: libnosuchthing.so.1: cannot open"),
                                            HasSubstr("; libc.so.6 has no no_such_function")));
}

}  // namespace
}  // namespace stitch::cuda
