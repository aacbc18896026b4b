#include "costmodel/boosted_trees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xgboost/c_api.h>

#include <cmath>
#include <random>
#include <thread>

#include "costmodel/envelope.h"

namespace stitch::costmodel::test {
namespace {

using testing::HasSubstr;

constexpr float missing = std::numeric_limits<float>::quiet_NaN();

/// y = step in column 0 + slope of column 1; column 2 is missing in every third row and says nothing.
TreeSamples stairs(std::size_t count, unsigned seed) {
  TreeSamples samples;
  samples.columns = 3;
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(0, 1);
  for (std::size_t i = 0; i < count; ++i) {
    const float a = uniform(random), b = uniform(random);
    samples.rows.insert(samples.rows.end(), {a, b, i % 3 == 0 ? missing : uniform(random)});
    samples.labels.push_back((a < 0.5F ? 1.0F : 3.0F) + b);
  }
  return samples;
}

std::span<const float> row_of(const TreeSamples& samples, std::size_t i) {
  return std::span(samples.rows).subspan(i * samples.columns, samples.columns);
}

BoostedTrees must(Result<BoostedTrees> trees) {
  EXPECT_TRUE(trees.ok()) << (trees.ok() ? "" : trees.error().message);
  return trees.ok() ? *std::move(trees) : BoostedTrees();
}

TEST(BoostedTrees, LearnAFunction) {
  const BoostedTrees trees = must(BoostedTrees::train(stairs(2000, 1), {}));
  EXPECT_EQ(trees.trees(), 150U);
  EXPECT_EQ(trees.columns(), 3U);
  const TreeSamples fresh = stairs(200, 2);
  double off = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    // At the step itself a bin's width decides.
    if (std::fabs(row_of(fresh, i)[0] - 0.5F) < 0.02F) continue;
    off += std::fabs(trees.evaluate(row_of(fresh, i)) - fresh.labels[i]) / 200;
  }
  EXPECT_LT(off, 0.05);
  EXPECT_GT(trees.uses()[0] + trees.uses()[1], trees.uses()[2]);
}

// Evaluated here, trained there: both must mean the same by a tree.
TEST(BoostedTrees, EvaluateAsXgboostDoes) {
  const TreeSamples samples = stairs(500, 3);
  const BoostedTrees trees = must(BoostedTrees::train(samples, {}));
  const std::string bytes = trees.bytes();
  const auto json = open_envelope({"STITCHT\n", "boosted trees", 1}, bytes);
  ASSERT_TRUE(json);
  BoosterHandle booster = nullptr;
  DMatrixHandle matrix = nullptr;
  ASSERT_EQ(XGBoosterCreate(nullptr, 0, &booster), 0);
  ASSERT_EQ(XGBoosterLoadModelFromBuffer(booster, json->data(), json->size()), 0) << XGBGetLastError();
  ASSERT_EQ(XGDMatrixCreateFromMat(samples.rows.data(), 500, 3, missing, &matrix), 0);
  bst_ulong length = 0;
  const float* predicted = nullptr;
  ASSERT_EQ(XGBoosterPredict(booster, matrix, 1, 0, 0, &length, &predicted), 0) << XGBGetLastError();
  ASSERT_EQ(length, 500U);
  for (std::size_t i = 0; i < 500; ++i) EXPECT_NEAR(trees.evaluate(row_of(samples, i)), predicted[i], 1e-5) << i;
  XGDMatrixFree(matrix);
  XGBoosterFree(booster);
}

TEST(BoostedTrees, TheSameArgumentsGiveTheSameBytes) {
  TreeOptions options;
  const TreeSamples samples = stairs(700, 4);
  const std::string once = must(BoostedTrees::train(samples, options)).bytes();
  EXPECT_EQ(must(BoostedTrees::train(samples, options)).bytes(), once);
  // Whatever else the process trains at the time.
  std::string beside;
  std::thread other([&] { beside = must(BoostedTrees::train(samples, options)).bytes(); });
  EXPECT_EQ(must(BoostedTrees::train(samples, options)).bytes(), once);
  other.join();
  EXPECT_EQ(beside, once);
  options.seed = 2;
  EXPECT_NE(must(BoostedTrees::train(samples, options)).bytes(), once);
}

TEST(BoostedTrees, RankingComparesWithinGroupsOnly) {
  TreeSamples samples;
  samples.columns = 2;
  // In each group the smaller column 0 is better; column 1 names the group, and labels of groups are not comparable.
  for (int group = 0; group < 20; ++group) {
    for (int i = 0; i < 10; ++i) {
      samples.rows.insert(samples.rows.end(), {static_cast<float>((i * 7 + group) % 10), static_cast<float>(group)});
      samples.labels.push_back(static_cast<float>(1000 * group - (i * 7 + group) % 10));
    }
    samples.groups.push_back(10);
  }
  TreeOptions options;
  options.objective = TreeOptions::Objective::ranking;
  const BoostedTrees trees = must(BoostedTrees::train(samples, options));
  for (float group : {3.0F, 17.0F}) {
    EXPECT_GT(trees.evaluate(std::array{0.0F, group}), trees.evaluate(std::array{4.0F, group}));
    EXPECT_GT(trees.evaluate(std::array{4.0F, group}), trees.evaluate(std::array{9.0F, group}));
  }
}

TEST(BoostedTrees, GoOnFromOthers) {
  const TreeSamples samples = stairs(400, 5);
  TreeOptions few;
  few.rounds = 20;
  const BoostedTrees first = must(BoostedTrees::train(samples, few));
  const BoostedTrees more = must(BoostedTrees::train(samples, few, &first));
  EXPECT_EQ(more.trees(), 40U);
  double before = 0, after = 0;
  for (std::size_t i = 0; i < 400; ++i) {
    before += std::fabs(first.evaluate(row_of(samples, i)) - samples.labels[i]);
    after += std::fabs(more.evaluate(row_of(samples, i)) - samples.labels[i]);
  }
  EXPECT_LT(after, before / 2);
}

TEST(BoostedTrees, WhatIsKnownAlreadyIsAMargin) {
  TreeSamples samples = stairs(400, 6);
  samples.margins = samples.labels;  // nothing is left to learn
  const BoostedTrees trees = must(BoostedTrees::train(samples, {}));
  for (std::size_t i = 0; i < 400; i += 7) EXPECT_NEAR(trees.evaluate(row_of(samples, i)), 0, 1e-4);
}

TEST(BoostedTrees, SamplesThatMakeNoSenseAreRefused) {
  const auto refused = [](auto&& spoil, const std::string& message) {
    TreeSamples samples = stairs(10, 7);
    spoil(samples);
    const auto trees = BoostedTrees::train(samples, {});
    ASSERT_FALSE(trees) << message;
    EXPECT_EQ(trees.error().kind, ErrorKind::invalid_argument);
    EXPECT_THAT(trees.error().message, HasSubstr(message));
  };
  refused([](TreeSamples& s) { s = {}; }, "there are none");
  refused([](TreeSamples& s) { s.labels.pop_back(); }, "rows and labels");
  refused([](TreeSamples& s) { s.weights = {1}; }, "weights");
  refused([](TreeSamples& s) { s.margins = {1}; }, "margins");
  refused([](TreeSamples& s) { s.groups = {4, 4}; }, "groups");
  refused([](TreeSamples& s) { s.labels[3] = missing; }, "a label is not finite");
  refused([](TreeSamples& s) { s.rows[3] = std::numeric_limits<float>::infinity(); }, "a feature is infinite");
  const BoostedTrees three = must(BoostedTrees::train(stairs(50, 8), {}));
  TreeSamples two;
  two.columns = 2;
  two.rows = {1, 2, 3, 4};
  two.labels = {1, 2};
  const auto other = BoostedTrees::train(two, {}, &three);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("2 columns, the trees to go on from have 3"));
  // XGBoost's own words.
  TreeOptions options;
  options.depth = -3;
  const auto depth = BoostedTrees::train(stairs(50, 8), options);
  ASSERT_FALSE(depth);
  EXPECT_THAT(depth.error().message, HasSubstr("XGBoost, "));
}

TEST(BoostedTrees, BytesComeBackAsTheyWere) {
  const TreeSamples samples = stairs(300, 9);
  const BoostedTrees trees = must(BoostedTrees::train(samples, {}));
  const BoostedTrees loaded = must(BoostedTrees::load(trees.bytes()));
  EXPECT_EQ(loaded.bytes(), trees.bytes());
  for (std::size_t i = 0; i < 300; ++i)
    EXPECT_EQ(loaded.evaluate(row_of(samples, i)), trees.evaluate(row_of(samples, i)));
}

TEST(BoostedTrees, DamageIsFoundEverywhere) {
  TreeOptions options;
  options.rounds = 3;
  const std::string bytes = must(BoostedTrees::train(stairs(100, 10), options)).bytes();
  const auto kind_of = [](const std::string& damaged) {
    const auto loaded = BoostedTrees::load(damaged);
    return loaded.ok() ? std::string("read") : std::string(to_string(loaded.error().kind));
  };
  for (std::size_t at = 0; at < bytes.size(); at += at < 40 ? 1 : 53) {
    // The version's own bytes make it a newer one; four bytes are reserved.
    if (at >= 8 && at < 16) continue;
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_EQ(kind_of(damaged), "corrupt") << at;
  }
  EXPECT_EQ(kind_of(""), "corrupt");
  EXPECT_EQ(kind_of(bytes.substr(0, bytes.size() - 1)), "corrupt");
  std::string newer = bytes;
  newer[8] = 2;
  EXPECT_EQ(kind_of(newer), "version_mismatch");
}

// A checksum says that bytes are as written, not that who wrote them was right.
TEST(BoostedTrees, TreesThatMakeNoSenseAreRefused) {
  TreeOptions options;
  options.rounds = 1;
  const std::string bytes = must(BoostedTrees::train(stairs(100, 11), options)).bytes();
  const EnvelopeKind kind = {"STITCHT\n", "boosted trees", 1};
  const std::string json(*open_envelope(kind, bytes));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = json;
    const std::size_t at = changed.rfind(from);  // each tree has a number of columns too, which nobody reads
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    const auto loaded = BoostedTrees::load(seal_envelope(kind, changed));
    return loaded.ok() ? std::string("read") : loaded.error().message;
  };
  EXPECT_THAT(with("\"left_children\":[1,", "\"left_children\":[0,"), HasSubstr("a branch leads nowhere"));
  EXPECT_THAT(with("\"left_children\":[1,", "\"left_children\":[99999,"), HasSubstr("a branch leads nowhere"));
  EXPECT_THAT(with("\"left_children\":[1,", "\"left_children\":["), HasSubstr("differ in length"));
  EXPECT_THAT(with("\"num_feature\":\"3\"", "\"num_feature\":\"0\""), HasSubstr("a column that there is not"));
  EXPECT_THAT(with("\"learner\"", "\"lerner\""), HasSubstr("boosted trees"));
}

}  // namespace
}  // namespace stitch::costmodel::test
