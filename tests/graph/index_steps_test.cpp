#include "graph/calls/index_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch::graph {
namespace {

using testing::ElementsAre;

/// "extent:stride,stride" per step, outermost first.
std::vector<std::string> shown(const std::vector<SpaceStep>& steps) {
  std::vector<std::string> texts;
  for (const SpaceStep& step : steps) {
    std::string& text = texts.emplace_back(std::to_string(step.extent) + ":");
    for (std::size_t t = 0; t < step.strides.size(); ++t) text += (t > 0 ? "," : "") + std::to_string(step.strides[t]);
  }
  return texts;
}

TEST(IndexSteps, WalksAreCutWhereAnyOfThemIs) {
  const auto steps = common_steps({{{24, 1}}, {{4, 1}, {6, 4}}, {{2, 12}, {2, 1}, {1, 77}, {6, 2}}});
  ASSERT_TRUE(steps);
  EXPECT_THAT(shown(*steps), ElementsAre("2:12,2,12", "2:6,1,1", "6:1,4,2"));
}

TEST(IndexSteps, PlacesThatDoNotGoTogetherHaveNone) {
  EXPECT_FALSE(common_steps({{{2, 3}, {3, 1}}, {{3, 2}, {2, 1}}}));
}

TEST(IndexSteps, NothingHasNoSteps) {
  const auto steps = common_steps({{}, {{1, 5}}});
  ASSERT_TRUE(steps);
  EXPECT_TRUE(steps->empty());
}

TEST(IndexSteps, NeighboursThatStepEvenlyAreOne) {
  EXPECT_THAT(shown(collapsed_steps({{2, {12, 0}}, {3, {4, 0}}, {4, {1, 0}}})), ElementsAre("24:1,0"));
  EXPECT_THAT(shown(collapsed_steps({{2, {12, 1}}, {3, {4, 2}}, {4, {1, 6}}})),
              ElementsAre("2:12,1", "3:4,2", "4:1,6"));
}

}  // namespace
}  // namespace stitch::graph
