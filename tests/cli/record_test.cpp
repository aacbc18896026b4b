#include <gmock/gmock.h>

#include "tests/cli/run_stitch.h"

// A candidate space's way: recorded, then tuned by on a machine that has nothing but the file.
namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RecordEmulated : public testing::Test {
 protected:
  Outcome record(const std::string& candidates) const {
    return stitch({"record", model, "--output", file, "--device", "emulated:counts", "--candidates", candidates,
                   "--combinations", "8", "--cache", folder.at("cache"), "--quiet", "--json"});
  }
  Outcome tune(const std::string& device) const {
    return stitch({"tune", model, "--device", device, "--db", folder.at("plans.db"), "--cache", folder.at("cache"),
                   "--quiet", "--json"});
  }

  Folder folder;
  std::string model = folder.write("softmax.hlo.txt", softmax_hlo);
  std::string file = folder.at("softmax.record");
};

TEST_F(RecordEmulated, WhatIsRecordedIsTunedBy) {
  const Outcome recorded = record("6");
  ASSERT_EQ(recorded.code, 0) << recorded.out << recorded.err;
  const json report = recorded.json();
  EXPECT_EQ(report["complete"], true);
  EXPECT_EQ(report["unit"], "sectors");
  ASSERT_FALSE(report["kernels"].empty());
  EXPECT_EQ(report["kernels"][0]["recorded"], 6);
  std::int64_t judged = report["kernels"][0]["right"];
  for (const json& failed : report["kernels"][0]["failed"]) judged += failed.get<std::int64_t>();
  EXPECT_EQ(judged, 6);
  EXPECT_GT(report["kernels"][0]["first"], 0);
  EXPECT_GT(report["kernels"][0]["best"], 0);

  const Outcome tuned = tune("recorded:" + file);
  ASSERT_EQ(tuned.code, 0) << tuned.out << tuned.err;
  EXPECT_EQ(tuned.json()["verified"]["wrong"], 0);
  const json devices = stitch({"show", "devices", "--db", folder.at("plans.db"), "--json"}).json();
  EXPECT_THAT(devices.dump(), HasSubstr("\"recorded:"));
  const json plans = stitch({"show", "plans", "--db", folder.at("plans.db"), "--json"}).json();
  ASSERT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans[0]["label"], "predicted") << "counts are no times, and a recording has no plans";

  // The same call again has nothing to do, one that wants more goes on.
  const json again = record("6").json();
  EXPECT_EQ(again["kernels"][0]["before"], 6);
  const json more = record("8").json();
  EXPECT_EQ(more["kernels"][0]["before"], 6);
  EXPECT_GE(more["kernels"][0]["recorded"], 8);
}

TEST_F(RecordEmulated, WhatCannotBeReadIsSaid) {
  EXPECT_EQ(tune("recorded:" + folder.at("none")).code, 3);
  const Outcome damaged =
      tune("recorded:" + folder.write("damaged", "STITCHR\n and more than a header of nonsense bytes"));
  EXPECT_EQ(damaged.code, 3);
  EXPECT_THAT(damaged.out, HasSubstr("damaged: recording: "));
  EXPECT_EQ(stitch({"record", model, "--output", file, "--device", "emulated"}).code, 3);
  EXPECT_EQ(stitch({"record", model, "--output", file, "--device", "nowhere"}).code, 2);
  EXPECT_EQ(stitch({"record", model, "--output", file, "--candidates", "0"}).code, 2);
}

TEST(CalibrateEmulated, NeedsADeviceThatTellsTimes) {
  const Outcome counts = stitch({"calibrate", "--device", "emulated:counts", "--target", "h100", "--json"});
  EXPECT_EQ(counts.code, 1) << counts.out << counts.err;
  EXPECT_THAT(counts.out, HasSubstr("no times: nothing can be calibrated"));
  EXPECT_EQ(stitch({"calibrate", "--device", "emulated"}).code, 3);
}

}  // namespace
}  // namespace stitch::cli
