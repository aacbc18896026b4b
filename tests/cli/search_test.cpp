#include <gmock/gmock.h>

#include "lab/spaces/space_search.h"
#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string spaces = STITCH_SOURCE_DIR "/bench/spaces/";
const std::string polygon = spaces + "pnpoly_rtx3090.json.gz";

TEST(Search, PrintsFiguresAndRunsAsOneObject) {
  const Outcome outcome = stitch({"search", polygon, "--budget", "60", "--seeds", "3", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = outcome.json();
  EXPECT_EQ(report["device"], "NVIDIA GeForce RTX 3090");
  EXPECT_EQ(report["kernel"], "cn_pnpoly");
  EXPECT_EQ(report["configurations"], 4092);
  EXPECT_EQ(report["failures"], 318);
  EXPECT_EQ(report["budget"], 60);
  EXPECT_EQ(report["curve"].size(), 60U);
  ASSERT_EQ(report["runs"].size(), 3U);
  double sum = 0, worst = 1;
  for (const json& run : report["runs"]) {
    EXPECT_EQ(run["curve"].size(), 60U);
    EXPECT_EQ(run["curve"].back(), run["found"]);
    sum += run["found"].get<double>(), worst = std::min(worst, run["found"].get<double>());
  }
  EXPECT_DOUBLE_EQ(report["mean"].get<double>(), sum / 3);
  EXPECT_EQ(report["worst"], worst);
  EXPECT_GT(report["mean"].get<double>(), 0.95);
  EXPECT_TRUE(report["trials_to_95"].is_number());
}

TEST(Search, SpendsAFortiethOfTheSpaceByDefaultAndRepeatsItself) {
  json one = stitch({"search", polygon, "--json"}).json();
  json two = stitch({"search", polygon, "--json"}).json();
  EXPECT_EQ(one["budget"], 102);
  one.erase("proposal_ms"), two.erase("proposal_ms");
  EXPECT_EQ(one, two);
}

TEST(Search, TransfersBetweenGpus) {
  const std::string own = spaces + "convolution_a6000.json.gz", other = spaces + "convolution_a100.json.gz";
  const json alone = stitch({"search", own, "--budget", "40", "--seeds", "4", "--json"}).json();
  const json helped = stitch({"search", own, "--transfer", other, "--budget", "40", "--seeds", "4", "--json"}).json();
  EXPECT_EQ(alone["transferred"], 0);
  EXPECT_EQ(helped["transferred"], 4362 - 161);  // all that ran on the other GPU
  EXPECT_GT(helped["mean"].get<double>(), alone["mean"].get<double>());
}

TEST(Search, ComparesWithRandomTrials) {
  const json random = stitch({"search", polygon, "--strategy", "random", "--seeds", "4", "--json"}).json();
  const json model = stitch({"search", polygon, "--seeds", "4", "--json"}).json();
  EXPECT_LT(random["mean"].get<double>(), model["mean"].get<double>());
}

TEST(Search, PrintsATable) {
  const Outcome outcome = stitch({"search", polygon, "--budget", "40"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("cn_pnpoly on NVIDIA GeForce RTX 3090: 4092 configurations, 318 of them fail"));
  EXPECT_THAT(outcome.out, HasSubstr("40 trials each: mean"));
}

TEST(Search, StopsWhenNothingIsWorthATrial) {
  const json report = stitch({"search", polygon, "--stop", "--budget", "1000", "--json"}).json();
  EXPECT_LT(report["runs"][0]["trials"], 1000);
  EXPECT_GT(report["mean"].get<double>(), 0.97);
}

TEST(Search, RefusesWhatItCannotRead) {
  const Folder folder;
  const std::string whole = read_file(polygon);
  const std::string cut = folder.write("cut.json.gz", std::string_view(whole).substr(0, 5000));
  Outcome outcome = stitch({"search", cut, "--json"});
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_THAT(outcome.json()["error"]["message"].get<std::string>(), HasSubstr("cut.json.gz: gzip: "));
  outcome = stitch({"search", folder.at("absent.json")});
  EXPECT_EQ(outcome.code, 3);
  outcome = stitch({"search", polygon, "--transfer", spaces + "convolution_a100.json.gz"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("same parameters"));
  EXPECT_EQ(stitch({"search", polygon, "--strategy", "hope"}).code, 2);
}

}  // namespace
}  // namespace stitch::cli
