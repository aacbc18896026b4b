#include "daemon/model_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "daemon/model_tuning.h"
#include "graph/codec.h"
#include "tests/daemon/law_timer.h"
#include "tests/daemon/running_service.h"
#include "tests/daemon/sample_fragments.h"

// A model's budget of trials, from its share to the plan that is served: kernels are really generated, compiled and
// verified and the store is a real one; times come from a made-up law.
namespace stitch::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ModelSearchEmulated : public testing::Test {
 protected:
  ModelSearchEmulated() {
    db::SqliteOptions storage;
    storage.path = folder_ / "stitch.db";
    store_ = *db::open_sqlite_store(storage, clock_);
  }

  /// By a tuner of its own, as another process has.
  ModelTuning tune(std::int64_t trials, bool keeps = true) {
    TunerOptions options;
    options.verify.distributions.resize(1);
    options.measured_candidates = 2, options.compiled_candidates = 2;
    options.search.space = {.candidates = 150, .combinations = 16};
    options.search.batch = 4;
    auto made = Tuner::create(options, shared_device(), &timer_, files_, clock_);
    EXPECT_TRUE(made.ok()) << (made ? "" : made.error().message);
    tuner_ = *std::move(made);
    tuned_ = *TuningStore::open(*store_, *tuner_, clock_);
    auto tuning =
        tune_model(model_, "layers.json", *tuner_, {}, stop_.get_token(), keeps ? tuned_.get() : nullptr, trials);
    EXPECT_TRUE(tuning.ok()) << (tuning ? "" : tuning.error().message);
    return tuning ? *std::move(tuning) : ModelTuning();
  }
  /// Candidates of which the store knows what became of them.
  std::set<Hash128> tried() {
    std::set<Hash128> schedules;
    const auto listing = store_->list_candidates({}, {.limit = 1000});
    for (const db::Candidate& candidate : listing->items) schedules.insert(candidate.schedule_hash);
    return schedules;
  }
  std::vector<db::Plan> served() {
    db::PlanFilter filter;
    filter.status = db::PlanStatus::incumbent;
    return store_->list_plans(filter, {})->items;
  }

  TestFolder folder_;
  SystemClock clock_;
  RealFileSystem files_;
  LawTimer timer_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<Tuner> tuner_;
  std::unique_ptr<TuningStore> tuned_;
  std::stop_source stop_;
  std::string model_ = graph::encode(samples::layered_model(2), graph::Encoding::json);
};

TEST_F(ModelSearchEmulated, TheBudgetIsSpentAndFasterPlansAreServed) {
  const ModelTuning before = tune(0);
  EXPECT_EQ(before.report.search.trials, 0);
  const std::vector<db::Plan> first = served();
  ASSERT_EQ(first.size(), 2U);
  const std::set<Hash128> few = tried();

  const ModelTuning after = tune(24);
  const ModelReport::Search& search = after.report.search;
  EXPECT_EQ(search.trials, 24);
  EXPECT_EQ(search.kernels, 2);
  EXPECT_GE(search.improved, 1);
  EXPECT_GT(search.saved_us, 5.0 * static_cast<double>(search.improved)) << "half as many threads off are 10 us";
  EXPECT_GE(tried().size(), few.size() + 20);
  std::set<Hash128> now;
  for (const db::Plan& plan : served()) {
    EXPECT_EQ(plan.label, db::Label::measured);
    EXPECT_EQ(plan.verified_share, 1);
    now.insert(plan.id);
  }
  EXPECT_EQ(now.size(), 2U);
  const auto stayed = std::ranges::count_if(first, [&](const db::Plan& plan) { return now.contains(plan.id); });
  EXPECT_EQ(stayed, 2 - search.improved);
  EXPECT_THAT(to_table(after.report), AllOf(HasSubstr("24 trials ("), HasSubstr("faster by search")));
}

TEST_F(ModelSearchEmulated, ALaterRunGoesOnWhereTheLastOneEnded) {
  (void)tune(16);
  const std::set<Hash128> first = tried();
  const std::vector<db::Plan> plans = served();
  const int measured = timer_.kernels_measured;
  const ModelTuning again = tune(16);
  EXPECT_EQ(again.report.search.trials, 16);
  // The first few of each kernel and the three fastest are measured anew, nothing else is.
  const auto fresh = static_cast<int>(tried().size() - first.size());
  EXPECT_GE(fresh, 16 - 2 * 3);
  EXPECT_LE(timer_.kernels_measured - measured, fresh + 2 * (2 + 3));
  // What the first run found is not lost by the second.
  for (const TunedFragment& fragment : again.fragments) EXPECT_LT(fragment.kernels.at(0).measurement->median, 12);
}

TEST_F(ModelSearchEmulated, WherePlansCannotBeMeasuredTheFirstOneIsTheBest) {
  timer_.plans = false;
  const ModelTuning tuning = tune(24);
  EXPECT_EQ(tuning.report.search.trials, 24);
  ASSERT_EQ(tuning.fragments.size(), 2U);
  const std::vector<db::Plan> plans = served();
  ASSERT_EQ(plans.size(), 2U);
  for (const TunedFragment& fragment : tuning.fragments) {
    EXPECT_LT(fragment.kernels.at(0).measurement->median, 12);
    EXPECT_TRUE(std::ranges::any_of(plans, [&](const db::Plan& plan) { return plan.id == fragment.plan.id; }));
  }
}

TEST_F(ModelSearchEmulated, WithoutAStoreItIsTheSame) {
  const ModelTuning tuning = tune(8, false);
  EXPECT_EQ(tuning.report.search.trials, 8);
  EXPECT_EQ(tuning.fragments.size(), 2U);
  EXPECT_TRUE(tried().empty());
}

TEST_F(ModelSearchEmulated, TrialsNeedADeviceThatMeasures) {
  const auto refused = tune_model(model_, "layers.json", shared_tuner(shared_device()), {}, {}, nullptr, 8);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr("8 trials"));
}

}  // namespace
}  // namespace stitch::daemon
