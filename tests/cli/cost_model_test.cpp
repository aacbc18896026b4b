#include <gmock/gmock.h>

#include "costmodel/ranking_quality.h"
#include "tests/cli/run_stitch.h"
#include "tuning/kernels/kernel_workshop.h"

// Cost models from the command line. Where there is no GPU, recordings hold counts: that models of them are trained,
// stored and judged shows that everything fits together, and that nothing takes them for times.
namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class CostModelEmulated : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new Folder;
    for (const int columns : {64, 96}) {
      std::string text = softmax_hlo;
      for (std::size_t at = text.find("64"); at != std::string::npos; at = text.find("64", at + 2))
        text.replace(at, 2, std::to_string(columns));
      const std::string model = folder->write(fmt::format("softmax{}.hlo.txt", columns), text);
      const Outcome recorded =
          stitch({"record", model, "--output", recording(), "--device", "emulated:counts", "--candidates", "12",
                  "--combinations", "8", "--cache", folder->at("cache"), "--quiet", "--json"});
      ASSERT_EQ(recorded.code, 0) << recorded.out << recorded.err;
    }
  }
  static void TearDownTestSuite() { delete folder; }
  static std::string recording() { return folder->at("counts.record"); }

  static inline Folder* folder = nullptr;
};

TEST_F(CostModelEmulated, IsTrainedListedAndReported) {
  const std::string database = folder->at("models.db");
  const Outcome trained = stitch({"cost-model", "train", "--recording", recording(), "--db", database, "--json"});
  ASSERT_EQ(trained.code, 0) << trained.out << trained.err;
  const json training = trained.json();
  EXPECT_EQ(training["unit"], "sectors");
  EXPECT_EQ(training["name"], "combined:sectors");
  EXPECT_EQ(training["version"], 1);
  EXPECT_GE(training["samples"], 24);
  const Outcome again =
      stitch({"cost-model", "train", "--recording", recording(), "--db", database, "--kind", "learned", "--json"});
  ASSERT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_EQ(again.json()["training_set"], training["training_set"]);

  const json models = stitch({"cost-model", "list", "--db", database, "--json"}).json();
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0]["name"], "combined:sectors");
  EXPECT_EQ(models[1]["name"], "learned:sectors");
  EXPECT_EQ(models[0]["training_set"], training["training_set"]);
  EXPECT_THAT(stitch({"cost-model", "list", "--db", database}).out, HasSubstr("combined:sectors  h100"));
  const json report = stitch({"cost-model", "report", "--db", database, "--json"}).json();
  EXPECT_EQ(report["cost_models"].size(), 2U);
  EXPECT_EQ(report["analytical"].size(), 0U) << "no times were measured";

  // A model of counts predicts no times.
  const Outcome tuned = stitch({"tune", folder->at("softmax64.hlo.txt"), "--db", database, "--scorer", "combined",
                                "--cache", folder->at("cache"), "--quiet"});
  EXPECT_EQ(tuned.code, 3);
  EXPECT_THAT(tuned.err, HasSubstr("no cost model was trained for h100"));
}

TEST_F(CostModelEmulated, ReportOnRecordingsHoldsKernelsOut) {
  const Outcome done = stitch({"cost-model", "report", "--recording", recording(), "--folds", "2", "--json"});
  ASSERT_EQ(done.code, 0) << done.out << done.err;
  const json report = done.json();
  EXPECT_EQ(report["unit"], "sectors");
  for (const char* kind : {"learned", "combined"}) {
    EXPECT_EQ(report[kind]["folds"], 2);
    EXPECT_EQ(report[kind]["model"]["groups"], report["analytical"]["groups"]);
  }
  EXPECT_EQ(stitch({"cost-model", "report", "--recording", recording(), "--folds", "2", "--json"}).out, done.out)
      << "deterministic";
  const std::string text = stitch({"cost-model", "report", "--recording", recording()}).out;
  EXPECT_THAT(text, HasSubstr("sectors, which are no times"));
  EXPECT_THAT(text, HasSubstr("spearman"));
}

TEST_F(CostModelEmulated, ConstantsAreNotFittedToCounts) {
  const Outcome done = stitch({"cost-model", "train", "--recording", recording(), "--constants"});
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, HasSubstr("no times: nothing can be fitted"));
}

// ---- rank ---------------------------------------------------------------------------------------------------------

const std::string h100 = STITCH_SOURCE_DIR "/bench/results/gpu/h100-2026-11-26-3/recording-h100.stitchrec";

/// How well a scorer orders what `cost-model rank` has printed.
costmodel::RankingQuality quality_of(const json& document, const char* scorer) {
  std::vector<costmodel::RankedGroup> groups;
  for (const json& kernel : document.at("kernels")) {
    costmodel::RankedGroup& group = groups.emplace_back();
    for (const json& each : kernel.at("candidates"))
      group.push_back({each.at(scorer), each.at("measured_us"), each.at("failed")});
  }
  return costmodel::ranking_quality(groups);
}

// What is asked by default is what loses least on candidates that an H100 has timed: the analytical model, and behind
// the compiler its estimate by machine code. Compiles every candidate (11 s of a core).
TEST(CostModelRankSlow, TheDefaultIsWhatRanksBest) {
  const Outcome done = stitch({"cost-model", "rank", "--recording", h100, "--folds", "100", "--json"});
  ASSERT_EQ(done.code, 0) << done.out << done.err;
  const json document = done.json();
  ASSERT_EQ(document["kernels"].size(), 7U);
  const costmodel::RankingQuality analytical = quality_of(document, "analytical");
  const costmodel::RankingQuality compiled = quality_of(document, "analytical, compiled");
  const costmodel::RankingQuality learned = quality_of(document, "learned");
  const costmodel::RankingQuality combined = quality_of(document, "combined");
  EXPECT_EQ(analytical.candidates, 66) << "today's explorer finds every recorded schedule";
  EXPECT_LT(analytical.regret[0], 0.02);
  EXPECT_LE(compiled.regret[0], analytical.regret[0]) << "else machine code is no gain, and the default is wrong";
  EXPECT_TRUE(tuning::WorkshopOptions().machine_code);
  EXPECT_GE(learned.regret[0], combined.regret[0]) << "else daemons train the wrong kind";
  bool changed = false;
  for (const json& kernel : document["kernels"]) {
    for (const json& each : kernel["candidates"]) changed |= each["analytical"] != each["analytical, compiled"];
  }
  EXPECT_TRUE(changed) << "the estimates are those of compiled kernels";
}

TEST(CostModelRank, SaysByKindWhatNeedsNoCompiler) {
  const Outcome done = stitch({"cost-model", "rank", "--recording", h100, "--without-code", "--folds", "2"});
  ASSERT_EQ(done.code, 0) << done.out << done.err;
  for (const char* kind : {"row reduction", "several phases", "streaming"}) EXPECT_THAT(done.out, HasSubstr(kind));
  EXPECT_THAT(done.out, testing::Not(HasSubstr("compiled")));
  EXPECT_THAT(done.out, HasSubstr("combined"));
  const json none =
      stitch({"cost-model", "rank", "--recording", h100, "--without-code", "--folds", "0", "--json"}).json();
  const json& first = none["kernels"][0]["candidates"][0];
  EXPECT_TRUE(first.contains("analytical"));
  EXPECT_FALSE(first.contains("analytical, compiled"));
  EXPECT_FALSE(first.contains("combined")) << "nothing is held out: no evidence";
}

TEST_F(CostModelEmulated, CountsAreNoEvidenceOfRanking) {
  const Outcome done = stitch({"cost-model", "rank", "--recording", recording(), "--without-code"});
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, HasSubstr("no times"));
}

TEST_F(CostModelEmulated, WhatIsMissingIsSaid) {
  EXPECT_EQ(stitch({"cost-model"}).code, 2);
  EXPECT_EQ(stitch({"cost-model", "list"}).code, 2);
  EXPECT_EQ(stitch({"cost-model", "train", "--kind", "oracle"}).code, 2);
  EXPECT_EQ(stitch({"cost-model", "rank"}).code, 3);
  EXPECT_EQ(stitch({"cost-model", "train"}).code, 3);
  EXPECT_EQ(stitch({"cost-model", "report"}).code, 3);
  EXPECT_EQ(stitch({"cost-model", "list", "--db", folder->at("absent.db")}).code, 3);
  EXPECT_EQ(stitch({"cost-model", "report", "--recording", folder->at("absent.record")}).code, 3);
  const Outcome empty = stitch({"cost-model", "train", "--db", folder->at("empty.db"), "--json"});
  EXPECT_EQ(empty.code, 3);
  EXPECT_THAT(empty.json()["error"]["message"].get<std::string>(), HasSubstr("0 samples for h100"));
  EXPECT_THAT(stitch({"cost-model", "report", "--db", folder->at("empty.db")}).out, HasSubstr("no cost model"));
}

}  // namespace
}  // namespace stitch::cli
