#include "tuning/kernels/trial_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace stitch::tuning {
namespace {

using testing::ElementsAre;

std::vector<std::int64_t> shared(std::vector<double> gains, std::int64_t trials, std::int64_t batch) {
  return share_trials(gains, trials, batch);
}

TEST(TrialBudget, SharesAreInProportionToTheGains) {
  EXPECT_THAT(shared({60, 30, 10}, 1000, 1), ElementsAre(600, 300, 100));
  EXPECT_THAT(shared({10, 60, 30}, 1000, 10), ElementsAre(100, 600, 300));
}

TEST(TrialBudget, TheMethodOfHighestAverages) {
  // The textbook example of D'Hondt: 8 seats for 100, 80, 30 and 20 (thousand votes).
  EXPECT_THAT(shared({100, 80, 30, 20}, 8, 1), ElementsAre(4, 3, 1, 0));
  EXPECT_THAT(shared({5, 5, 5}, 4, 1), ElementsAre(2, 1, 1)) << "equal ones in their order";
}

TEST(TrialBudget, NobodyGetsLessThanABatchButTheLast) {
  EXPECT_THAT(shared({60, 30, 10}, 20, 8), ElementsAre(16, 4, 0));
  EXPECT_THAT(shared({1}, 3, 8), ElementsAre(3));
}

TEST(TrialBudget, WhatGainsNothingGetsNothing) {
  EXPECT_THAT(shared({0, 2, -1}, 10, 4), ElementsAre(0, 10, 0));
  EXPECT_THAT(shared({0, 0}, 10, 4), ElementsAre(0, 0));
  EXPECT_THAT(shared({}, 10, 4), ElementsAre());
  EXPECT_THAT(shared({3, 1}, 0, 4), ElementsAre(0, 0));
}

}  // namespace
}  // namespace stitch::tuning
