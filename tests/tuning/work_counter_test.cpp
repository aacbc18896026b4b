#include "tuning/kernels/work_counter.h"

#include <gtest/gtest.h>

#include <optional>

#include "db/sqlite_store.h"
#include "tests/base/test_folder.h"
#include "tests/tuning/law_timer.h"
#include "tests/tuning/sample_fragments.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/plans/remembering_tuner.h"

namespace stitch::tuning {
namespace {

TEST(WorkCounterTest, CountsAddUp) {
  WorkCounter work;
  work.count(&WorkCounts::compiled);
  work.count(&WorkCounts::measured, 3);
  WorkCounts all = work.counts();
  EXPECT_EQ(all, (WorkCounts{.compiled = 1, .measured = 3}));
  all += {.compiled = 1, .verified = 2, .measured = 3, .predicted = 4, .tuned = 5};
  EXPECT_EQ(all, (WorkCounts{.compiled = 2, .verified = 2, .measured = 6, .predicted = 4, .tuned = 5}));
}

/// A tuner as a process has one, on a store and an artifact cache that outlive it.
class TunerWorkEmulated : public testing::Test {
 protected:
  struct Process {
    std::unique_ptr<db::Store> store;
    std::unique_ptr<Tuner> tuner;
    std::unique_ptr<RememberingTuner> remembering;

    /// What stitchd does for a fragment that a client asks for.
    void serve(const graph::Graph& fragment) const {
      const auto form = graph::canonicalise(fragment);
      if (!remembering->has_plan(form->key)) {
        const auto predicted = remembering->predict({.fragment = form->graph, .name = "looked up"});
        ASSERT_TRUE(predicted.ok()) << predicted.error().message;
        ASSERT_TRUE(remembering->keep(*predicted).ok());
      }
      if (remembering->is_settled(form->key)) return;
      const auto tuned = remembering->tune({.fragment = form->graph, .name = "tuned"});
      ASSERT_TRUE(tuned.ok()) << tuned.error().message;
      ASSERT_TRUE(remembering->keep(*tuned).ok());
    }
  };
  Process start(const std::string& database) {
    Process process;
    db::SqliteOptions storage;
    storage.path = folder_ / database;
    auto store = db::open_sqlite_store(storage, clock_);
    EXPECT_TRUE(store.ok()) << (store ? "" : store.error().message);
    process.store = *std::move(store);
    TunerOptions options;
    options.artifact_folder = folder_ / "kernels";
    options.verify.distributions.resize(1);
    auto tuner = Tuner::create(options, shared_device(), &timer_, files_, clock_);
    EXPECT_TRUE(tuner.ok()) << (tuner ? "" : tuner.error().message);
    process.tuner = *std::move(tuner);
    process.remembering = *RememberingTuner::open(*process.store, *process.tuner, clock_);
    return process;
  }

  const TestFolder folder_;
  SystemClock clock_;
  RealFileSystem files_;
  LawTimer timer_;
};

TEST_F(TunerWorkEmulated, WhatIsStoredCostsNoneOfIt) {
  const graph::Graph fragment = samples::softmax(8, 64);
  const Process cold = start("stitch.db");
  EXPECT_EQ(cold.tuner->work(), WorkCounts());
  cold.serve(fragment);
  const WorkCounts work = cold.tuner->work();
  EXPECT_GT(work.compiled, 0);
  EXPECT_GT(work.verified, 0);
  EXPECT_GT(work.measured, timer_.kernels_measured) << "the plan, too";
  EXPECT_EQ(work.predicted, 1);
  EXPECT_EQ(work.tuned, 1);

  const Process warm = start("stitch.db");
  warm.serve(fragment);
  EXPECT_EQ(warm.tuner->work(), WorkCounts());

  // Without the store all is done again, but for what the compiler made.
  const Process other = start("other.db");
  other.serve(fragment);
  const WorkCounts again = other.tuner->work();
  EXPECT_EQ(again.compiled, 0);
  EXPECT_EQ(again.verified, work.verified);
  EXPECT_EQ(again.measured, work.measured);
  EXPECT_EQ(again.predicted, 1);
  EXPECT_EQ(again.tuned, 1);
}

}  // namespace
}  // namespace stitch::tuning
