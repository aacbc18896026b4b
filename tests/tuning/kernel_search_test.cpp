#include "tuning/kernels/kernel_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "codegen/compile/compiler.h"
#include "costmodel/analytical.h"
#include "graph/canonical.h"
#include "kernel/program/schedule_hash.h"
#include "tests/base/test_folder.h"
#include "tests/tuning/law_timer.h"
#include "tests/tuning/sample_fragments.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/kernels/training_samples.h"

// Searching the wide space of a kernel: its candidates are really generated, compiled and verified, and take what a
// made-up law says.
namespace stitch::tuning {
namespace {

using testing::ElementsAre;

class KernelSearchOf : public testing::Test {
 protected:
  KernelSearchOf() : kernel_(search::KernelCache(scorer_, {.keep = 3}).explore(samples::softmax(64, 512))->kernel) {
    options_.space = {.candidates = 150, .combinations = 16};
    options_.batch = 4;
  }
  std::unique_ptr<KernelSearch> make(const KernelHistory& history = {}) {
    auto made = KernelSearch::create(kernel_, scorer_, options_, history);
    EXPECT_TRUE(made.ok()) << (made ? "" : made.error().message);
    return *std::move(made);
  }
  std::vector<search::StitchCandidate> space() {
    return (*kernel_space(kernel_->graph, kernel_->key, scorer_, options_.space)).kernel->candidates;
  }
  static Trial measured(const KernelCandidate& candidate, double us) {
    BuiltKernel built;
    built.candidate = candidate;
    built.measurement = series(us, 0, 1);
    return {candidate, std::make_shared<const BuiltKernel>(built), {}};
  }
  static Hash128 name_of(const search::StitchCandidate& candidate) { return kernel::schedule_hash(candidate.schedule); }

  const DeviceSpec device_ = *find_device("h100");
  const costmodel::AnalyticalScorer scorer_{device_};
  const search::SharedKernel kernel_;
  KernelSearchOptions options_;
};

TEST_F(KernelSearchOf, BeginsWithTheBestPredictions) {
  std::vector<search::StitchCandidate> all = space();
  std::ranges::stable_sort(all, {}, &search::StitchCandidate::predicted_us);
  const auto search = make();
  EXPECT_EQ(search->size(), all.size());
  const auto batch = search->propose(100);
  ASSERT_EQ(batch.size(), 4U);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(batch[i].scheduled->predicted_us, all[i].predicted_us);
    EXPECT_EQ(batch[i].kernel, kernel_);
  }
  EXPECT_EQ(search->propose(1).size(), 1U);
}

TEST_F(KernelSearchOf, OnlyWhatCanBeMeasuredIsProposed) {
  const auto all = space();
  LawTimer timer;
  for (std::size_t i = 0; i < all.size(); i += 10) timer.recorded.insert(name_of(all[i]));
  const auto search = *KernelSearch::create(kernel_, scorer_, options_, {}, &timer);
  EXPECT_EQ(search->size(), timer.recorded.size());
  for (const KernelCandidate& candidate : search->propose(4))
    EXPECT_TRUE(timer.recorded.contains(name_of(*candidate.scheduled)));
  timer.recorded = {Hash128{1, 2}};
  const auto none = KernelSearch::create(kernel_, scorer_, options_, {}, &timer);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message, "law can measure none of its 150 candidates");
}

TEST_F(KernelSearchOf, NothingIsProposedTwiceAndTheSpaceEnds) {
  const auto search = make();
  std::set<Hash128> seen;
  for (auto batch = search->propose(7); !batch.empty(); batch = search->propose(7)) {
    for (const KernelCandidate& candidate : batch) {
      EXPECT_TRUE(seen.insert(name_of(*candidate.scheduled)).second);
      search->observe(measured(candidate, by_threads(*candidate.scheduled)));
    }
  }
  EXPECT_EQ(seen.size(), search->size());
}

TEST_F(KernelSearchOf, TheFastestOfAnEarlierRunAreTriedFirstAndNothingElseOfItAgain) {
  const auto all = space();
  KernelHistory history;
  for (std::size_t i = 0; i < 6; ++i) history.own.push_back({name_of(all[i]), {10.0 - static_cast<double>(i), {}}});
  history.own.push_back({name_of(all[6]), {0, ErrorKind::timeout}});
  history.own.push_back({Hash128{1, 2}, {1.0, {}}});  // not in the space
  const auto search = make(history);
  std::vector<Hash128> first;
  for (const KernelCandidate& candidate : search->propose(8)) first.push_back(name_of(*candidate.scheduled));
  EXPECT_THAT(first, ElementsAre(name_of(all[5]), name_of(all[4]), name_of(all[3])));
  std::set<Hash128> later;
  for (auto batch = search->propose(8); !batch.empty(); batch = search->propose(8)) {
    for (const KernelCandidate& candidate : batch) {
      later.insert(name_of(*candidate.scheduled));
      search->observe(measured(candidate, 5));
    }
  }
  EXPECT_EQ(later.size(), search->size() - 7);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_FALSE(later.contains(name_of(all[i]))) << i;
}

/// Measured neighbours that take what the law says show which candidates are fast here, whatever is predicted.
TEST_F(KernelSearchOf, NeighboursCorrectThePredictions) {
  const auto near_form = graph::canonicalise(samples::softmax(128, 256));
  const auto near_space = kernel_space(near_form->graph, near_form->key, scorer_, options_.space);
  KernelHistory history;
  for (const search::StitchCandidate& candidate : near_space->kernel->candidates) {
    const CandidateRow row = candidate_row(near_form->graph, candidate, device_, nullptr);
    history.near.push_back({name_of(candidate), {by_threads(candidate), {}}, row.analytical_us, row.features});
  }
  const auto mean_of_first = [&](const KernelHistory& known) {
    double sum = 0;
    const auto batch = make(known)->propose(4);
    for (const KernelCandidate& candidate : batch) sum += by_threads(*candidate.scheduled);
    return sum / static_cast<double>(batch.size());
  };
  const double with = mean_of_first(history), without = mean_of_first({});
  EXPECT_LT(with, 0.8 * without);
  EXPECT_LT(with, 15) << "512 threads take 11 and more, 256 and 1024 take 21";
  // Those that say nothing change nothing.
  for (KnownTrial& trial : history.near) trial.features.clear();
  EXPECT_EQ(mean_of_first(history), without);
}

class KernelSearchEmulated : public KernelSearchOf {
 protected:
  KernelSearchEmulated() {
    static const auto compiler = codegen::NvrtcCompiler::create();
    WorkshopOptions making;
    making.architecture = "sm_90a";
    making.verify.distributions.resize(1);
    making.measured_candidates = 2;
    making.compiled_candidates = 2;
    making.machine_code = false;
    workshop_ = std::make_unique<KernelWorkshop>(**compiler, shared_device(), &timer_, device_, making);
  }
  SearchOutcome search(int trials, std::stop_token stop = {}) {
    const auto searching = make();
    auto found = search_kernel(*workshop_, kernel_, *searching, trials, stop, {});
    EXPECT_TRUE(found.ok()) << (found ? "" : found.error().message);
    return found.value_or({});
  }

  LawTimer timer_;
  std::unique_ptr<KernelWorkshop> workshop_;
};

TEST_F(KernelSearchEmulated, FindsWhatPredictionsMiss) {
  double fastest = 1e9;
  for (const search::StitchCandidate& candidate : space()) fastest = std::min(fastest, by_threads(candidate));
  const SearchOutcome found = search(24);
  EXPECT_EQ(found.trials.size(), 24U);
  EXPECT_TRUE(found.changed);
  EXPECT_TRUE(found.in_us);
  EXPECT_GT(found.before, 1.3 * fastest) << "else there is nothing to find";
  EXPECT_LT(found.after, 1.05 * fastest);
  const std::vector<Trial> known = workshop_->measure(kernel_).all();
  EXPECT_LT(known.size(), 10U) << "the first two, and each that was the fastest for a while";
  EXPECT_EQ(known.back().built->measurement->median, found.after);
  EXPECT_FALSE(known.back().built->compiled.cubin.empty());
  for (std::size_t i = 0; i + 1 < known.size(); ++i) {
    EXPECT_TRUE(known[i].built->verification->correct);
    EXPECT_LT(found.after, known[i].built->measurement->median * 1.02);
  }
  for (const Trial& trial : found.trials) {
    EXPECT_TRUE(trial.built->compiled.cubin.empty()) << "nobody launches it again";
    EXPECT_LT(found.after, trial.built->measurement->median * 1.02);
  }
  EXPECT_EQ(workshop_->build(kernel_).best->candidate.scheduled, known.back().candidate.scheduled);
}

TEST_F(KernelSearchEmulated, FailuresAreTrials) {
  timer_.law = [](const search::StitchCandidate& candidate) -> Result<double> {
    if (candidate.schedule.threads < 256) return make_error(ErrorKind::timeout, "no end after 20 s");
    return by_threads(candidate);
  };
  const SearchOutcome found = search(12);
  EXPECT_EQ(found.trials.size(), 12U);
  EXPECT_EQ(found.failed,
            std::ranges::count_if(found.trials, [](const Trial& trial) { return trial.failure.has_value(); }));
  EXPECT_GT(found.failed, 0);
  EXPECT_GE(workshop_->measure(kernel_).best->candidate.scheduled->schedule.threads, 256);
}

TEST_F(KernelSearchEmulated, AStopKeepsWhatWasTried) {
  std::stop_source stop;
  const auto searching = make();
  const auto found =
      search_kernel(*workshop_, kernel_, *searching, 100, stop.get_token(), [&](int) { stop.request_stop(); });
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->trials.size(), 4U) << "a batch";
  EXPECT_EQ(search(0).trials.size(), 0U);
}

TEST_F(KernelSearchEmulated, ADeviceThatIsGoneEndsTheSearch) {
  (void)workshop_->measure(kernel_);
  timer_.law = [](const search::StitchCandidate&) -> Result<double> {
    return make_error(ErrorKind::unavailable, "no device");
  };
  const SearchOutcome found = search(100);
  EXPECT_EQ(found.trials.size(), 4U) << "a batch";
  EXPECT_EQ(found.failed, 0);
  EXPECT_FALSE(found.changed);
}

TEST_F(KernelSearchEmulated, WithoutATimerThereIsNothingToSearchBy) {
  static const auto compiler = codegen::NvrtcCompiler::create();
  KernelWorkshop blind(**compiler, shared_device(), nullptr, device_, {});
  const auto searching = make();
  EXPECT_EQ(search_kernel(blind, kernel_, *searching, 4, {}, {}).error().kind, ErrorKind::unavailable);
}

}  // namespace
}  // namespace stitch::tuning
