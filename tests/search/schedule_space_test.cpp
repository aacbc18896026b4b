#include "search/schedule/stitch_explorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernel/program/legality.h"
#include "kernel/program/schedule_hash.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

bool contains(const std::vector<StitchCandidate>& candidates, const kernel::Schedule& schedule) {
  return std::any_of(candidates.begin(), candidates.end(), [&](const auto& c) { return c.schedule == schedule; });
}

StitchOptions all_of(int combinations) {
  StitchOptions options;
  options.keep = 1 << 20;
  options.wide = true;
  options.combinations = combinations;
  return options;
}

TEST(ScheduleSpace, HoldsWhateverTheExplorerConsiders) {
  const RoughScorer scorer;
  for (const Graph& graph : {scanned(300, 100), cache_update(16, 2048, 64, true)}) {
    const auto space = explore_space(graph, scorer, all_of(4096));
    ASSERT_TRUE(space) << space.error().message;
    EXPECT_TRUE(space->whole);
    EXPECT_EQ(space->legal, std::ssize(space->candidates));
    std::set<Hash128> distinct;
    for (const StitchCandidate& candidate : space->candidates) {
      EXPECT_TRUE(kernel::check_legality(candidate.program, scorer.device()));
      EXPECT_TRUE(distinct.insert(kernel::schedule_hash(candidate.schedule)).second);
    }
    for (const bool wide : {false, true}) {
      const auto explored = explore_stitches(graph, scorer, {1 << 20, wide});
      ASSERT_TRUE(explored);
      for (const StitchCandidate& candidate : *explored) EXPECT_TRUE(contains(space->candidates, candidate.schedule));
      EXPECT_GE(space->candidates.size(), explored->size());
    }
  }
}

TEST(ScheduleSpace, OfSeveralGroupsSaysWhenItIsNotWhole) {
  const RoughScorer scorer;
  const Graph graph = layer_norm_backward(512, 256);
  const auto one = explore_space(graph, scorer, all_of(1)), some = explore_space(graph, scorer, all_of(64));
  ASSERT_TRUE(one && some);
  EXPECT_FALSE(one->whole);
  EXPECT_FALSE(some->whole);
  EXPECT_GT(some->legal, 2 * one->legal);
}

TEST(ScheduleSpace, KeepsTheBestAndAnEvenSampleOfTheRest) {
  const RoughScorer scorer;
  const Graph graph = softmax(64, 1024);
  const auto all = explore_space(graph, scorer, all_of(64));
  ASSERT_TRUE(all);
  const int total = all->candidates.size();
  ASSERT_GT(total, 100);
  StitchOptions options = all_of(64);
  options.keep = total / 4;
  options.sample = total / 4;
  const auto some = explore_space(graph, scorer, options);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->legal, all->legal);
  ASSERT_EQ(std::ssize(some->candidates), options.keep);
  ASSERT_EQ(std::ssize(some->others), options.sample);
  for (int i = 0; i < options.keep; ++i) {
    EXPECT_EQ(some->candidates[i].schedule, all->candidates[i].schedule);
  }
  for (const StitchCandidate& other : some->others) EXPECT_FALSE(contains(some->candidates, other.schedule));
  // Not only the second best: the worst third has its share of a third of what is not best.
  const double bad = all->candidates[total * 3 / 4].predicted_us;
  const auto worst = std::count_if(some->others.begin(), some->others.end(),
                                   [&](const StitchCandidate& c) { return c.predicted_us >= bad; });
  EXPECT_GT(worst, options.sample / 5);
  // Room for all: all are returned.
  options.sample = total;
  const auto every = explore_space(graph, scorer, options);
  ASSERT_TRUE(every);
  EXPECT_EQ(static_cast<int>(every->candidates.size() + every->others.size()), total);
}

TEST(ScheduleSpace, WithOneCombinationIsTheExplorer) {
  const RoughScorer scorer;
  for (const Graph& graph : {softmax(64, 300), layer_norm_backward(512, 256), row_and_column_sums(512, 256)}) {
    StitchOptions options;
    options.keep = 40;
    const auto space = explore_space(graph, scorer, options);
    const auto explored = explore_stitches(graph, scorer, {40, false});
    ASSERT_TRUE(space && explored);
    ASSERT_EQ(space->candidates.size(), explored->size());
    for (std::size_t i = 0; i < explored->size(); ++i)
      EXPECT_EQ(space->candidates[i].schedule, (*explored)[i].schedule);
  }
}

}  // namespace
}  // namespace stitch::search::test
