// stitch run: a model in, results out, every step checked.
#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "base/npy.h"
#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* perceptron_hlo = R"(HloModule perceptron
ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[8,8] parameter(1)
  h = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[4,8] tanh(h)
  ROOT y = f32[4,8] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";

class RunEmulated : public testing::Test {
 protected:
  std::string npy(std::vector<std::int64_t> shape, const std::vector<float>& values, const std::string& name) const {
    NpyArray array{"f4", std::move(shape), std::string(values.size() * sizeof(float), '\0')};
    std::memcpy(array.data.data(), values.data(), array.data.size());
    return folder.write(name, encode_npy(array));
  }
  const Folder folder;
  const std::string model = folder.write("perceptron.hlo.txt", perceptron_hlo);
  const std::string cache = folder.at("cache");
};

TEST_F(RunEmulated, ChecksEveryStepAndTheWholeModel) {
  const Outcome outcome = stitch({"run", model, "--check", "--check-model", "--json", "--cache", cache});
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const json report = outcome.json();
  ASSERT_EQ(report["steps"].size(), 2U) << "the two products are one row";
  EXPECT_EQ(report["steps"][0]["kind"], "library");
  EXPECT_EQ(report["steps"][0]["runs"], 2);
  EXPECT_EQ(report["steps"][0]["compared"], 64);
  EXPECT_EQ(report["steps"][1]["by"], "device");
  EXPECT_EQ(report["steps"][1]["launches"], 1);
  EXPECT_EQ(report["steps"][1]["wrong"], 0);
  EXPECT_GT(report["steps"][1]["tolerance"], 0);
  EXPECT_EQ(report["whole"]["wrong"], 0);
  EXPECT_EQ(report["fallbacks"].size(), 0U);
  EXPECT_EQ(report["memory"]["ratio"], 1.0);
}

/// In bf16 operators one at a time are farther off than a kernel that keeps values wider between them; asked to round
/// as they do, it is as far.
TEST_F(RunEmulated, SaysHowFarOperatorsOneAtATimeAreOff) {
  const std::string chain = folder.write("chain.hlo.txt", R"(HloModule chain
ENTRY main {
  x = bf16[64,64] parameter(0)
  y = bf16[64,64] parameter(1)
  a = bf16[64,64] multiply(x, y)
  b = bf16[64,64] add(a, x)
  c = bf16[64,64] multiply(b, b)
  d = bf16[64,64] subtract(c, y)
  e = bf16[64,64] tanh(d)
  ROOT r = bf16[64,64] multiply(e, a)
}
)");
  std::vector<std::string> command = {"run",    chain,     "--check", "--check-model", "--against", "eager",
                                      "--json", "--cache", cache};
  const json wide = stitch(command).json();
  command.emplace_back("--eager-precision");
  const json rounded = stitch(command).json();
  for (const char* part : {"ours", "eager"}) EXPECT_GT(wide["whole"]["relative_rms_error"][part], 0) << part;
  const auto error = [](const json& report, const char* part) {
    return report["whole"]["relative_rms_error"][part].get<double>();
  };
  EXPECT_LT(error(wide, "ours"), 0.7 * error(wide, "eager"));
  EXPECT_NEAR(error(rounded, "ours"), error(wide, "eager"), 0.02 * error(wide, "eager"));
  EXPECT_TRUE(wide["steps"][0].contains("relative_rms_error"));
  command.pop_back();
  std::erase(command, "--json");
  EXPECT_THAT(stitch(command).out, HasSubstr("of operators one at a time"));
  EXPECT_THAT(stitch({"run", chain, "--against", "eager"}).err, HasSubstr("needs --check or --check-model"));
}

/// Q, K and V of one input, and what an attention makes of them: two steps, on the host as on a GPU, and from a file.
TEST_F(RunEmulated, ProductsOfOneOperandAreOneStep) {
  const std::string heads = folder.write("heads.hlo.txt", R"(HloModule heads
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
ENTRY main {
  x = f16[40,64] parameter(0)
  wq = f16[64,64] parameter(1)
  wk = f16[64,64] parameter(2)
  wv = f16[64,32] parameter(3)
  bias = f16[64] parameter(4)
  xq = f16[40,64] dot(x, wq), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bq = f16[40,64] broadcast(bias), dimensions={1}
  q = f16[40,64] add(xq, bq)
  k = f16[40,64] dot(x, wk), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f16[40,32] dot(x, wv), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[40,40] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  low = f32[] constant(-inf)
  m = f32[40] reduce(s, low), dimensions={1}, to_apply=max
  bm = f32[40,40] broadcast(m), dimensions={0}
  d = f32[40,40] subtract(s, bm)
  e = f32[40,40] exponential(d)
  zero = f32[] constant(0)
  t = f32[40] reduce(e, zero), dimensions={1}, to_apply=add
  bt = f32[40,40] broadcast(t), dimensions={0}
  w = f32[40,40] divide(e, bt)
  h = f16[40,40] convert(w)
  ROOT y = f16[40,32] dot(h, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)");
  const std::string program = folder.at("heads.program");
  const std::vector<std::string> here = {"run", heads, "--products", "ours", "--check", "--json", "--cache", cache};
  std::vector<std::string> written = here, on_gpu = here;
  written.insert(written.end(), {"--program", program});
  on_gpu.insert(on_gpu.end(), {"--device", "gpu:0"});
  for (const Outcome& outcome :
       {stitch(written), stitch_on_a_gpu(on_gpu), stitch({"run", program, "--check", "--json"})}) {
    ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
    const json report = outcome.json();
    ASSERT_EQ(report["steps"].size(), 2U) << outcome.out;
    std::set<std::string> names;
    for (const json& step : report["steps"]) {
      EXPECT_EQ(step["wrong"], 0);
      EXPECT_EQ(step["launches"], 1);
      names.insert(step["name"]);
    }
    EXPECT_THAT(*names.rbegin(), HasSubstr("and 2 more in one"));
  }
}

/// The same on a GPU, the emulated one: fragments and the library's products on one stream.
TEST_F(RunEmulated, RunsOnAStreamOfAGpu) {
  const std::string program = folder.at("perceptron.stitch");
  const Outcome outcome = stitch_on_a_gpu({"run", model, "--device", "gpu:0", "--products", "library", "--check-model",
                                           "--price", "--json", "--cache", cache, "--program", program});
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const json report = outcome.json();
  EXPECT_EQ(report["on"], "a stream of gpu:0");
  ASSERT_EQ(report["steps"].size(), 3U);
  EXPECT_EQ(report["steps"][0]["kind"], "library");
  EXPECT_EQ(report["steps"][1]["kind"], "fragment");
  EXPECT_EQ(report["steps"][1]["launches"], 1);
  EXPECT_FALSE(report["steps"][1].contains("us")) << "the emulated driver has no times";
  EXPECT_FALSE(report.contains("replay_us"));
  EXPECT_GT(report["steps"][1]["predicted_us"].get<double>(), 0);
  EXPECT_EQ(report["whole"]["wrong"], 0);
  EXPECT_THAT(report["library"].get<std::string>(), HasSubstr("cuBLASLt"));
  EXPECT_EQ(report["fallbacks"].size(), 0U);
  // Steps are checked on host memory, kernels on the GPU all the same.
  const Outcome checked = stitch_on_a_gpu({"run", program, "--device", "gpu:0", "--check", "--json"});
  ASSERT_EQ(checked.code, 0) << checked.err << checked.out;
  EXPECT_EQ(checked.json()["on"], "gpu:0");
  EXPECT_EQ(checked.json()["why_by_steps"], "steps are checked");
  EXPECT_EQ(checked.json()["steps"][0]["compared"], 64);
  const Outcome none = stitch_on_a_gpu({"run", program, "--device", "gpu:7"});
  EXPECT_NE(none.code, 0);
  EXPECT_THAT(none.err, HasSubstr("cuDeviceGet"));
}

TEST_F(RunEmulated, TakesFilesAndAProgramRunsAgainWithoutAModel) {
  std::vector<float> identity(64, 0);
  for (int i = 0; i < 8; ++i) identity[i * 9] = 1;
  const std::string w = npy({8, 8}, identity, "w.npy");
  const std::string x = npy({4, 8}, std::vector<float>(32, 0.5F), "x.npy");
  const std::string program = folder.at("perceptron.stitch");
  const std::vector<std::string> inputs = {"--input", "w=" + w, "--input", "x=" + x};
  std::vector<std::string> command = {"run", model, "--cache", cache, "--program", program, "--output", folder.at("a")};
  command.insert(command.end(), inputs.begin(), inputs.end());
  const Outcome first = stitch(command);
  ASSERT_EQ(first.code, 0) << first.err << first.out;
  const Result<NpyArray> result = parse_npy(read_file(folder.at("a/0.y.npy")));
  ASSERT_TRUE(result) << result.error().message;
  float y = 0;
  std::memcpy(&y, result->data.data(), sizeof y);
  EXPECT_NEAR(y, 0.46211716, 1e-6) << "tanh(0.5)";
  command = {"run", program, "--output", folder.at("b")};
  command.insert(command.end(), inputs.begin(), inputs.end());
  const Outcome second = stitch(command);
  ASSERT_EQ(second.code, 0) << second.err << second.out;
  EXPECT_EQ(read_file(folder.at("a/0.y.npy")), read_file(folder.at("b/0.y.npy")));
  // A program that somebody changed is refused.
  std::string bytes = read_file(program);
  const std::size_t at = bytes.find("level 1");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'L';
  const Outcome tampered = stitch({"run", folder.write("tampered.stitch", bytes)});
  EXPECT_EQ(tampered.code, 3);
  EXPECT_THAT(tampered.err, HasSubstr("is not that of the program's contents"));
}

/// Of another format, cut off, or made for another GPU than the one that is there.
TEST_F(RunEmulated, AProgramThatMustNotRunSaysWhy) {
  const std::string program = folder.at("tanh.stitch");
  const std::string tanh = folder.write("tanh.hlo.txt", R"(HloModule tanh
ENTRY main { x = f32[24,64] parameter(0)
  ROOT y = f32[24,64] tanh(x) }
)");
  ASSERT_EQ(stitch({"run", tanh, "--target", "h100", "--cache", cache, "--program", program}).code, 0);
  const std::string bytes = read_file(program);
  std::string stale = bytes;
  const std::size_t version = stale.rfind("gversion\x03");
  ASSERT_NE(version, std::string::npos);
  stale[version + 8] = '\x17';
  struct Row {
    std::string contents;
    const char* reason;
  };
  for (const Row& row : {Row{stale, "a program of version 23 of the format; this Stitch reads 1 to 3: make it again"},
                         Row{bytes.substr(0, bytes.size() / 2), "CBOR"}, Row{"", "the file is empty"}}) {
    const Outcome refused = stitch({"run", folder.write("wrong.stitch", row.contents)});
    EXPECT_EQ(refused.code, 3) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(row.reason));
    EXPECT_THAT(refused.err, HasSubstr("wrong.stitch"));
  }
  EXPECT_EQ(stitch_on_a_gpu({"run", program, "--device", "gpu:0"}, "h100").code, 0);
  for (const auto& [gpu, own] : {std::pair("t4", "sm_75"), std::pair("l4", "sm_89"), std::pair("b200", "sm_100")}) {
    const Outcome refused = stitch_on_a_gpu({"run", program, "--device", "gpu:0"}, gpu);
    EXPECT_NE(refused.code, 0) << gpu;
    EXPECT_THAT(refused.err, HasSubstr(std::string("was compiled for sm_90a, this GPU is ") + own));
  }
}

TEST_F(RunEmulated, ALockIsKeptTo) {
  const std::string lock = folder.at("stitch.lock"), again = folder.at("again.lock");
  ASSERT_EQ(stitch({"run", model, "--cache", cache, "--write-lock", lock}).code, 0);
  ASSERT_EQ(stitch({"run", model, "--cache", cache, "--lock", lock, "--write-lock", again}).code, 0);
  EXPECT_EQ(read_file(lock), read_file(again));
  std::string text = read_file(lock);
  text[text.find("plan ") + 5] = text[text.find("plan ") + 5] == '0' ? '1' : '0';
  const Outcome refused = stitch({"run", model, "--cache", cache, "--lock", folder.write("other.lock", text)});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("line 4 of the lock"));
}

TEST_F(RunEmulated, SaysWhichInputDoesNotFit) {
  const std::string x = npy({8, 4}, std::vector<float>(32, 1), "x.npy");
  const auto error = [&](const std::string& input) {
    return stitch({"run", model, "--cache", cache, "--input", input}).err;
  };
  EXPECT_THAT(error("x=" + x), HasSubstr("it holds f4[8,4], the model takes f32[4,8]"));
  EXPECT_THAT(error("z=" + x), HasSubstr("the model has no input of that name; it has x, w"));
  EXPECT_THAT(error("x"), HasSubstr("NAME=FILE.npy is wanted"));
}

TEST_F(RunEmulated, OutlinesWithoutRunning) {
  const Outcome outcome = stitch({"run", model, "--outline", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  EXPECT_EQ(outcome.json()["steps"].size(), 3U);
  EXPECT_EQ(outcome.json()["library"], "not run");
}

}  // namespace
}  // namespace stitch::cli
