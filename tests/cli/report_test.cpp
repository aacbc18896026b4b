#include <gmock/gmock.h>

#include "cli/model_report.h"
#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::vector<std::string> fields = {
    "model",         "operators",  "fragments",        "distinct_fragments", "kernels",      "launches",
    "library_calls", "bytes",      "launches_unfused", "bytes_unfused",      "predicted_us", "predicted_unfused_us",
    "seconds",       "boundaries", "verified"};

TEST(Report, PlanPrintsTheWholeTableAsOneObject) {
  const Folder folder;
  const Outcome outcome = stitch({"plan", folder.write("softmax.hlo.txt", softmax_hlo), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = outcome.json();
  for (const std::string& field : fields) EXPECT_TRUE(report.contains(field)) << field;
  for (const char* stage : {"import", "plan", "codegen", "verify"}) EXPECT_TRUE(report["seconds"].contains(stage));
  EXPECT_EQ(report["model"], "softmax.hlo.txt");
  EXPECT_EQ(report["distinct_fragments"], 1);
  EXPECT_EQ(report["library_calls"], 0);
  EXPECT_EQ(report["boundaries"], json::array());
  EXPECT_GE(report["launches"], 1);
  EXPECT_LT(report["launches"], report["launches_unfused"]);
  EXPECT_GE(report["bytes"], 2 * 24 * 64 * 4 + 64 * 4);  // what goes in and what comes out
  EXPECT_LT(report["bytes"], report["bytes_unfused"]);
  EXPECT_EQ(report["verified"]["kernels"], 0);  // planning verifies nothing, and must not claim to
}

TEST(Report, PlanningTwiceGivesTheSamePlan) {
  const std::string model = STITCH_SOURCE_DIR "/bench/models/fragments/layer_norm_768_fb.hlo.txt.gz";
  json one = stitch({"plan", model, "--json", "--threads", "1"}).json();
  json two = stitch({"plan", model, "--json", "--threads", "2"}).json();
  one.erase("seconds"), two.erase("seconds");
  EXPECT_EQ(one, two);
}

TEST(Report, IsReadBackFromAServersJob) {
  tuning::ModelReport report;
  report.model = "m";
  report.operators = 10, report.fragments = 4, report.distinct_fragments = 2, report.kernels = 3;
  report.launches = 5, report.library_calls = 6, report.bytes = 7, report.launches_unfused = 8;
  report.bytes_unfused = 9, report.predicted_us = 1.5, report.predicted_unfused_us = 2.5;
  report.seconds = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
  report.search = {24, 2, 3, 1, 2, 12.5};
  report.boundaries = {{"sort", 3}};
  report.verified_kernels = 2, report.wrong_kernels = 1;
  report.failed_candidates = {{"compile", 2}, {"correctness", 1}};
  report.wrong_candidates = {"level 1, kernel 12ab: result 0"};
  report.failures = {"level 2: no"};
  const auto read = model_report_from_json(lab::to_json(report));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(lab::to_json(*read), lab::to_json(report));
  EXPECT_EQ(lab::to_table(*read), lab::to_table(report));
  json cut = json::parse(lab::to_json(report));
  cut.erase("launches");
  EXPECT_THAT(model_report_from_json(cut.dump()).error().message, HasSubstr("launches"));
  EXPECT_FALSE(model_report_from_json("").ok());
}

}  // namespace
}  // namespace stitch::cli
