#include "search/trials/failure_model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/random.h"

namespace stitch::search {
namespace {

/// A grid of 24 × 24 × 4, listed along its last axis first.
CandidateFeatures grid() {
  CandidateFeatures features;
  features.size = 24 * 24 * 4;
  features.list.resize(3);
  for (int i = 0; i < 24 * 24 * 4; ++i) {
    features.list[0].values.push_back(static_cast<float>(i / 96) / 23);
    features.list[1].values.push_back(static_cast<float>(i / 4 % 24) / 23);
    features.list[2].values.push_back(static_cast<float>(i % 4) / 3);
  }
  return features;
}

/// The sum of the first two coordinates decides, the third does not matter.
bool too_large(const CandidateFeatures& features, std::size_t i) {
  return features.list[0].values[i] + features.list[1].values[i] > 1.25F;
}

struct Judged {
  double failing = 0, running = 0;  ///< mean probability to run that is given to candidates of either kind
};

Judged judge(const CandidateFeatures& features, std::span<const float> valid) {
  Judged judged;
  double failing = 0, running = 0;
  for (std::size_t i = 0; i < features.size; ++i) {
    (too_large(features, i) ? judged.failing : judged.running) += static_cast<double>(valid[i]);
    ++(too_large(features, i) ? failing : running);
  }
  return {judged.failing / failing, judged.running / running};
}

TEST(FailureModel, LearnsWhatFailsFromSixtyTrials) {
  const CandidateFeatures features = grid();
  FailureModel model(features, nullptr, {});
  Random random(7);
  std::span<const float> valid;
  for (int t = 0; t < 60; ++t) {
    const std::size_t i = random.below(features.size);
    model.observe(i, too_large(features, i));
    valid = model.update();
  }
  const Judged judged = judge(features, valid);
  EXPECT_LT(judged.failing, 0.25);
  EXPECT_GT(judged.running, 0.9);
  for (const float probability : valid) {
    EXPECT_GE(probability, FailureModel::least);
    EXPECT_LE(probability, 1);
  }
}

TEST(FailureModel, TrustsEverythingUntilSomethingFails) {
  const CandidateFeatures features = grid();
  FailureModel model(features, nullptr, {});
  EXPECT_THAT(model.update(), testing::Each(1.0F));
  for (std::size_t i = 0; i < 40; ++i) model.observe(i * 7, false);
  EXPECT_THAT(model.update(), testing::Each(1.0F));
  model.observe(features.size - 1, true);
  const std::span<const float> valid = model.update();
  EXPECT_LT(valid[features.size - 2], 0.6F);
  EXPECT_GT(valid[0], 0.9F);
}

TEST(FailureModel, EverythingFailing) {
  const CandidateFeatures features = grid();
  FailureModel model(features, nullptr, {});
  for (std::size_t i = 0; i < 30; ++i) model.observe(i * 50, true);
  EXPECT_THAT(model.update(), testing::Each(testing::AllOf(testing::Ge(FailureModel::least), testing::Lt(0.2F))));
}

TEST(FailureModel, DoubtsWhatFailedOnTheNeighbour) {
  const CandidateFeatures features = grid();
  TransferPrior prior;
  prior.log_time.assign(features.size, 0.0F);
  for (std::size_t i = 0; i < features.size; ++i) prior.failed.push_back(too_large(features, i) ? 1 : 0);
  FailureModel model(features, &prior, {});
  const Judged before = judge(features, model.update());
  EXPECT_EQ(before.failing, 0.5);
  EXPECT_EQ(before.running, 1);
  Random random(3);
  for (int t = 0; t < 8; ++t) {  // here everything runs: the doubt goes
    std::size_t i = random.below(features.size);
    while (!too_large(features, i)) i = random.below(features.size);
    model.observe(i, false);
  }
  EXPECT_GT(judge(features, model.update()).failing, 0.8);
}

}  // namespace
}  // namespace stitch::search
