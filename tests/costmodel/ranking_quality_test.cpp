#include "costmodel/ranking_quality.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace stitch::costmodel::test {
namespace {

RankedGroup group_of(const std::vector<double>& predicted, const std::vector<double>& measured) {
  RankedGroup group;
  for (std::size_t i = 0; i < predicted.size(); ++i) group.push_back({predicted[i], measured[i], measured[i] <= 0});
  return group;
}

TEST(Spearman, IsThatOfTheBooks) {
  const std::vector<double> a = {1, 2, 3, 4, 5}, b = {2, 1, 4, 3, 5}, down = {5, 4, 3, 2, 1}, flat = {7, 7, 7, 7, 7};
  EXPECT_DOUBLE_EQ(spearman(a, a), 1);
  EXPECT_DOUBLE_EQ(spearman(a, down), -1);
  EXPECT_DOUBLE_EQ(spearman(a, b), 0.8);  // 1 − 6·4 / (5·24)
  EXPECT_DOUBLE_EQ(spearman(a, flat), 0);
  const std::vector<double> tied = {1, 2, 2, 4};
  EXPECT_NEAR(spearman(tied, std::vector<double>{1, 2, 3, 4}), 0.948683, 1e-6);
}

/// Pairs counted one by one.
double naive_kendall(const std::vector<double>& a, const std::vector<double>& b) {
  double score = 0, in_a = 0, in_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double x = a[i] - a[j], y = b[i] - b[j];
      score += x * y > 0 ? 1 : x * y < 0 ? -1 : 0;
      in_a += x != 0 ? 1 : 0;
      in_b += y != 0 ? 1 : 0;
    }
  }
  return in_a * in_b > 0 ? score / std::sqrt(in_a * in_b) : 0;
}

TEST(Kendall, CountsPairsAsOneByOne) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const std::size_t size = 2 + random() % 30;
    const unsigned values = round % 2 == 0 ? 1000 : 5;  // few: many ties
    std::vector<double> a, b;
    for (std::size_t i = 0; i < size; ++i) {
      a.push_back(random() % values);
      b.push_back(random() % values);
    }
    EXPECT_NEAR(kendall(a, b), naive_kendall(a, b), 1e-12) << "round " << round;
  }
}

TEST(RankingQuality, OfAPerfectOrderIsPerfect) {
  std::vector<double> times;
  for (int i = 0; i < 40; ++i) times.push_back(10 + (i * 7) % 40);
  const RankingQuality quality = ranking_quality(std::vector<RankedGroup>{group_of(times, times)});
  EXPECT_EQ(quality.groups, 1);
  EXPECT_EQ(quality.candidates, 40);
  EXPECT_DOUBLE_EQ(quality.spearman, 1);
  EXPECT_DOUBLE_EQ(quality.kendall, 1);
  for (const double recall : quality.recall) EXPECT_DOUBLE_EQ(recall, 1);
  for (const double regret : quality.regret) EXPECT_DOUBLE_EQ(regret, 0);
  EXPECT_EQ(quality.trials_to_99, 1);
  EXPECT_DOUBLE_EQ(quality.trials_to_99_share, 1.0 / 40);
}

// Six candidates by hand: predicted order a b c d e f with times 12 10 20 11 30 40.
TEST(RankingQuality, IsAsCountedByHand) {
  const RankingQuality quality =
      ranking_quality(std::vector<RankedGroup>{group_of({1, 2, 3, 4, 5, 6}, {12, 10, 20, 11, 30, 40})});
  EXPECT_DOUBLE_EQ(quality.recall[0], 0) << "the first is not the best";
  EXPECT_DOUBLE_EQ(quality.recall[1], 1) << "a to e are the five fastest";
  EXPECT_DOUBLE_EQ(quality.recall[2], 1) << "of six all are among the first ten";
  EXPECT_NEAR(quality.regret[0], 0.2, 1e-12);
  EXPECT_DOUBLE_EQ(quality.regret[1], 0);
  EXPECT_NEAR(quality.worst_regret, 0.2, 1e-12);
  EXPECT_EQ(quality.trials_to_99, 2);
}

TEST(RankingQuality, FailedCandidatesTakeTrials) {
  // The first predicted failed: one trial gives nothing, which counts as the worst; five reach the best.
  const RankingQuality quality = ranking_quality(std::vector<RankedGroup>{group_of({1, 2, 3}, {0, 10, 30})});
  EXPECT_EQ(quality.failed, 1);
  EXPECT_DOUBLE_EQ(quality.spearman, 1) << "among the right ones";
  EXPECT_DOUBLE_EQ(quality.regret[0], 2);
  EXPECT_DOUBLE_EQ(quality.regret[1], 0);
  EXPECT_EQ(quality.trials_to_99, 2);
}

TEST(RankingQuality, EveryGroupCountsOnceAndSmallOnesNot) {
  std::vector<double> many, backwards;
  for (int i = 1; i <= 100; ++i) {
    many.push_back(i);
    backwards.push_back(101 - i);
  }
  const RankingQuality quality =
      ranking_quality(std::vector<RankedGroup>{group_of(many, backwards), group_of({1, 2}, {1, 2}), group_of({1}, {5}),
                                               group_of({1, 2}, {0, 3}), RankedGroup{}});
  EXPECT_EQ(quality.groups, 2);
  EXPECT_DOUBLE_EQ(quality.spearman, 0);
  EXPECT_DOUBLE_EQ(quality.regret[0], 99.0 / 2);
  EXPECT_DOUBLE_EQ(quality.worst_regret, 99);
  EXPECT_EQ(ranking_quality({}).groups, 0);
}

TEST(RankingQuality, IsADocument) {
  const nlohmann::json document = to_document(ranking_quality(std::vector<RankedGroup>{group_of({1, 2}, {1, 2})}));
  EXPECT_EQ(document["recall"]["5"], 1);
  EXPECT_EQ(document["groups"], 1);
}

}  // namespace
}  // namespace stitch::costmodel::test
