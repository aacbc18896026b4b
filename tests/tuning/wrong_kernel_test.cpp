#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "db/sqlite_store.h"
#include "graph/canonical.h"
#include "tests/base/test_folder.h"
#include "tests/tuning/breaking_device.h"
#include "tests/tuning/sample_fragments.h"
#include "tuning/plans/remembering_tuner.h"

// What a wrong kernel costs: its candidate, then the fusion that it came from, and the fragment its plan only when
// nothing is left. The device breaks what it loads, as a wrong emitter would; everything else is the real thing.
namespace stitch::tuning {
namespace {

/// An exponential with anything that is summed up or divided beside it.
bool has_fused_exponential(const std::string& ptx) {
  return has_exponential(ptx) &&
         (ptx.find("add.f32") != std::string::npos || ptx.find("add.ftz.f32") != std::string::npos ||
          ptx.find("div.") != std::string::npos);
}

class WrongKernelEmulated : public testing::Test {
 protected:
  WrongKernelEmulated() {
    db::SqliteOptions storage;
    storage.path = folder_ / "stitch.db";
    store_ = *db::open_sqlite_store(storage, clock_);
    graph_ = graph::canonicalise(samples::softmax(64, 512))->graph;
    key_ = graph::canonicalise(graph_)->key;
    TunerOptions options;
    options.verify.distributions.resize(1);
    options.verify.seed = 77;
    options.stitch.keep = 3;
    tuner_ = *Tuner::create(options, device_, nullptr, files_, clock_);
    memory_ = *RememberingTuner::open(*store_, *tuner_, clock_);
  }

  std::map<db::Outcome, int> outcomes() {
    std::map<db::Outcome, int> counts;
    const auto listed = store_->list_candidates({.fragment = key_}, {.limit = 1000});
    EXPECT_TRUE(listed.ok());
    for (const db::Candidate& candidate : listed->items) {
      ++counts[candidate.outcome];
      EXPECT_EQ(candidate.seed, 77U) << "the inputs can be made again";
      if (candidate.outcome == db::Outcome::correctness) {
        EXPECT_THAT(candidate.detail, testing::HasSubstr("instead of"));
      }
    }
    return counts;
  }
  void expect_right(const TunedFragment& tuned) {
    for (const KernelReport& kernel : tuned.kernels) {
      ASSERT_TRUE(kernel.verification);
      EXPECT_TRUE(kernel.verification->correct);
      EXPECT_FALSE(device_.breaks(ptx_of(tuned, kernel)));
    }
    EXPECT_GT(tuned.plan.verified_share, 0);
    EXPECT_TRUE(memory_->is_settled(key_));
    EXPECT_EQ(tuned.plan.launches.size(), tuned.kernels.size());
  }
  static std::string ptx_of(const TunedFragment& tuned, const KernelReport& kernel) {
    for (const db::Artifact& artifact : tuned.bundle.artifacts) {
      if (artifact.kind == db::Artifact::Kind::ptx && artifact.bytes.find(kernel.name) != std::string::npos)
        return artifact.bytes;
    }
    ADD_FAILURE() << "no PTX of " << kernel.name;
    return {};
  }

  TestFolder folder_;
  SystemClock clock_;
  RealFileSystem files_;
  BreakingDevice device_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<Tuner> tuner_;
  std::unique_ptr<RememberingTuner> memory_;
  graph::Graph graph_;
  Hash128 key_;
};

TEST_F(WrongKernelEmulated, CostsItsCandidateFirst) {
  std::mutex mutex;
  std::set<std::string> seen;
  device_.breaks = [&](const std::string& ptx) {
    const std::lock_guard lock(mutex);
    if (seen.empty()) seen.insert(ptx);
    return seen.contains(ptx);
  };
  const auto tuned = memory_->tune({.fragment = graph_, .name = "softmax"});
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  ASSERT_TRUE(memory_->keep(*tuned).ok());
  expect_right(*tuned);
  EXPECT_EQ(tuned->kernels.size(), 1U) << "the fusion stays";
  EXPECT_EQ(outcomes()[db::Outcome::correctness], 1);
  EXPECT_EQ(outcomes()[db::Outcome::correct], 1);
}

TEST_F(WrongKernelEmulated, CostsThenItsFusion) {
  device_.breaks = has_fused_exponential;
  const auto tuned = memory_->tune({.fragment = graph_, .name = "softmax"});
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  ASSERT_TRUE(memory_->keep(*tuned).ok());
  expect_right(*tuned);
  EXPECT_GT(tuned->kernels.size(), 1U);
  EXPECT_GE(outcomes()[db::Outcome::correctness], 3) << "all candidates of the one kernel that fuses everything";
  // The plan that was predicted is wrong: what is known of its kernel is not forgotten, and it is not served again.
  const auto predicted = tuner_->predict({.fragment = graph_, .name = "softmax"});
  ASSERT_TRUE(predicted.ok()) << predicted.error().message;
  EXPECT_GT(predicted->plan.launches.size(), 1U);
}

TEST_F(WrongKernelEmulated, CostsTheFragmentOnlyWhenNothingIsLeft) {
  device_.breaks = has_exponential;
  int told = 0;
  const auto failed = [&](const db::FragmentRecord& fragment, const TrialRecords& trials) {
    ++told;
    EXPECT_EQ(fragment.key, key_);
    EXPECT_FALSE(trials.candidates.empty());
  };
  const auto tuned = memory_->tune({.fragment = graph_, .name = "softmax", .failed = failed});
  ASSERT_FALSE(tuned.ok());
  EXPECT_EQ(tuned.error().kind, ErrorKind::correctness) << tuned.error().message;
  EXPECT_THAT(tuned.error().message, testing::AllOf(testing::HasSubstr("kernel "), testing::HasSubstr("instead of")));
  EXPECT_EQ(told, 1);
  EXPECT_GE(outcomes()[db::Outcome::correctness], 3) << "kept although there is no plan";
  EXPECT_FALSE(memory_->is_settled(key_));
}

}  // namespace
}  // namespace stitch::tuning
