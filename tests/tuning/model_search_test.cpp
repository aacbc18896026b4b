#include "tuning/models/model_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/codec/codec.h"
#include "tests/daemon/raw_http.h"
#include "tests/daemon/running_service.h"
#include "tests/tuning/law_timer.h"
#include "tests/tuning/sample_fragments.h"
#include "tuning/models/model_tuning.h"
#include "tuning/plans/plan_record.h"

// A model's budget of trials, from its share to the plan that is served: kernels are really generated, compiled and
// verified and the store is a real one; times come from a made-up law.
namespace stitch::tuning {
namespace {

using daemon::RunningService;
using testing::AllOf;
using testing::HasSubstr;

namespace raw = daemon::raw;

class ModelSearchEmulated : public testing::Test {
 protected:
  ModelSearchEmulated() {
    db::SqliteOptions storage;
    storage.path = folder_ / "stitch.db";
    store_ = *db::open_sqlite_store(storage, clock_);
  }

  /// As another process has.
  std::unique_ptr<Tuner> another_tuner() {
    TunerOptions options;
    options.verify.distributions.resize(1);
    options.measured_candidates = 2;
    options.compiled_candidates = 2;
    options.search.space = {.candidates = 150, .combinations = 16};
    options.search.batch = 4;
    auto made = Tuner::create(options, shared_device(), &timer_, files_, clock_);
    EXPECT_TRUE(made.ok()) << (made ? "" : made.error().message);
    return *std::move(made);
  }
  ModelTuning tune(std::int64_t trials, bool keeps = true) {
    tuner_ = another_tuner();
    tuned_ = *RememberingTuner::open(*store_, *tuner_, clock_);
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
  std::vector<db::PlanRecord> served() {
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
  std::unique_ptr<RememberingTuner> tuned_;
  std::stop_source stop_;
  std::string model_ = graph::encode(samples::layered_model(2), graph::Encoding::json);
};

TEST_F(ModelSearchEmulated, TheBudgetIsSpentAndFasterPlansAreServed) {
  const ModelTuning before = tune(0);
  EXPECT_EQ(before.report.search.trials, 0);
  const std::vector<db::PlanRecord> first = served();
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
  for (const db::PlanRecord& plan : served()) {
    EXPECT_EQ(plan.label, db::Label::measured);
    EXPECT_EQ(plan.verified_share, 1);
    now.insert(plan.id);
  }
  EXPECT_EQ(now.size(), 2U);
  const auto stayed = std::ranges::count_if(first, [&](const db::PlanRecord& plan) { return now.contains(plan.id); });
  EXPECT_EQ(stayed, 2 - search.improved);
  EXPECT_THAT(to_table(after.report), AllOf(HasSubstr("24 trials ("), HasSubstr("faster by search")));
}

TEST_F(ModelSearchEmulated, ALaterRunGoesOnWhereTheLastOneEnded) {
  (void)tune(16);
  const std::set<Hash128> first = tried();
  const std::vector<db::PlanRecord> plans = served();
  const int measured = timer_.kernels_measured;
  const ModelTuning again = tune(16);
  EXPECT_EQ(again.report.search.trials, 16);
  // The first few of each kernel and the three fastest are measured anew, nothing else is.
  const int fresh = tried().size() - first.size();
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
  const std::vector<db::PlanRecord> plans = served();
  ASSERT_EQ(plans.size(), 2U);
  for (const TunedFragment& fragment : tuning.fragments) {
    EXPECT_LT(fragment.kernels.at(0).measurement->median, 12);
    EXPECT_TRUE(std::ranges::any_of(plans, [&](const db::PlanRecord& plan) { return plan.id == fragment.plan.id; }));
  }
}

// Where plans cannot be compared a measured one is served; faster kernels of a later run still take its place.
TEST_F(ModelSearchEmulated, WhatALaterSearchFindsIsTunedAgain) {
  timer_.plans = false;
  (void)tune(0);
  const ModelTuning later = tune(24);
  EXPECT_GE(later.report.search.improved, 1);
  EXPECT_GE(std::ssize(later.fragments), later.report.search.improved) << "and what is not settled";
  for (const TunedFragment& fragment : later.fragments) EXPECT_LT(fragment.kernels.at(0).measurement->median, 12);
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

// ---- one fragment -------------------------------------------------------------------------------------------------

class FragmentSearchEmulated : public ModelSearchEmulated {
 protected:
  std::unique_ptr<RunningService> serve(std::int64_t trials = 0) {
    store_.reset();  // the service has its own
    tuner_ = another_tuner();
    return std::make_unique<RunningService>(
        folder_ / "stitch.db", daemon::RunningOptions{.serve = true, .tuner = tuner_.get(), .fragment_trials = trials});
  }
  /// Of the only kernel of the plan that is served.
  int served_threads(const RunningService& running, const Hash128& fragment) {
    const auto found = running.store->find_plan({fragment, tuner_->target()}, {});
    if (!found || !found->plan) return 0;
    EXPECT_EQ(found->plan->label, db::Label::measured);
    return plan_from_record(*found->plan)->launches.at(0).threads;
  }
  static std::size_t tried_by(const RunningService& running) {
    return running.store->list_candidates({}, {.limit = 1000})->items.size();
  }

  const graph::Graph fragment_ = samples::softmax(4096, 256);
};

TEST_F(FragmentSearchEmulated, TrialsOfASubmissionFindTheFastestKernel) {
  const auto running = serve();
  const auto few = running->service->submit_fragment(fragment_, "softmax");
  ASSERT_EQ(running->wait_for(few->job).state, "done");
  EXPECT_NE(served_threads(*running, *Hash128::from_hex(few->subject)), 512) << "there is nothing to find";
  const std::size_t first = tried_by(*running);
  // It is settled, and yet the search goes on.
  const std::string body = graph::encode(fragment_, graph::Encoding::json);
  const auto reply = raw::request(running->socket, "POST", "/v1/fragments?name=softmax&trials=24", body,
                                  "Content-Type: application/json\r\n");
  ASSERT_EQ(reply.status, 202) << reply.body;
  const auto job = nlohmann::json::parse(reply.body)["job"].get<std::int64_t>();
  ASSERT_EQ(running->wait_for(job).state, "done");
  EXPECT_EQ(served_threads(*running, *Hash128::from_hex(few->subject)), 512);
  EXPECT_GE(tried_by(*running), first + 20);
}

TEST_F(FragmentSearchEmulated, ImprovementsTryAsManyAsTheServiceSays) {
  const auto running = serve(24);
  const auto answer = running->service->lookup({fragment_, "softmax", 600'000, true});
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  ASSERT_TRUE(answer->job);
  ASSERT_EQ(running->wait_for(*answer->job).state, "done");
  EXPECT_EQ(served_threads(*running, answer->fragment), 512);
  EXPECT_GE(tried_by(*running), 20U);
  // Of the two jobs that differ in their trials neither stands for the other.
  const auto none = running->service->submit_fragment(fragment_, "softmax", 0);
  const std::size_t before = tried_by(*running);
  ASSERT_EQ(running->wait_for(none->job).state, "done");
  EXPECT_EQ(tried_by(*running), before) << "settled, and nothing more was asked for";
}

TEST_F(FragmentSearchEmulated, TrialsNeedADeviceThatMeasures) {
  daemon::ServiceOptions options;
  options.fragment_trials = 8;
  const auto refused = daemon::Service::create(*store_, shared_tuner(shared_device()), clock_, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr("8 trials"));
}

}  // namespace
}  // namespace stitch::tuning
