// The models of bench/models scaled down (bench/models/generate/small.py), whole: every step beside the reference on
// the emulated device, and the results of all of it on a stream of the emulated driver, products by its cuBLASLt.
#include <algorithm>
#include <filesystem>

#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;

class SmallModelsEmulated : public testing::TestWithParam<std::string> {
 protected:
  std::string model() const { return STITCH_SOURCE_DIR "/tests/data/small_models/" + GetParam() + ".hlo.txt.gz"; }
  const Folder folder;
  const std::string cache = folder.at("cache");
};

std::int64_t wrong_in(const json& report) {
  std::int64_t wrong = report.contains("whole") ? report["whole"]["wrong"].get<std::int64_t>() : 0;
  for (const json& step : report["steps"]) wrong += step.value("wrong", 0);
  return wrong;
}

TEST_P(SmallModelsEmulated, RunStepByStepAndOnAStream) {
  // Values around one reach every operator's middle, small ones leave bounds that hold through many layers.
  for (const char* distribution : {"mixed", "small"}) {
    SCOPED_TRACE(distribution);
    const Outcome steps = stitch({"run", model(), "--check", "--check-model", "--distribution", distribution, "--json",
                                  "--quiet", "--cache", cache});
    ASSERT_EQ(steps.code, 0) << steps.err << steps.out;
    EXPECT_EQ(wrong_in(steps.json()), 0);
    EXPECT_EQ(steps.json()["fallbacks"].size(), 0U);
  }
  const Outcome stream = stitch_on_a_gpu({"run", model(), "--device", "gpu:0", "--check-model", "--distribution",
                                          "small", "--json", "--quiet", "--cache", cache});
  ASSERT_EQ(stream.code, 0) << stream.err << stream.out;
  const json report = stream.json();
  EXPECT_EQ(report["on"], "a stream of gpu:0");
  EXPECT_EQ(wrong_in(report), 0);
}

std::vector<std::string> all_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(STITCH_SOURCE_DIR "/tests/data/small_models")) {
    const std::string name = entry.path().filename().string();
    names.push_back(name.substr(0, name.find('.')));
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, SmallModelsEmulated, testing::ValuesIn(all_models()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace stitch::cli
