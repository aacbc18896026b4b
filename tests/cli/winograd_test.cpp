// Convolutions by Winograd's transforms, from the grant on the command line to results.
#include <gmock/gmock.h>

#include <set>

#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;

/// Two convolutions with odd extents, biases and activations, of which the second is as large as Winograd needs to be
/// worth it, and a sum over each image. In XLA's letters: where features are.
std::string net(bool features_last) {
  const auto image = [&](int features) {
    return features_last ? "f32[1,27,29," + std::to_string(features) + "]{3,2,1,0}"
                         : "f32[1," + std::to_string(features) + ",27,29]{3,2,1,0}";
  };
  const std::string labels = features_last ? "b01f_01io->b01f" : "bf01_oi01->bf01";
  const auto filter = [&](const char* in, const char* out) {
    return features_last ? std::string("f32[3,3,") + in + "," + out + "]"
                         : std::string("f32[") + out + "," + in + ",3,3]";
  };
  const std::string small = image(6), large = image(256), along = features_last ? "3" : "1";
  return "HloModule net\nENTRY main {\n  x = " + small + " parameter(0)\n  v = " + filter("6", "256") +
         " parameter(1)\n  w = " + filter("256", "256") + " parameter(2)\n  b = f32[256] parameter(3)\n  p = " + large +
         " convolution(x, v), window={size=3x3 pad=1_1x1_1}, dim_labels=" + labels + "\n  t = " + large +
         " tanh(p)\n  q = " + large + " convolution(t, w), window={size=3x3 pad=1_1x1_1}, dim_labels=" + labels +
         "\n  bias = " + large + " broadcast(b), dimensions={" + along + "}\n  r = " + large +
         " add(q, bias)\n  s = " + large + " add(r, t)\n  zero = f32[] constant(0)\n  zeros = " + large +
         " broadcast(zero), dimensions={}\n  ROOT y = " + large + " maximum(s, zeros)\n}\n";
}

class WinogradEmulated : public testing::TestWithParam<bool> {
 protected:
  Outcome outcome(const std::vector<std::string>& more) const {
    std::vector<std::string> command = {"run", model, "--target", "a100", "--products", "ours", "--json", "--quiet"};
    command.insert(command.end(), more.begin(), more.end());
    return stitch(command);
  }
  static double price(const Outcome& of) { return of.json()["price"]["predicted_us"].get<double>(); }
  static std::size_t steps(const Outcome& of) { return of.json()["steps"].size(); }

  const Folder folder;
  const std::string model = folder.write("net.hlo.txt", net(GetParam()));
};

/// Every step beside the reference, and the result beside that of the direct convolutions.
TEST_P(WinogradEmulated, IsRight) {
  const Outcome run = outcome({"--winograd", "--check", "--check-model", "--cache", folder.at("cache")});
  ASSERT_EQ(run.code, 0) << run.err << run.out;
  const json report = run.json();
  for (const json& step : report["steps"]) {
    EXPECT_EQ(step.value("wrong", 0), 0) << step;
    EXPECT_EQ(step["by"], "device") << step;
  }
  EXPECT_EQ(report["whole"]["wrong"], 0);
  EXPECT_EQ(report["fallbacks"].size(), 0U);
  EXPECT_GE(report["steps"].size(), 4U) << "a convolution, the transforms of input and filter, a product, a result";
}

TEST_P(WinogradEmulated, IsPredictedToBeFasterWhereItIsTaken) {
  const Outcome direct = outcome({"--outline", "--price"}), granted = outcome({"--outline", "--price", "--winograd"});
  ASSERT_EQ(direct.code, 0) << direct.err;
  ASSERT_EQ(granted.code, 0) << granted.err;
  EXPECT_EQ(steps(direct), 2U);
  EXPECT_GT(steps(granted), steps(direct));
  EXPECT_LT(price(granted), 0.85 * price(direct));
}

TEST_P(WinogradEmulated, IsNotUsedWhereItMayNotBe) {
  const std::size_t direct = steps(outcome({"--outline"}));
  for (const char* other : {"--tf32", "--bf16x3", "--batch-invariant", "--eager-precision"})
    EXPECT_EQ(steps(outcome({"--outline", "--winograd", other})), steps(outcome({"--outline", other}))) << other;
  EXPECT_EQ(steps(outcome({"--outline"})), direct) << "not granted";
}

INSTANTIATE_TEST_SUITE_P(Of, WinogradEmulated, testing::Bool(),
                         [](const auto& each) { return each.param ? "features_last" : "features_first"; });

}  // namespace
}  // namespace stitch::cli
