// The models of bench/models scaled down (bench/models/generate/small.py and small_onnx.py), whole: every step beside
// the reference on the emulated device, with the products of libraries and with ours, and the results of all of it on a
// stream of the emulated driver, products by its cuBLASLt.
#include <algorithm>
#include <filesystem>

#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;

class SmallModelsEmulated : public testing::TestWithParam<std::string> {
 protected:
  std::string model() const { return STITCH_SOURCE_DIR "/tests/data/small_models/" + GetParam(); }
  /// A run of every step beside the reference, and of the results beside that of the whole model.
  Outcome checked(const std::string& distribution, const std::string& products) const {
    return stitch({"run", model(), "--products", products, "--check", "--check-model", "--distribution", distribution,
                   "--json", "--quiet", "--cache", cache});
  }

  const Folder folder;
  const std::string cache = folder.at("cache");
};

std::int64_t wrong_in(const json& report) {
  std::int64_t wrong = report.contains("whole") ? report["whole"]["wrong"].get<std::int64_t>() : 0;
  for (const json& step : report["steps"]) wrong += step.value("wrong", 0);
  return wrong;
}

/// Elements of steps that were beside a reference with a bound.
std::int64_t compared_in(const json& report) {
  std::int64_t compared = 0;
  for (const json& step : report["steps"])
    compared += step["compared"].get<std::int64_t>() - step["unchecked"].get<std::int64_t>();
  return compared;
}

TEST_P(SmallModelsEmulated, RunStepByStepAndOnAStream) {
  // Values around one reach every operator's middle, small ones leave bounds that hold through many layers.
  for (const char* distribution : {"mixed", "small"}) {
    SCOPED_TRACE(distribution);
    const Outcome steps = checked(distribution, "library");
    ASSERT_EQ(steps.code, 0) << steps.err << steps.out;
    EXPECT_EQ(wrong_in(steps.json()), 0);
    EXPECT_GT(compared_in(steps.json()), 0);
    EXPECT_EQ(steps.json()["fallbacks"].size(), 0U);
  }
  const Outcome stream = stitch_on_a_gpu({"run", model(), "--device", "gpu:0", "--check-model", "--distribution",
                                          "small", "--json", "--quiet", "--cache", cache});
  ASSERT_EQ(stream.code, 0) << stream.err << stream.out;
  const json report = stream.json();
  EXPECT_EQ(report["on"], "a stream of gpu:0");
  EXPECT_EQ(wrong_in(report), 0);
}

TEST_P(SmallModelsEmulated, RunWithOurProducts) {
  const Outcome steps = checked("small", "ours");
  ASSERT_EQ(steps.code, 0) << steps.err << steps.out;
  const json report = steps.json();
  EXPECT_EQ(wrong_in(report), 0);
  EXPECT_GT(compared_in(report), 0);
  EXPECT_EQ(report["fallbacks"].size(), 0U);
  const auto is_library = [](const json& step) { return step["kind"] == "library"; };
  EXPECT_EQ(std::ranges::count_if(report["steps"], is_library), 0) << "a product that no kernel of ours computes";
}

std::vector<std::string> models_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".onnx") || name.ends_with(".hlo.txt.gz")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

/// "unet_block_onnx": there is one of each format.
std::string test_name(const testing::TestParamInfo<std::string>& each) {
  const std::size_t stem = each.param.find('.');
  return each.param.substr(0, stem) + (each.param.ends_with(".onnx") ? "_onnx" : "");
}

INSTANTIATE_TEST_SUITE_P(All, SmallModelsEmulated,
                         testing::ValuesIn(models_in(STITCH_SOURCE_DIR "/tests/data/small_models")), test_name);

TEST(SmallModels, OneOfEveryModel) {
  std::vector<std::string> full = models_in(STITCH_SOURCE_DIR "/bench/models/hlo");
  const std::vector<std::string> onnx = models_in(STITCH_SOURCE_DIR "/bench/models/onnx");
  full.insert(full.end(), onnx.begin(), onnx.end());
  std::ranges::sort(full);
  EXPECT_EQ(models_in(STITCH_SOURCE_DIR "/tests/data/small_models"), full);
}

}  // namespace
}  // namespace stitch::cli
