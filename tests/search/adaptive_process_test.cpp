#include "search/trials/adaptive_process.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace stitch::search {
namespace {

/// Two coordinates of 400 random points; only the first one matters to `truth`.
CandidateFeatures points() {
  Random random(5);
  CandidateFeatures features;
  features.size = 400;
  features.list.resize(2);
  for (std::size_t i = 0; i < features.size; ++i) {
    for (Feature& feature : features.list) feature.values.push_back(static_cast<float>(random.uniform()));
  }
  return features;
}

double truth(const CandidateFeatures& features, std::size_t i) {
  return std::sin(6 * static_cast<double>(features.list[0].values[i]));
}

double error(const CandidateFeatures& features, const std::vector<float>& mean) {
  double sum = 0;
  for (std::size_t i = 0; i < features.size; ++i) sum += std::abs(static_cast<double>(mean[i]) - truth(features, i));
  return sum / static_cast<double>(features.size);
}

TEST(AdaptiveProcess, FollowsWhatIsObserved) {
  const CandidateFeatures features = points();
  AdaptiveProcess process(features, default_prior(features), {});
  std::vector<double> values;
  double early = 0, late = 1;
  for (std::size_t i = 0; i < 60; ++i) {
    process.observe(i);
    values.push_back(truth(features, i));
    const std::vector<float> mean = process.update(values);
    if (i == 5) early = error(features, mean);
    if (i == 59) late = error(features, mean);
  }
  EXPECT_GT(early, 0.1);
  EXPECT_LT(late, 0.05);
}

// What a neighbour's fit would find: the coordinate that matters not has the longer scale.
TEST(AdaptiveProcess, FitTellsWhatMatters) {
  const CandidateFeatures features = points();
  std::vector<std::size_t> candidates;
  std::vector<double> values;
  for (std::size_t i = 0; i < 300; ++i) {
    candidates.push_back(i);
    values.push_back(truth(features, i));
  }
  const CovarianceParameters fitted = fit_covariance(features, candidates, values, default_prior(features), {});
  EXPECT_GT(fitted.log_weight[0], fitted.log_weight[1] + 1);
}

TEST(AdaptiveProcess, AssumptionsLowerTheVarianceUntilTheNextUpdate) {
  const CandidateFeatures features = points();
  AdaptiveProcess process(features, default_prior(features), {});
  std::vector<double> values;
  for (std::size_t i = 0; i < 10; ++i) {
    process.observe(i);
    values.push_back(truth(features, i));
  }
  process.update(values);
  const auto widest =
      static_cast<std::size_t>(std::ranges::max_element(process.variance()) - process.variance().begin());
  const float before = process.variance()[widest];
  process.assume(widest);
  EXPECT_LT(process.variance()[widest], 0.2F * before);
  process.update(values);
  EXPECT_GT(process.variance()[widest], 0.5F * before);
}

// Work is spread by counts, so that a second process with the same observations says the same, bit for bit.
TEST(AdaptiveProcess, RepeatsItself) {
  const CandidateFeatures features = points();
  AdaptiveProcess one(features, default_prior(features), {}), two(features, default_prior(features), {});
  std::vector<double> values;
  for (std::size_t i = 0; i < 40; ++i) {
    one.observe(i);
    two.observe(i);
    values.push_back(truth(features, i));
    EXPECT_EQ(one.update(values), two.update(values));
  }
}

TEST(AdaptiveProcess, MayLeaveItsFirstFactorisationForLater) {
  CandidateFeatures features;
  features.size = 20'000;
  features.list.resize(1);
  for (std::size_t i = 0; i < features.size; ++i) features.list[0].values.push_back(static_cast<float>(i) / 2e4F);
  AdaptiveProcess process(features, default_prior(features), {});
  std::vector<double> values;
  for (std::size_t i = 0; i < 200; ++i) {
    process.observe(i * 97);
    values.push_back(truth(features, i * 97));
  }
  EXPECT_TRUE(process.update(values, true).empty());
  std::vector<float> mean;
  for (int updates = 0; mean.empty() && updates < 100; ++updates) mean = process.update(values, true);
  ASSERT_FALSE(mean.empty());
  EXPECT_LT(error(features, mean), 0.05);
  process.observe(1);
  values.push_back(truth(features, 1));
  EXPECT_FALSE(process.update(values, true).empty());
}

}  // namespace
}  // namespace stitch::search
