#include "tuning/kernels/kernel_history.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "db/sqlite_store.h"
#include "graph/canonical.h"
#include "tests/base/test_folder.h"
#include "tests/tuning/law_timer.h"
#include "tests/tuning/sample_fragments.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/plans/remembering_tuner.h"

// What was measured of one fragment, and what it does for others like it: another shape, another GPU.
namespace stitch::tuning {
namespace {

class KernelHistoryEmulated : public testing::Test {
 protected:
  KernelHistoryEmulated() {
    db::SqliteOptions storage;
    storage.path = folder_ / "stitch.db";
    store_ = *db::open_sqlite_store(storage, clock_);
  }

  void plan_for(const std::string& target, KernelTimer* timer) {
    TunerOptions options;
    options.target = target;
    options.verify.distributions.resize(1);
    options.measured_candidates = 2;
    options.compiled_candidates = 2;
    options.search.space = {.candidates = 150, .combinations = 16};
    auto made = Tuner::create(options, shared_device(), timer, files_, clock_);
    ASSERT_TRUE(made.ok()) << made.error().message;
    tuned_.reset();
    tuner_ = *std::move(made);
    tuned_ = *RememberingTuner::open(*store_, *tuner_, clock_);
  }

  /// Tunes and searches a fragment for an H100 on which blocks are the better the nearer they are to 512 threads; the
  /// plan that is served then.
  db::PlanRecord measure(const graph::Graph& fragment) {
    plan_for("h100", &timer_);
    const auto form = graph::canonicalise(fragment);
    const auto plan = tuner_->explore(form->graph);
    const auto described = tuner_->describe(form->graph, "measured");
    for (const search::PlannedKernel& kernel : plan->kernels) {
      const auto found = tuner_->search({.kernel = kernel.kernel, .fragment = form->key, .trials = 16});
      EXPECT_TRUE(found.ok() && tuned_->keep(*described, found->records).ok());
    }
    fastest_ = keep(tuned_->tune({.fragment = form->graph, .name = "measured"})).plan.launches.at(0).threads;
    return *store_->find_plan({form->key, tuner_->target()}, {})->plan;
  }
  TunedFragment keep(const Result<TunedFragment>& tuned) {
    EXPECT_TRUE(tuned.ok()) << (tuned ? "" : tuned.error().message);
    if (!tuned) return {};
    const Status kept = tuned_->keep(*tuned);
    EXPECT_TRUE(kept.ok()) << kept.error().message;
    return *tuned;
  }
  TunedFragment predict(const graph::Graph& fragment) {
    return keep(tuned_->predict({.fragment = graph::canonicalise(fragment)->graph, .name = "looked up"}));
  }

  TestFolder folder_;
  SystemClock clock_;
  RealFileSystem files_;
  LawTimer timer_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<Tuner> tuner_;
  std::unique_ptr<RememberingTuner> tuned_;
  int fastest_ = 0;  ///< threads of the plan that measure() ended with
};

TEST_F(KernelHistoryEmulated, AnotherShapeIsPlannedByWhatWasMeasured) {
  plan_for("h100", nullptr);
  const graph::Graph other = samples::softmax(128, 256);
  const auto form = graph::canonicalise(other);
  const auto blind = tuner_->predict({.fragment = form->graph, .name = "nothing is known"});
  ASSERT_TRUE(blind.ok());
  EXPECT_EQ(blind->plan.label, "predicted");
  const db::PlanRecord neighbour = measure(samples::softmax(64, 512));
  ASSERT_EQ(neighbour.label, db::Label::measured);
  ASSERT_LT(blind->plan.launches.at(0).threads, fastest_) << "else nothing can be learned";
  plan_for("h100", nullptr);
  const TunedFragment near = predict(other);
  EXPECT_EQ(near.plan.label, "near");
  EXPECT_EQ(near.plan.launches.at(0).threads, fastest_);
  const db::Lookup served = *store_->find_plan({form->key, tuner_->target()}, {});
  ASSERT_TRUE(served.plan);
  EXPECT_EQ(served.plan->label, db::Label::near);
  EXPECT_EQ(served.plan->neighbour, neighbour.id);
  EXPECT_EQ(served.plan->verified_share, 0);

  // Verified it is as near as before; measured, it is no longer.
  const TunedFragment verified = keep(tuned_->tune({.fragment = form->graph, .name = "verified"}));
  EXPECT_EQ(verified.plan.label, "near");
  EXPECT_EQ(verified.plan.id, near.plan.id);
  EXPECT_EQ(store_->find_plan({form->key, tuner_->target()}, {})->plan->verified_share, 1);
  EXPECT_TRUE(tuned_->is_settled(form->key));
  plan_for("h100", &timer_);
  EXPECT_FALSE(tuned_->is_settled(form->key));
  const TunedFragment measured = keep(tuned_->tune({.fragment = form->graph, .name = "measured"}));
  EXPECT_EQ(measured.plan.label, "measured");
}

TEST_F(KernelHistoryEmulated, NothingIsLearnedFromWarmL2) {
  const graph::Graph fragment = samples::softmax(64, 512), other = samples::softmax(128, 256);
  for (const bool cold : {false, true}) {
    timer_.cold_l2 = cold;
    ASSERT_EQ(measure(fragment).label, db::Label::measured);
    const auto form = graph::canonicalise(fragment);
    const auto known =
        FragmentHistory::read(*store_, {form->key, tuner_->target()}, form->family_key, timer_.identity().key);
    ASSERT_TRUE(known.ok()) << known.error().message;
    const auto plan = tuner_->explore(form->graph);
    for (const search::PlannedKernel& kernel : plan->kernels)
      EXPECT_EQ(known->of(kernel.kernel->key, {}).own.empty(), !cold);
    plan_for("h100", nullptr);
    EXPECT_EQ(tuned_->predict({.fragment = graph::canonicalise(other)->graph})->plan.label,
              cold ? "near" : "predicted");
  }
}

TEST_F(KernelHistoryEmulated, AnotherGpuIsPlannedByWhatWasMeasured) {
  const db::PlanRecord neighbour = measure(samples::softmax(64, 512));
  // Another entry of the table, a variant of the same GPU, a slice of it.
  for (const char* const target : {"a100", "h100-pcie", "h100~sm60-l2.25600-gbs1676-mig3g.40gb"}) {
    SCOPED_TRACE(target);
    plan_for(target, nullptr);
    const TunedFragment near = predict(samples::softmax(64, 512));
    EXPECT_EQ(near.plan.target.device, target);
    EXPECT_EQ(near.plan.label, "near");
    EXPECT_EQ(near.bundle.plan.neighbour, neighbour.id);
    EXPECT_EQ(near.plan.launches.at(0).threads, fastest_);
    EXPECT_TRUE(near.plan.judged.find(neighbour.id.hex()) != std::string::npos) << near.plan.judged;
  }
}

// After an upgrade: what was measured stays served until its like is measured, not only verified.
TEST_F(KernelHistoryEmulated, WhatAnotherVersionMeasuredStaysUntilItIsMeasuredAgain) {
  const graph::Graph fragment = samples::softmax(64, 512);
  const Hash128 key = graph::canonicalise(fragment)->key;
  db::PlanBundle old = *store_->get_plan_bundle(measure(fragment).id);
  const db::FragmentRecord record = *store_->get_fragment(key);
  const std::vector<db::Device> devices = *store_->list_devices();
  old.plan.key.target.version = "0.0.9-0123456789ab";
  tuned_.reset();
  db::SqliteOptions storage;
  storage.path = folder_ / "upgraded.db";
  store_ = *db::open_sqlite_store(storage, clock_);
  for (const db::Device& device : devices) ASSERT_TRUE(store_->put_device(device).ok());
  ASSERT_TRUE(store_->put_fragment(record).ok());
  const auto put = store_->put_plan(old, db::Admission::replace);
  ASSERT_TRUE(put.ok()) << put.error().message;

  plan_for("h100", nullptr);
  const auto before = tuned_->stale(key, nullptr);
  ASSERT_TRUE(before.ok() && *before);
  EXPECT_EQ((*before)->id, put->id);
  EXPECT_EQ((*before)->label, "measured");
  EXPECT_EQ((*before)->target.version, "0.0.9-0123456789ab");
  const TunedFragment verified = keep(tuned_->tune({.fragment = graph::canonicalise(fragment)->graph}));
  EXPECT_GT(verified.plan.verified_share, 0);
  const auto still = tuned_->stale(key, &verified.plan);
  ASSERT_TRUE(still.ok() && *still) << "verified is less than measured";
  EXPECT_EQ((*still)->id, put->id);

  plan_for("h100", &timer_);
  const TunedFragment measured = keep(tuned_->tune({.fragment = graph::canonicalise(fragment)->graph}));
  EXPECT_EQ(measured.plan.label, "measured");
  const auto after = tuned_->stale(key, &measured.plan);
  ASSERT_TRUE(after.ok());
  EXPECT_FALSE(*after);
}

TEST_F(KernelHistoryEmulated, StrangersStayPredicted) {
  (void)measure(samples::softmax(64, 512));
  plan_for("h100", nullptr);
  EXPECT_EQ(predict(samples::scaled_difference(4096)).plan.label, "predicted");
}

TEST_F(KernelHistoryEmulated, OwnTrialsAndNeighboursAreToldApart) {
  const auto form = graph::canonicalise(samples::softmax(64, 512));
  const db::PlanRecord plan = measure(form->graph);
  const auto kernel = tuner_->explore(form->graph)->kernels.at(0).kernel;
  const Hash128 family = graph::canonicalise(kernel->graph)->family_key;
  const auto here = FragmentHistory::read(*store_, plan.key, form->family_key, "GPU-law");
  ASSERT_TRUE(here.ok()) << here.error().message;
  const KernelHistory own = here->of(kernel->key, family);
  EXPECT_EQ(own.own.size(), 18U) << "the first two, and sixteen";
  EXPECT_TRUE(own.near.empty());
  EXPECT_TRUE(std::ranges::all_of(own.own, [](const KnownTrial& trial) { return trial.outcome.time_us >= 10; }));
  // Times of another device are not the kernel's own.
  const auto elsewhere = FragmentHistory::read(*store_, plan.key, form->family_key, "GPU-other");
  EXPECT_TRUE(elsewhere->of(kernel->key, family).own.empty());
  db::PlanKey other = plan.key;
  other.target.device = "a100";
  const auto there = FragmentHistory::read(*store_, other, form->family_key, "GPU-law");
  const KernelHistory near = there->of(kernel->key, family);
  EXPECT_TRUE(near.own.empty());
  ASSERT_EQ(near.near.size(), 18U);
  EXPECT_EQ(near.near[0].plan, plan.id);
  EXPECT_GT(near.near[0].analytical_us, 0);
}

}  // namespace
}  // namespace stitch::tuning
