#include <gmock/gmock.h>

#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;

const std::vector<std::string> fields = {"model",
                                         "operators",
                                         "fragments",
                                         "distinct_fragments",
                                         "kernels",
                                         "launches",
                                         "library_calls",
                                         "bytes",
                                         "launches_unfused",
                                         "bytes_unfused",
                                         "predicted_us",
                                         "predicted_unfused_us",
                                         "uncertainty_us",
                                         "seconds",
                                         "boundaries",
                                         "verified"};

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

}  // namespace
}  // namespace stitch::cli
