#include "base/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/base/test_variable.h"

namespace stitch {
namespace {

using testing::Contains;
using testing::Not;

TEST(Environment, EveryVariableIsListedOnceAndSaysWhatItIs) {
  std::set<std::string_view> names;
  for (const EnvironmentVariable& each : environment_variables()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_TRUE(std::string_view(each.name).starts_with("STITCH_"));
    EXPECT_NE(std::string_view(each.reader), "");
    EXPECT_NE(std::string_view(each.meaning), "") << each.name;
  }
}

TEST(Environment, WhatNobodyReadsIsNamed) {
  const TestVariable known("STITCH_EFFORT", "none"), of_tests("STITCH_TEST_SOMETHING", "1"),
      typo("STITCH_EFORT", "none"), other("NOT_STITCH_EFFORT", "1");
  const std::vector<std::string> unknown = unknown_environment_variables();
  EXPECT_THAT(unknown, Contains("STITCH_EFORT"));
  for (const char* name : {"STITCH_EFFORT", "STITCH_TEST_SOMETHING", "NOT_STITCH_EFFORT"})
    EXPECT_THAT(unknown, Not(Contains(name)));
}

TEST(Environment, ASlipOfThePenHasANearestName) {
  EXPECT_EQ(nearest_environment_variable("STITCH_EFORT"), "STITCH_EFFORT");
  EXPECT_EQ(nearest_environment_variable("STITCH_MODES"), "STITCH_MODE");
  EXPECT_EQ(nearest_environment_variable("STITCH_DISABEL"), "STITCH_DISABLE");
  EXPECT_EQ(nearest_environment_variable("STITCH_SOMETHING"), "");
}

}  // namespace
}  // namespace stitch
