#include "costmodel/trained_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/combined.h"
#include "costmodel/learned.h"
#include "tests/costmodel/synthetic_times.h"

namespace stitch::costmodel::test {
namespace {

using testing::HasSubstr;

using Kind = TrainedCostModel::Kind;

TrainedCostModel trained(Kind kind, const TrainingSet& set = all_synthetic()) {
  TrainingOptions options;
  options.kind = kind;
  options.folds = 0;
  options.trees.rounds = 60;
  auto training = train_model(set, options);
  if (!training) throw std::runtime_error(training.error().message);
  return std::move(training->model);
}

std::shared_ptr<const TrainedCostModel> shared(TrainedCostModel model) {
  return std::make_shared<const TrainedCostModel>(std::move(model));
}

// ---- bytes --------------------------------------------------------------------------------------------------------

TEST(TrainedModel, BytesComeBackAsTheyWere) {
  for (const Kind kind : {Kind::combined, Kind::learned}) {
    const TrainedCostModel model = trained(kind);
    const std::string bytes = encode(model);
    const auto back = decode_model(bytes);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(encode(*back), bytes);
    EXPECT_EQ(back->kind, kind);
    EXPECT_EQ(back->ranges, model.ranges);
    for (std::size_t i = 0; i < 50; ++i) {
      const TrainingSample& sample = all_synthetic().samples[i];
      EXPECT_EQ(back->predict(sample.features, sample.analytical_us),
                model.predict(sample.features, sample.analytical_us));
    }
  }
}

TEST(TrainedModel, DamagedAndNewerBytesAreRefused) {
  const std::string bytes = encode(trained(Kind::combined));
  for (std::size_t at = 0; at < bytes.size(); at += at < 40 ? 1 : 997) {
    if (at >= 8 && at < 16) continue;  // the version, and what is reserved
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x04);
    const auto read = decode_model(damaged);
    ASSERT_FALSE(read) << at;
    EXPECT_EQ(read.error().kind, ErrorKind::corrupt) << at;
  }
  std::string newer = bytes;
  newer[8] = 9;
  const auto read = decode_model(newer);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::version_mismatch);
  EXPECT_THAT(read.error().message, HasSubstr("version 9"));
}

// Another set of features: the columns would mean something else.
TEST(TrainedModel, OtherFeaturesAreRefused) {
  TrainedCostModel model = trained(Kind::combined);
  model.features = 7;
  model.feature_set.low ^= 1;
  const auto read = decode_model(encode(model));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::version_mismatch);
  EXPECT_THAT(read.error().message, HasSubstr("features version 7"));
}

// ---- the range ----------------------------------------------------------------------------------------------------

struct Moved {
  std::string column;
  double value;
  bool outside;
};

TEST(TrainedModel, TheRangeFollowsTheColumnsKind) {
  TrainedCostModel model = trained(Kind::combined);
  const auto columns = feature_columns();
  const auto at = [&](std::string_view name) {
    return static_cast<std::size_t>(
        std::find_if(columns.begin(), columns.end(), [&](const auto& c) { return c.name == name; }) - columns.begin());
  };
  model.ranges[at("blocks")] = {100, 1000, true};
  model.ranges[at("busy_share")] = {0.4F, 0.8F, true};
  model.ranges[at("phases")] = {1, 2, true};
  model.ranges[at("sm_count")] = {132, 132, true};
  model.ranges[at("registers")] = {};
  std::vector<float> row = all_synthetic().samples[0].features;
  row[at("blocks")] = 500;
  row[at("busy_share")] = 0.5F;
  row[at("phases")] = 1;
  ASSERT_FALSE(model.outside(row)) << model.why_outside(row);
  for (const Moved& moved : std::vector<Moved>{{"blocks", 1900, false},
                                               {"blocks", 2100, true},
                                               {"blocks", 51, false},
                                               {"blocks", 45, true},
                                               {"busy_share", 0.89, false},
                                               {"busy_share", 0.95, true},
                                               {"phases", 3, true},
                                               {"sm_count", 108, true},
                                               {"registers", 200, false}}) {
    std::vector<float> other = row;
    other[at(moved.column)] = static_cast<float>(moved.value);
    EXPECT_EQ(model.outside(other).has_value(), moved.outside) << moved.column << " " << moved.value;
    if (moved.outside) {
      EXPECT_THAT(model.why_outside(other), HasSubstr(moved.column + " is "));
      // What the trees would say is left out: the analytical prediction at the measurements' level.
      EXPECT_EQ(model.predict(other, 10), 10 * std::exp(model.offset));
    }
  }
  EXPECT_NEAR(std::exp(model.offset), 1.2 * 1.5, 1.0) << "the level is that of the median kernel";
}

// ---- scorers ------------------------------------------------------------------------------------------------------

TEST(CombinedScorer, CorrectsKernelsLikeThoseItKnows) {
  const auto made = CombinedScorer::create(shared(trained(Kind::combined)), *find_device("h100"));
  ASSERT_TRUE(made) << made.error().message;
  const CombinedScorer& scorer = **made;
  // A size between those of the training set.
  double off_combined = 0, off_analytical = 0;
  for (const Kernel& kernel : candidates_of(profiler::test::softmax(1365, 1536), scorer.device(), 40)) {
    const KernelFeatures features = kernel_features(*kernel.graph, kernel.program, scorer.device());
    const double truth = synthetic_us(features, kernel.predicted_us, 1);
    const double us = scorer.predict_us(*kernel.graph, kernel.program);
    off_combined += std::fabs(std::log(us / truth));
    off_analytical += std::fabs(std::log(kernel.predicted_us / truth));
    const search::Score score = scorer.explain(*kernel.graph, kernel.program);
    EXPECT_EQ(score.us, us);
    if (score.binding.find("outside") == std::string::npos) {
      EXPECT_EQ(score.terms.back().name, "learned correction");
    }
  }
  EXPECT_LT(off_combined, 0.5 * off_analytical);
}

TEST(CombinedScorer, SaysWhenItFallsBack) {
  // Trained on element-wise kernels, asked about a kernel of two phases with grid barriers.
  std::vector<NamedGraph> sums;
  for (const NamedGraph& named : sized_kernels()) {
    if (named.name.starts_with("sum")) sums.push_back(named);
  }
  const TrainedCostModel model = trained(Kind::combined, synthetic_set(sums));
  const auto made = CombinedScorer::create(shared(model), *find_device("h100"));
  ASSERT_TRUE(made);
  for (const Kernel& kernel : candidates_of(profiler::test::norm_backward(2048, 256), (*made)->device(), 5)) {
    const search::Score score = (*made)->explain(*kernel.graph, kernel.program);
    EXPECT_THAT(score.binding, HasSubstr("outside the training range: analytical ("));
    EXPECT_DOUBLE_EQ(score.us, kernel.predicted_us * std::exp(model.offset));
    EXPECT_EQ(score.us, (*made)->predict_us(*kernel.graph, kernel.program));
    EXPECT_EQ(score.terms.back().name, "level of measurements");
  }
}

TEST(LearnedScorer, AnswersEverywhereAndSaysWhereItKnowsNothing) {
  const auto made = LearnedScorer::create(shared(trained(Kind::learned)), *find_device("h100"));
  ASSERT_TRUE(made);
  const Kernel known = best_of(profiler::test::softmax(2048, 1024)), odd = best_of(profiler::test::scaled_sum({7}));
  EXPECT_EQ((*made)->explain(*known.graph, known.program).binding, "learned");
  const search::Score score = (*made)->explain(*odd.graph, odd.program);
  EXPECT_THAT(score.binding, HasSubstr("outside the training range"));
  EXPECT_GT(score.us, 0);
  EXPECT_EQ(score.us, (*made)->predict_us(*odd.graph, odd.program));
}

TEST(Scorers, AreMadeOfModelsThatFitOnly) {
  const DeviceSpec h100 = *find_device("h100"), a100 = *find_device("a100");
  const TrainedCostModel combined = trained(Kind::combined);
  const auto refused = [](const auto& made, const std::string& message) {
    ASSERT_FALSE(made) << message;
    EXPECT_EQ(made.error().kind, ErrorKind::invalid_argument);
    EXPECT_THAT(made.error().message, HasSubstr(message));
  };
  refused(LearnedScorer::create(shared(combined), h100), "a combined cost model, not a learned one");
  refused(CombinedScorer::create(shared(combined), a100), "for h100, not for a100");
  TrainedCostModel counts = combined;
  counts.unit = "sectors";
  refused(CombinedScorer::create(shared(counts), h100), "trained on sectors: it tells no times");
}

}  // namespace
}  // namespace stitch::costmodel::test
