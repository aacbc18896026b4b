#include "costmodel/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "tests/costmodel/synthetic_times.h"

namespace stitch::costmodel::test {
namespace {

using testing::HasSubstr;

using Kind = TrainedCostModel::Kind;

Training must(Result<Training> training) {
  if (!training) throw std::runtime_error(training.error().message);
  return *std::move(training);
}

TrainingOptions options_for(Kind kind, int folds = 4) {
  TrainingOptions options;
  options.kind = kind;
  options.folds = folds;
  return options;
}

// ---- what is learned ----------------------------------------------------------------------------------------------

// The truth of synthetic_times.h is not the analytical model's: on kernels that training did not see, both models must
// order candidates far better than it does.
TEST(Training, HeldOutKernelsAreOrderedBetterThanByTheAnalyticalModel) {
  for (const Kind kind : {Kind::combined, Kind::learned}) {
    const Training training = must(train_model(all_synthetic(), options_for(kind)));
    const ModelAccuracy& accuracy = training.accuracy;
    ASSERT_EQ(accuracy.folds, 4);
    EXPECT_EQ(accuracy.model.groups, accuracy.analytical.groups);
    EXPECT_GT(accuracy.model.spearman, accuracy.analytical.spearman + 0.15) << to_string(kind);
    EXPECT_LT(accuracy.model.regret[0], 0.5 * accuracy.analytical.regret[0]) << to_string(kind);
    EXPECT_GT(accuracy.model.recall[1], accuracy.analytical.recall[1]) << to_string(kind);
    EXPECT_TRUE(accuracy.better());
  }
}

// A reduction is nothing like a softmax: what was learned of the others is not applied to it. (A transpose whose warps
// lie on both axes is like an element-wise kernel, a norm's backward in two phases like a softmax in as many.)
TEST(Training, FamiliesUnlikeTheOthersFallBackToTheAnalyticalOrder) {
  TrainingSet unlike = all_synthetic();
  std::erase_if(unlike.samples, [](const TrainingSample& sample) {
    return sample.family == hash_bytes("transpose") || sample.family == hash_bytes("norm_backward");
  });
  ASSERT_LT(unlike.samples.size(), all_synthetic().samples.size());
  TrainingOptions options = options_for(Kind::combined, 3);
  options.fold_by = FoldBy::family;
  const ModelAccuracy accuracy = must(train_model(unlike, options)).accuracy;
  EXPECT_EQ(accuracy.folds, 3);
  EXPECT_EQ(accuracy.model, accuracy.analytical);
}

TEST(Training, TimesAreAtTheLevelOfTheMeasurements) {
  for (const Kind kind : {Kind::combined, Kind::learned}) {
    const TrainedCostModel model = must(train_model(all_synthetic(), options_for(kind, 0))).model;
    double sum = 0;
    for (const TrainingSample& sample : all_synthetic().samples)
      sum += std::fabs(std::log(model.predict(sample.features, sample.analytical_us) / sample.measured));
    EXPECT_LT(sum / static_cast<double>(all_synthetic().samples.size()), kind == Kind::combined ? 0.1 : 1.0)
        << to_string(kind);
  }
}

/// The set with only `each` in twenty of a kernel's candidates measured; `draw` says which.
TrainingSet few_measured(int each, int draw = 0) {
  TrainingSet set = all_synthetic();
  std::map<Hash128, int> seen;
  for (TrainingSample& sample : set.samples) {
    if ((seen[sample.kernel]++ + draw) % 20 >= each) sample.measured = 0;
  }
  return set;
}

/// How well a model orders everything, by the whole truth.
RankingQuality judged(const TrainedCostModel* model) {
  return ranking_quality(rank_samples(all_synthetic().samples, model).groups);
}

// With one candidate in twenty measured, trees that know the analytical order already beat trees that know nothing,
// whichever candidates they are.
TEST(Training, PretrainingHelpsWhereMeasurementsAreFew) {
  double pretrained = 0, plain = 0;
  constexpr int draws = 5;
  for (int draw = 0; draw < draws; ++draw) {
    TrainingOptions options = options_for(Kind::learned, 0);
    const TrainingSet set = few_measured(1, 4 * draw);
    const TrainedCostModel with = must(train_model(set, options)).model;
    options.pretrained = false;
    const TrainedCostModel without = must(train_model(set, options)).model;
    EXPECT_GT(with.trees.trees(), without.trees.trees());
    pretrained += judged(&with).spearman / draws;
    plain += judged(&without).spearman / draws;
  }
  EXPECT_GT(pretrained, plain + 0.02);
}

TEST(Training, OfFewMeasurementsTheCombinedModelMakesMost) {
  const TrainedCostModel combined = must(train_model(few_measured(2), options_for(Kind::combined, 0))).model;
  TrainingOptions plain = options_for(Kind::learned, 0);
  plain.pretrained = false;
  const TrainedCostModel learned = must(train_model(few_measured(2), plain)).model;
  EXPECT_GT(judged(&combined).spearman, judged(nullptr).spearman + 0.1);
  EXPECT_GT(judged(&combined).spearman, judged(&learned).spearman);
}

TEST(Training, CandidatesThatFailComeLast) {
  TrainingSet set = all_synthetic();
  const std::size_t threads = std::find_if(feature_columns().begin(), feature_columns().end(),
                                           [](const auto& c) { return c.name == "threads"; }) -
                              feature_columns().begin();
  for (TrainingSample& sample : set.samples) {
    if (sample.features[threads] == 256) {
      sample.failed = true;
      sample.measured = 0;
    }
  }
  const TrainedCostModel model = must(train_model(set, options_for(Kind::learned, 0))).model;
  double failed = 0, right = 0, of_failed = 0, of_right = 0;
  for (const TrainingSample& sample : set.samples) {
    (sample.failed ? failed : right) += model.trees.evaluate(sample.features);
    ++(sample.failed ? of_failed : of_right);
  }
  ASSERT_GT(of_failed, 0);
  EXPECT_LT(failed / of_failed, right / of_right);
}

// ---- the same again -----------------------------------------------------------------------------------------------

TEST(Training, TwiceGivesTheSameBytesWhateverTheOrder) {
  for (const Kind kind : {Kind::combined, Kind::learned}) {
    const std::string once = encode(must(train_model(all_synthetic(), options_for(kind, 0))).model);
    TrainingSet shuffled = all_synthetic();
    std::shuffle(shuffled.samples.begin(), shuffled.samples.end(), std::mt19937(3));
    EXPECT_EQ(encode(must(train_model(shuffled, options_for(kind, 0))).model), once);
    TrainingOptions other = options_for(kind, 0);
    other.seed = 2;
    EXPECT_NE(encode(must(train_model(all_synthetic(), other)).model), once);
  }
}

TEST(Training, TheHashNamesWhatWasTrainedOn) {
  TrainingSet set = all_synthetic();
  const Hash128 hash = hash_of(set);
  std::shuffle(set.samples.begin(), set.samples.end(), std::mt19937(4));
  EXPECT_EQ(hash_of(set), hash);
  const auto differs = [&](auto&& change) {
    TrainingSet other = all_synthetic();
    change(other);
    EXPECT_NE(hash_of(other), hash);
  };
  differs([](TrainingSet& s) { s.samples[5].measured *= 1.0001; });
  differs([](TrainingSet& s) { s.samples[5].features[3] = 2 * s.samples[5].features[3] + 1; });
  differs([](TrainingSet& s) { s.samples[5].failed = true; });
  differs([](TrainingSet& s) { s.samples[5].device = "another"; });
  differs([](TrainingSet& s) { s.samples.pop_back(); });
  differs([](TrainingSet& s) { s.unit = "sectors"; });
  differs([](TrainingSet& s) { s.constants.overlap = 0.2; });
}

// ---- folds, limits, refusals --------------------------------------------------------------------------------------

TEST(Training, AKernelIsInOneFoldOnly) {
  const auto& samples = all_synthetic().samples;
  const auto folds = folds_of(samples, options_for(Kind::combined, 4));
  std::map<int, int> sizes;
  for (const auto& [kernel, fold] : folds) ++sizes[fold];
  EXPECT_EQ(folds.size(), 35U);
  EXPECT_EQ(sizes, (std::map<int, int>{{0, 9}, {1, 9}, {2, 9}, {3, 8}}));
  TrainingOptions families = options_for(Kind::combined, 10);
  families.fold_by = FoldBy::family;
  EXPECT_EQ(folds_of(samples, families).size(), 5U);
  EXPECT_TRUE(folds_of(std::span(samples).first(3), families).empty()) << "one family cannot be held out";
}

TEST(Training, OneKernelAloneGivesAModelWithoutAccuracy) {
  TrainingSet set = synthetic_set({sized_kernels().front()});
  const Training training = must(train_model(set, options_for(Kind::combined)));
  EXPECT_EQ(training.accuracy.folds, 0);
  EXPECT_FALSE(training.accuracy.better());
  EXPECT_EQ(to_document(training.accuracy), nlohmann::json({{"folds", 0}}));
  EXPECT_EQ(training.model.kernels, 1);
  EXPECT_EQ(training.model.samples, static_cast<std::int64_t>(set.samples.size()));
}

TEST(Training, TooManySamplesAreThinnedEvenly) {
  TrainingOptions options = options_for(Kind::combined, 0);
  options.most_samples = 350;
  const TrainedCostModel model = must(train_model(all_synthetic(), options)).model;
  EXPECT_LE(model.samples, 350);
  EXPECT_GE(model.samples, 345);
  EXPECT_EQ(model.kernels, 35) << "a part of each";
}

TEST(Training, SetsThatMakeNoSenseAreRefused) {
  const auto refused = [](auto&& spoil, const std::string& message) {
    TrainingSet set = synthetic_set({sized_kernels().front()});
    spoil(set);
    const auto training = train_model(set, options_for(Kind::combined));
    ASSERT_FALSE(training) << message;
    EXPECT_EQ(training.error().kind, ErrorKind::invalid_argument);
    EXPECT_THAT(training.error().message, HasSubstr(message));
  };
  refused([](TrainingSet& s) { s.samples.clear(); }, "no kernel has two measured candidates");
  refused([](TrainingSet& s) { s.samples.resize(1); }, "no kernel has two measured candidates");
  refused([](TrainingSet& s) { s.samples[2].features.pop_back(); }, "training sample 2: 149 features, not 150");
  refused([](TrainingSet& s) { s.samples[1].analytical_us = 0; }, "training sample 1: no analytical prediction");
  refused([](TrainingSet& s) { s.samples[1].measured = std::nan(""); }, "a measured value that is none");
}

}  // namespace
}  // namespace stitch::costmodel::test
