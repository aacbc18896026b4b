#include "search/trials/trial_search.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

namespace stitch::search {
namespace {

using testing::HasSubstr;

/// A made-up kernel with 16 · 5 · 4 · 4 · 2 = 2,560 configurations: fast where the tile fits the block and rows are
/// aligned; too many threads do not run.
struct Kernel {
  CandidateSpace space;
  std::vector<TrialOutcome> outcomes;
  double fastest_us = 1e300;
};

double time_of(double x, double y, double tile_x, double tile_y, bool shared, double shift) {
  const double threads = x * y;
  double us = 100 * (1 + 0.3 * std::abs(std::log2(threads / 256)) + 0.25 * std::abs(tile_x * tile_y - 6 - shift));
  if (std::fmod(x, 32) != 0) us *= 1.4;
  if (shared) us *= tile_x > 2 ? 1.3 : 0.7;
  return us;
}

Kernel make_kernel(double shift = 0) {
  std::vector<Parameter> parameters = {{"x", {}},
                                       {"y", {1.0, 2.0, 4.0, 8.0, 16.0}},
                                       {"tile_x", {1.0, 2.0, 3.0, 4.0}},
                                       {"tile_y", {1.0, 2.0, 3.0, 4.0}},
                                       {"shared", {0.0, 1.0}}};
  for (int x = 16; x <= 256; x += 16) parameters[0].values.emplace_back(static_cast<double>(x));
  std::vector<std::vector<std::uint16_t>> rows;
  Kernel kernel;
  for (std::uint16_t i = 0; i < 2560; ++i) {
    const auto a = static_cast<std::uint16_t>(i / 160), b = static_cast<std::uint16_t>(i / 32 % 5);
    const auto c = static_cast<std::uint16_t>(i / 8 % 4), d = static_cast<std::uint16_t>(i / 2 % 4);
    rows.push_back({a, b, c, d, static_cast<std::uint16_t>(i % 2)});
    const double x = 16.0 * (a + 1), y = std::exp2(b);
    TrialOutcome outcome{time_of(x, y, c + 1, d + 1, i % 2 == 1, shift), std::nullopt};
    if (x * y > 1024) outcome = {0, ErrorKind::runtime};
    if (!outcome.failure) kernel.fastest_us = std::min(kernel.fastest_us, outcome.time_us);
    kernel.outcomes.push_back(outcome);
  }
  auto space = CandidateSpace::from_parameters(std::move(parameters), rows);
  EXPECT_TRUE(space.ok());
  kernel.space = std::move(*space);
  return kernel;
}

const Kernel& kernel() {
  static const Kernel one = make_kernel();
  return one;
}

struct Walk {
  std::vector<Proposal> proposals;
  double found = 0;  ///< relative to the fastest
  std::size_t failures = 0;
};

Walk walk(const Kernel& on, const TrialSearchOptions& options, std::size_t trials,
          const TransferPrior* prior = nullptr) {
  TrialSearch search(on.space, options, prior);
  Walk walked;
  while (walked.proposals.size() < trials) {
    const std::vector<Proposal> batch = search.propose();
    if (batch.empty()) break;
    for (const Proposal& proposal : batch) {
      const TrialOutcome& outcome = on.outcomes[proposal.candidate];
      EXPECT_TRUE(search.observe(proposal.candidate, outcome).ok());
      walked.failures += outcome.failure ? 1 : 0;
      walked.proposals.push_back(proposal);
    }
  }
  if (search.best()) walked.found = on.fastest_us / search.best()->time_us;
  return walked;
}

TrialSearchOptions seeded(std::uint64_t seed) {
  TrialSearchOptions options;
  options.seed = seed;
  return options;
}

std::size_t count(const Walk& walked, ProposalReason reason) {
  return static_cast<std::size_t>(std::ranges::count(walked.proposals, reason, &Proposal::reason));
}

TEST(TrialSearch, BeatsRandomByFar) {
  double model = 0, random = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    TrialSearchOptions blind = seeded(seed);
    blind.random = true;
    model += walk(kernel(), seeded(seed), 64).found / 5;
    random += walk(kernel(), blind, 64).found / 5;
  }
  EXPECT_GT(model, 0.98);
  EXPECT_LT(random, 0.9);
}

TEST(TrialSearch, SaysWhyACandidateIsTried) {
  const Walk walked = walk(kernel(), seeded(3), 80);
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(walked.proposals[i].reason, ProposalReason::initial);
  EXPECT_EQ(count(walked, ProposalReason::initial), 15U);
  EXPECT_GT(count(walked, ProposalReason::expected_improvement), 10U);
  EXPECT_GT(count(walked, ProposalReason::exploration), 5U);
}

TEST(TrialSearch, IsDeterminedByItsSeed) {
  EXPECT_EQ(walk(kernel(), seeded(5), 60).proposals, walk(kernel(), seeded(5), 60).proposals);
  EXPECT_NE(walk(kernel(), seeded(5), 60).proposals, walk(kernel(), seeded(6), 60).proposals);
}

// Once the best is found little is left to gain, and what is least known is what fails: the search must not go there.
TEST(TrialSearch, LearnsWhereCandidatesFail) {
  const std::size_t failing =
      std::ranges::count_if(kernel().outcomes, [](const auto& o) { return o.failure.has_value(); });
  ASSERT_GE(failing, kernel().outcomes.size() / 4);
  std::size_t failures = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Walk walked = walk(kernel(), seeded(seed), 100);
    for (std::size_t i = 50; i < 100; ++i) failures += kernel().outcomes[walked.proposals[i].candidate].failure ? 1 : 0;
  }
  EXPECT_LT(failures, 4 * 50 / 10);  // of trials at random a quarter would fail
}

/// 4 · 31 · 11 configurations, as pnpoly has: methods are good for as long as their tiles fit a cache, the best of them
/// where the others end; the block size makes little difference, but each its own.
Kernel make_plateaus() {
  std::vector<Parameter> parameters = {{"method", {0.0, 1.0, 2.0, 3.0}}, {"block", {}}, {"tile", {}}};
  for (int block = 32; block <= 992; block += 32) parameters[1].values.emplace_back(static_cast<double>(block));
  for (int tile = 0; tile <= 20; tile += 2) parameters[2].values.emplace_back(std::max(1.0, static_cast<double>(tile)));
  std::vector<std::vector<std::uint16_t>> rows;
  Kernel kernel;
  for (std::uint16_t i = 0; i < 4 * 31 * 11; ++i) {
    const auto method = static_cast<std::uint16_t>(i / 341), block = static_cast<std::uint16_t>(i / 11 % 31);
    const auto tile = static_cast<std::uint16_t>(i % 11);
    rows.push_back({method, block, tile});
    double us = 100 + 200.0 / (tile + 1) + 0.3 * static_cast<double>(mix(block, method) % 5);
    if (method == 2 && tile < 9) us += 25;
    if (method == 2 && tile >= 9) us -= 25;
    kernel.fastest_us = std::min(kernel.fastest_us, us);
    kernel.outcomes.push_back({us, std::nullopt});
  }
  auto space = CandidateSpace::from_parameters(std::move(parameters), rows);
  EXPECT_TRUE(space.ok());
  kernel.space = std::move(*space);
  return kernel;
}

TEST(TrialSearch, DoesNotTryVariantsOfTheBestOneByOne) {
  const Kernel plateaus = make_plateaus();
  int searches = 0, that_chase_any_gain = 0;  // of 20 that find the best method
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TrialSearchOptions any_gain = seeded(seed);
    any_gain.improvement = 0;
    searches += walk(plateaus, seeded(seed), 60).found > 0.9 ? 1 : 0;
    that_chase_any_gain += walk(plateaus, any_gain, 60).found > 0.9 ? 1 : 0;
  }
  EXPECT_GE(searches, 17);
  EXPECT_LE(that_chase_any_gain, 14) << "the plateaus are too easy to tell anything";
}

TEST(TrialSearch, BatchesNeitherRepeatNorCluster) {
  TrialSearchOptions options = seeded(2);
  options.batch = 8;
  const Walk walked = walk(kernel(), options, 96);
  std::set<std::size_t> distinct;
  for (const Proposal& proposal : walked.proposals) distinct.insert(proposal.candidate);
  EXPECT_EQ(distinct.size(), walked.proposals.size());
  EXPECT_GT(walked.found, 0.95);
}

/// 16 · 8 · 2 · 2 configurations, as a convolution has: without shared memory everything is slow unless it is read in
/// the other way, too; then it is faster than all else. One switch at a time only makes it worse.
Kernel make_switches() {
  std::vector<Parameter> parameters = {{"block", {}}, {"tile", {}}, {"shared", {0.0, 1.0}}, {"read_only", {0.0, 1.0}}};
  for (int block = 16; block <= 256; block += 16) parameters[0].values.emplace_back(static_cast<double>(block));
  for (int tile = 1; tile <= 8; ++tile) parameters[1].values.emplace_back(static_cast<double>(tile));
  std::vector<std::vector<std::uint16_t>> rows;
  Kernel kernel;
  for (std::uint16_t i = 0; i < 512; ++i) {
    const auto block = static_cast<std::uint16_t>(i / 32), tile = static_cast<std::uint16_t>(i / 4 % 8);
    const auto shared = static_cast<std::uint16_t>(i / 2 % 2), read_only = static_cast<std::uint16_t>(i % 2);
    rows.push_back({block, tile, shared, read_only});
    const bool direct = shared == 0 && read_only == 0;
    double us = 100 + (direct ? 60 : 8) * std::abs(tile - 5) + (direct ? 20 : 2) * std::abs(block - 3);
    if (direct) us -= 25;
    if (shared == 0 && read_only == 1) us *= 3;
    if (shared == 1 && read_only == 0) us *= 1.05;
    kernel.fastest_us = std::min(kernel.fastest_us, us);
    kernel.outcomes.push_back({us, std::nullopt});
  }
  auto space = CandidateSpace::from_parameters(std::move(parameters), rows);
  EXPECT_TRUE(space.ok());
  kernel.space = std::move(*space);
  return kernel;
}

TEST(TrialSearch, TriesTheFastestWithItsSwitchesSetOtherwise) {
  const Kernel switches = make_switches();
  double with = 0, without = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TrialSearchOptions never = seeded(seed);
    never.patience_switched = 1'000;
    const Walk walked = walk(switches, seeded(seed), 64), plain = walk(switches, never, 64);
    with += walked.found / 20;
    without += plain.found / 20;
    EXPECT_EQ(count(plain, ProposalReason::switched), 0U);
  }
  EXPECT_GT(with, 0.98);
  EXPECT_LT(without, with - 0.03) << "the space is too easy to tell anything";
}

TEST(TrialSearch, MakesLocalMovesWhenAsked) {
  TrialSearchOptions options = seeded(1);
  options.local = 0.4;
  const Walk walked = walk(kernel(), options, 80);
  EXPECT_GT(count(walked, ProposalReason::local_move), 3U);
}

TEST(TrialSearch, EveryCandidateIsProposedOnce) {
  std::vector<std::vector<double>> vectors;
  for (int i = 0; i < 37; ++i) vectors.push_back({static_cast<double>(i * i), std::cos(i)});
  const auto space = CandidateSpace::from_vectors(vectors);
  ASSERT_TRUE(space.ok());
  TrialSearchOptions options = seeded(4);
  options.batch = 5;
  TrialSearch search(*space, options);
  std::set<std::size_t> proposed;
  for (auto batch = search.propose(); !batch.empty(); batch = search.propose()) {
    for (const Proposal& proposal : batch) {
      EXPECT_TRUE(proposed.insert(proposal.candidate).second);
      ASSERT_TRUE(search.observe(proposal.candidate, {1.0 + static_cast<double>(proposal.candidate), {}}).ok());
    }
  }
  EXPECT_EQ(proposed.size(), 37U);
  EXPECT_EQ(search.trials(), 37U);
}

TEST(TrialSearch, GoesOnWhenEverythingFails) {
  TrialSearch search(kernel().space, seeded(0));
  for (int i = 0; i < 40; ++i) {
    const auto batch = search.propose();
    ASSERT_EQ(batch.size(), 1U);
    ASSERT_TRUE(search.observe(batch[0].candidate, {0, ErrorKind::compile}).ok());
  }
  EXPECT_FALSE(search.best().has_value());
  EXPECT_FALSE(search.settled());
}

TEST(TrialSearch, SettlesWhenNoBoundIsWorthATrial) {
  std::vector<std::vector<double>> vectors;
  for (int i = 0; i < 300; ++i) vectors.push_back({static_cast<double>(i)});
  const auto space = CandidateSpace::from_vectors(vectors);
  ASSERT_TRUE(space.ok());
  TrialSearch search(*space, seeded(1));
  std::size_t trials = 0;
  for (; trials < 300 && !search.settled(); ++trials) {
    const std::size_t candidate = search.propose().at(0).candidate;
    const double away = (static_cast<double>(candidate) - 120) / 100;
    ASSERT_TRUE(search.observe(candidate, {50 * (1 + away * away), {}}).ok());
  }
  EXPECT_TRUE(search.settled());
  EXPECT_LT(trials, 100U);
  EXPECT_LT(search.best()->time_us, 50 * 1.01);
}

Result<TransferPrior> prior_from(const Kernel& there) {
  std::vector<NeighbourTrial> trials;
  for (std::size_t i = 0; i < there.outcomes.size(); ++i) {
    const TrialOutcome& outcome = there.outcomes[i];
    trials.push_back({i, outcome.failure ? std::optional<double>() : std::optional(outcome.time_us)});
  }
  return make_transfer_prior(kernel().space, there.space, trials);
}

// A neighbour's failures only give a doubt, of one half: a few trials must settle it.
TEST(TrialSearch, LearnsWhatFailsHereAsOnANeighbour) {
  const auto prior = prior_from(make_kernel(1));
  ASSERT_TRUE(prior.ok()) << prior.error().message;
  std::size_t failures = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) failures += walk(kernel(), seeded(seed), 100, &*prior).failures;
  EXPECT_LT(failures, 4 * 100 / 16);  // of trials at random a quarter would fail
}

TEST(TrialSearch, TransfersFromANeighbour) {
  const auto prior = prior_from(make_kernel(1));
  ASSERT_TRUE(prior.ok()) << prior.error().message;
  double with = 0, without = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Walk walked = walk(kernel(), seeded(seed), 25, &*prior);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(walked.proposals[i].reason, ProposalReason::near);
    EXPECT_EQ(count(walked, ProposalReason::near), 5U);
    with += walked.found / 4;
    without += walk(kernel(), seeded(seed), 25).found / 4;
  }
  EXPECT_GT(with, without);
  EXPECT_GT(with, 0.97);
}

/// A model that has it all wrong costs little, and the space is covered whatever it says.
TEST(TrialSearch, DoubtsAModelThatNothingWasComparedWith) {
  auto prior = prior_from(make_kernel(1));
  ASSERT_TRUE(prior.ok()) << prior.error().message;
  prior->doubtful = true;
  auto wrong = *prior;
  for (float& log_time : wrong.log_time) log_time = -log_time;
  double right = 0, misled = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Walk walked = walk(kernel(), seeded(seed), 64, &*prior);
    EXPECT_EQ(count(walked, ProposalReason::near), 5U);
    EXPECT_EQ(count(walked, ProposalReason::initial), 15U);
    right += walked.found / 4;
    misled += walk(kernel(), seeded(seed), 64, &wrong).found / 4;
  }
  EXPECT_GT(right, 0.98);
  EXPECT_GT(misled, 0.95);
}

// Behind a neighbour's fastest there are more trials that cover the space than without one: each keeps away from all
// before it, the last ones too.
TEST(TrialSearch, CoversApartFromAllThatCameBefore) {
  auto prior = prior_from(make_kernel(1));
  ASSERT_TRUE(prior.ok()) << prior.error().message;
  prior->doubtful = true;
  double last = 0, before = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Walk walked = walk(kernel(), seeded(seed), 20, &*prior);
    for (std::size_t i = 10; i < 20; ++i) {
      float nearest = std::numeric_limits<float>::max();
      for (std::size_t k = 0; k < i; ++k) {
        nearest = std::min(nearest, squared_distance(kernel().space.features(), walked.proposals[i].candidate,
                                                     walked.proposals[k].candidate));
      }
      (i < 15 ? before : last) += std::sqrt(nearest);
    }
  }
  EXPECT_GT(last, 0.92 * before);
}

TEST(TransferPrior, InterpolatesWhatTheNeighbourLacks) {
  const CandidateSpace& space = kernel().space;
  std::vector<NeighbourTrial> trials;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const TrialOutcome& outcome = kernel().outcomes[i];
    if (i % 3 == 0) trials.push_back({i, outcome.failure ? std::optional<double>() : std::optional(outcome.time_us)});
  }
  const auto prior = make_transfer_prior(space, space, trials);
  ASSERT_TRUE(prior.ok());
  double error = 0, spread = 0, mean = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < space.size(); ++i) {
    if (kernel().outcomes[i].failure) continue;
    mean += std::log(kernel().outcomes[i].time_us);
    ++count;
  }
  mean /= static_cast<double>(count);
  for (std::size_t i = 0; i < space.size(); ++i) {
    const TrialOutcome& outcome = kernel().outcomes[i];
    EXPECT_EQ(prior->failed[i] != 0, i % 3 == 0 && outcome.failure.has_value());
    if (outcome.failure) continue;
    const double truth = std::log(outcome.time_us);
    if (i % 3 == 0) {
      EXPECT_NEAR(prior->log_time[i], truth, 1e-5);
      continue;
    }
    error += std::abs(static_cast<double>(prior->log_time[i]) - truth);
    spread += std::abs(mean - truth);
  }
  EXPECT_LT(error, 0.8 * spread);
}

TEST(TransferPrior, RefusesWhatCannotBeTransferred) {
  const auto foreign = CandidateSpace::from_parameters({{"depth", {1.0, 2.0}}}, {{0}, {1}});
  ASSERT_TRUE(foreign.ok());
  const std::vector<NeighbourTrial> two = {{0, 1.0}, {1, 2.0}};
  EXPECT_THAT(make_transfer_prior(kernel().space, *foreign, two).error().message, HasSubstr("same parameters"));
  const std::vector<NeighbourTrial> failed = {{0, std::nullopt}};
  EXPECT_THAT(make_transfer_prior(kernel().space, kernel().space, failed).error().message, HasSubstr("succeeded"));
}

TEST(TrialSearch, RefusesOutcomesThatMakeNoSense) {
  TrialSearch search(kernel().space, seeded(0));
  ASSERT_TRUE(search.observe(10, {5, {}}).ok());
  EXPECT_THAT(search.observe(10, {5, {}}).error().message, HasSubstr("observed before"));
  EXPECT_THAT(search.observe(2560, {5, {}}).error().message, HasSubstr("candidate 2560 of a space of 2560"));
  EXPECT_THAT(search.observe(11, {0, {}}).error().message, HasSubstr("a time of 0"));
  EXPECT_THAT(search.observe(11, {std::nan(""), {}}).error().message, HasSubstr("a time of nan"));
}

}  // namespace
}  // namespace stitch::search
