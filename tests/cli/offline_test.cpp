#include <gmock/gmock.h>

#include "tests/base/test_variable.h"
#include "tests/cli/run_stitch.h"

// A fragment's way through the commands, without a server: tuned, shown, moved, verified, explained.
namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class OfflineEmulated : public testing::Test {
 protected:
  Outcome tune(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {"tune",   model, "--db", database, "--json", "--cache", folder.at("cache"),
                                        "--quiet"};
    command.insert(command.end(), more.begin(), more.end());
    return stitch(command);
  }

  Folder folder;
  std::string model = folder.write("softmax.hlo.txt", softmax_hlo);
  std::string database = folder.at("plans.db");
};

constexpr const char* layers_hlo = R"(HloModule layers

ENTRY main {
  x = f16[64,96] parameter(0)
  a = f16[96,96] parameter(1)
  b = f16[96,96] parameter(2)
  c = f16[96,96] parameter(3)
  first = f16[64,96] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bent = f16[64,96] tanh(first)
  second = f16[64,96] dot(bent, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT third = f16[64,96] dot(second, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";

TEST_F(OfflineEmulated, ProductsBecomeKernels) {
  const std::string layers = folder.write("layers.hlo.txt", layers_hlo);
  const Outcome found = stitch({"contractions", layers, "--json", "--source"});
  ASSERT_EQ(found.code, 0) << found.err;
  const std::size_t end = found.out.find('\n');
  EXPECT_THAT(json::parse(found.out.substr(0, end))["name"].get<std::string>(), HasSubstr("tanh"));
  const json product = json::parse(found.out.substr(end));  // the next line: equal ones once
  EXPECT_EQ(product["count"], 2) << found.out;
  EXPECT_THAT(product["schedule"].get<std::string>(), HasSubstr("mma_m16n8k16"));
  EXPECT_THAT(product["source"].get<std::string>(), HasSubstr("copy_tile<LeftTile"));
  EXPECT_THAT(product["resources"].get<std::string>(), HasSubstr("registers"));
  const auto plain = [&](const std::string& out) { return json::parse(out.substr(out.find('\n'))); };
  EXPECT_LE(product["predicted_us"],
            plain(stitch({"contractions", layers, "--json", "--without", "no-pipelining"}).out)["predicted_us"]);
  EXPECT_TRUE(plain(stitch({"contractions", layers, "--target", "t4", "--json"}).out).contains("why_none"));
}

TEST_F(OfflineEmulated, ProductsAreListedAsProgramsHaveThem) {
  const std::string model = folder.write("heads.hlo.txt", R"(HloModule heads

ENTRY main {
  x = f16[256,96] parameter(0)
  a = f16[96,128] parameter(1)
  b = f16[96,64] parameter(2)
  first = f16[256,128] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  second = f16[256,64] dot(x, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT all = (f16[256,128], f16[256,64]) tuple(first, second)
}
)");
  const json joined = stitch({"contractions", model, "--joined", "--json"}).json();
  EXPECT_EQ(joined["problem"], "f16 1×[256,96]·[96,64+128] → f16, f16");
  EXPECT_LT(joined["predicted_us"], joined["library_us"]) << "two calls";
  EXPECT_NE(stitch({"contractions", "--problems", model, "--joined"}).code, 0);
}

TEST_F(OfflineEmulated, StepsHaveAPrice) {
  const std::string layers = folder.write("layers.hlo.txt", layers_hlo);
  const json priced = stitch({"run", layers, "--outline", "--price", "--products", "ours", "--json"}).json();
  double sum = 0;
  for (const json& step : priced["steps"]) sum += step["predicted_us"].get<double>();
  EXPECT_GT(sum, 0);
  EXPECT_DOUBLE_EQ(sum, priced["price"]["predicted_us"].get<double>());
  const json run = stitch({"run", layers, "--price", "--products", "ours", "--json"}).json();
  EXPECT_DOUBLE_EQ(run["price"]["predicted_us"].get<double>(), sum);
}

TEST_F(OfflineEmulated, AttentionsOfAListAreRanked) {
  const std::string list = folder.write("attentions.json", R"([
    {"name": "prefill", "dtype": "bf16", "heads": 32, "kv_heads": 8, "rows": 1024, "keys": 1024, "depth": 64,
     "causal": true}])");
  const json prefill = stitch({"contractions", "--problems", list, "--json"}).json();
  EXPECT_EQ(prefill["problem"], "bf16 32×[1024,64]·[1024,64], softmax, ·[1024,64] → bf16");
  EXPECT_LT(prefill["turns"], 12) << "half of the keys are hidden";
  EXPECT_LT(prefill["predicted_us"], prefill["library_us"]);
  EXPECT_GT(prefill["tile"]["keys"], 0);
  for (const auto& [text, why] :
       {std::pair(R"([{"dtype": "f16", "heads": 8, "kv_heads": 3, "rows": 1, "keys": 8, "depth": 8}])", "'kv_heads'"),
        std::pair(R"([{"dtype": "f16", "rows": 1, "keys": -8, "depth": 8}])", "'keys'"),
        std::pair(R"([{"dtype": "f16", "rows": 1, "keys": 8, "depth": 8, "causal": 1}])", "'causal'")}) {
    const Outcome wrong = stitch({"contractions", "--problems", folder.write("wrong.json", text)});
    EXPECT_NE(wrong.code, 0);
    EXPECT_THAT(wrong.err, HasSubstr(why));
  }
}

TEST_F(OfflineEmulated, ProductsOfAListAreRanked) {
  const std::string list = folder.write("products.json", R"([
    {"name": "layer", "dtype": "bf16", "m": 512, "n": 768, "k": 3072, "right": "turned"},
    {"name": "scores", "dtype": "f16", "batch": 12, "m": 128, "n": 128, "k": 64, "result": "f32"}])");
  const Outcome found = stitch({"contractions", "--problems", list, "--target", "a100", "--json"});
  ASSERT_EQ(found.code, 0) << found.err;
  const json layer = json::parse(found.out.substr(0, found.out.find('\n')));
  EXPECT_EQ(layer["name"], "layer");
  EXPECT_EQ(layer["target"], "a100");
  EXPECT_GT(layer["enumerated"], 1000);
  EXPECT_GT(layer["library_us"], 0);
  EXPECT_THAT(found.out, HasSubstr("12×[128,64]·[64,128]"));
  for (const auto& [text, why] : {std::pair("{}", "no JSON array"), std::pair(R"([{"dtype": "f16", "m": -1}])", "'m'"),
                                  std::pair(R"([{"dtype": "f17", "m": 1, "n": 1, "k": 1}])", "f17"),
                                  std::pair(R"([{"dtype": "f16", "m": 1, "n": 1, "k": 1, "left": "up"}])", "'left'"),
                                  std::pair(R"([{"dtype": "f16", "m": 1, "n": 1, "k": 1, "left": 1}])", "'left'"),
                                  std::pair(R"([{"dtype": "f16", "m": 1, "n": 1, "k": 1, "result": 5}])", "'result'"),
                                  std::pair(R"([{"dtype": "f16", "m": 1, "n": 1, "k": 1, "name": 5}])", "'name'")}) {
    const Outcome refused = stitch({"contractions", "--problems", folder.write("wrong.json", text)});
    EXPECT_NE(refused.code, 0) << text;
    EXPECT_THAT(refused.err, HasSubstr(why));
  }
  EXPECT_EQ(stitch({"contractions"}).code, 2);
  EXPECT_THAT(stitch({"contractions", "--problems", list, "--without", "nothing"}).err, HasSubstr("two-stages"));
}

TEST_F(OfflineEmulated, ProgramsMultiplyWithKernelsOfOurs) {
  const std::string layers = folder.write("layers.hlo.txt", R"(HloModule layers

ENTRY main {
  x = bf16[24,40] parameter(0)
  a = bf16[40,64] parameter(1)
  b = bf16[64,16] parameter(2)
  first = bf16[24,64] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bent = bf16[24,64] tanh(first)
  ROOT second = bf16[24,16] dot(bent, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)");
  const Outcome ours = stitch({"run", layers, "--products", "ours", "--check", "--json"});
  ASSERT_EQ(ours.code, 0) << ours.out << ours.err;
  EXPECT_THAT(ours.json()["library"].get<std::string>(), HasSubstr("no library calls"));
  const Outcome library = stitch({"run", layers, "--products", "library", "--check", "--json"});
  EXPECT_THAT(library.json()["library"].get<std::string>(), Not(HasSubstr("no library calls")));
}

TEST_F(OfflineEmulated, TunedPlansAreStoredShownMovedAndVerified) {
  const Outcome tuned = tune();
  ASSERT_EQ(tuned.code, 0) << tuned.out << tuned.err;
  const json report = tuned.json();
  EXPECT_EQ(report["verified"]["kernels"], report["kernels"]);
  EXPECT_EQ(report["verified"]["wrong"], 0);

  const json plans = stitch({"show", "plans", "--db", database, "--json"}).json();
  ASSERT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans[0]["status"], "incumbent");
  EXPECT_EQ(plans[0]["verified_share"], 1.0);
  const std::string id = plans[0]["id"], key = plans[0]["fragment"];
  const json plan = stitch({"show", "plan", id, "--db", database, "--source", "--json"}).json();
  EXPECT_EQ(plan["launches"].size(), report["launches"].get<std::size_t>());
  EXPECT_THAT(plan["launches"][0]["source"].get<std::string>(), HasSubstr("__global__"));
  EXPECT_THAT(stitch({"show", "plan", id, "--db", database}).out, HasSubstr("launch 0"));
  EXPECT_THAT(stitch({"show", "models", "--db", database}).out, HasSubstr("softmax.hlo.txt"));
  EXPECT_THAT(stitch({"show", "devices", "--db", database}).out, HasSubstr("emulated"));
  EXPECT_EQ(stitch({"show", "plan", std::string(32, '0'), "--db", database}).code, 3);

  // A fragment that is shown as JSON is a model file.
  const Outcome fragment = stitch({"show", "fragment", key, "--db", database, "--json"});
  const json again = stitch({"plan", folder.write("fragment.json", fragment.out), "--json"}).json();
  EXPECT_EQ(again["launches"], report["launches"]);
  EXPECT_EQ(again["bytes"], report["bytes"]);

  // What is served and what was tried of it stays.
  EXPECT_EQ(stitch({"prune", "--db", database, "--older-than", "0", "--json"}).json(),
            (json{{"jobs", 0}, {"plans", 0}, {"kernels", 0}, {"artifacts", 0}, {"models", 0}}));
  EXPECT_EQ(stitch({"prune", "--db", folder.at("none.db")}).code, 3);

  const std::string portable = folder.at("plans.stitch");
  EXPECT_EQ(stitch({"export", portable, "--db", database, "--json"}).json()["fragments"], 1);
  EXPECT_EQ(stitch({"import", portable, "--db", folder.at("other.db"), "--json"}).json()["plans"], 1);
  EXPECT_EQ(stitch({"import", portable, "--db", folder.at("other.db"), "--json"}).json()["plans"], 0);
  for (const std::vector<std::string>& place :
       {std::vector<std::string>{portable}, std::vector<std::string>{"--db", folder.at("other.db")}}) {
    std::vector<std::string> command = {"verify", "--json"};
    command.insert(command.end(), place.begin(), place.end());
    const Outcome verified = stitch(command);
    EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
    EXPECT_EQ(verified.json()["right"], 1);
    EXPECT_GE(verified.json()["plans"][0]["compared"], 24 * 64 + 64);
  }
  EXPECT_EQ(stitch({"verify", portable, "--most-bytes", "100", "--json"}).json()["skipped"], 1);

  const std::string bytes = read_file(portable);
  EXPECT_EQ(stitch({"verify", folder.write("cut.stitch", bytes.substr(0, bytes.size() / 2))}).code, 3);
}

TEST_F(OfflineEmulated, WhatIsVerifiedIsNotTunedAgain) {
  ASSERT_EQ(tune().code, 0);
  const json again = tune().json();
  EXPECT_EQ(again["verified"]["kernels"], again["kernels"]);
  EXPECT_EQ(again["seconds"]["verify"], 0.0);
  EXPECT_EQ(stitch({"show", "plans", "--db", database, "--json"}).json().size(), 1U);
}

TEST_F(OfflineEmulated, ADiskThatIsFullIsSaidAndLeavesWhatWasThere) {
  ASSERT_EQ(tune().code, 0);
  const std::string norm = STITCH_SOURCE_DIR "/bench/models/fragments/row_and_column_sums_1024.hlo.txt.gz";
  // Files may not grow beyond a size that the database has already: what a full disk does, without a disk.
  const Outcome full =
      run({"/bin/sh", "-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" tune \"$1\" --db \"$2\" --cache \"$3\" --quiet",
           stitch_program, norm, database, folder.at("cache")});
  EXPECT_NE(full.code, 0) << full.out;
  EXPECT_LT(full.code, 128) << full.err;
  EXPECT_NE(full.err, "");
  EXPECT_EQ(stitch({"show", "plans", "--db", database, "--json"}).json().size(), 1U);
  EXPECT_EQ(stitch({"verify", "--db", database, "--json"}).json()["right"], 1);
}

TEST_F(OfflineEmulated, ADatabaseWithoutAPlaceIsNamed) {
  database = "/proc/self/stitch.db";
  const Outcome outcome = tune();
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.json()["error"]["message"].get<std::string>(), HasSubstr("/proc/self"));
}

TEST_F(OfflineEmulated, BenchWithoutAGpuCountsAndSaysSo) {
  const std::string hlo = folder.write("softmax.hlo.txt", softmax_hlo);
  const Outcome outcome =
      stitch({"bench", hlo, "--json", "--device", "emulated:counts", "--predicted", "--cache", folder.at("cache")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json counted = outcome.json();
  EXPECT_FALSE(counted.contains("time_us")) << counted;
  EXPECT_GT(counted["sectors"], 0);
  EXPECT_EQ(counted["kernels"], 1);
  EXPECT_EQ(counted["correct"], true);
}

TEST_F(OfflineEmulated, ExplainSaysWhyAndWhatWasCounted) {
  const std::string page = folder.at("page.html");
  const Outcome outcome =
      stitch({"explain", model, "--json", "--html", page, "--cache", folder.at("cache"), "--quiet"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json fragment = outcome.json()["fragments"][0];
  ASSERT_GE(fragment["kernels"].size(), 1U);
  for (const json& kernel : fragment["kernels"]) {
    double sum = 0;
    bool binds = false;
    for (const json& term : kernel["predicted"]["terms"]) {
      sum += term["us"].get<double>();
      binds = binds || term["name"] == kernel["predicted"]["binding"];
    }
    EXPECT_GT(sum, 0);
    EXPECT_TRUE(binds) << kernel["predicted"];
    EXPECT_EQ(kernel["counted"]["of_blocks"], kernel["blocks"]);
    EXPECT_GT(kernel["counted"]["global_loads"]["unique_sectors"], 0);
    EXPECT_FALSE(kernel["groups"].empty());
  }
  // Between any two kernels of a way there is a reason.
  for (const json& boundary : fragment["boundaries"]) EXPECT_FALSE(boundary["why"].get<std::string>().empty());
  const std::string html = read_file(page);
  EXPECT_THAT(html, HasSubstr("<svg"));
  EXPECT_THAT(html, HasSubstr("__global__"));
  EXPECT_EQ(html.find("http://"), html.find("http://www.w3.org/2000/svg"));  // nothing comes from elsewhere
  EXPECT_EQ(html.find("<script"), std::string::npos);

  const Outcome text = stitch({"explain", model, "--no-run"});
  EXPECT_THAT(text.out, HasSubstr("bound by"));
  EXPECT_EQ(text.out.find("counted"), std::string::npos);
  EXPECT_EQ(stitch({"explain", model, "--fragment", "nothing"}).code, 3);
}

// Without a fragment, too: what a model's products would be by kernels of ours, and how their tiles follow one another.
TEST_F(OfflineEmulated, ExplainDrawsThePipelinesOfProducts) {
  const std::string layers = folder.write("layers.hlo.txt", layers_hlo), page = folder.at("page.html");
  const Outcome outcome = stitch({"explain", layers, "--no-run", "--json", "--html", page, "--quiet"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json products = outcome.json()["products"];
  ASSERT_FALSE(products.empty());
  for (const json& product : products) {
    const json& pipeline = product["pipeline"];
    EXPECT_EQ(pipeline["tiles"].size(), std::min<std::int64_t>(12, pipeline["turns"])) << product;
    EXPECT_GE(pipeline["stages"], 1);
    // The turns of one block are some of the whole time.
    EXPECT_LT(
        pipeline["turns"].get<double>() * (pipeline["busy_us"].get<double>() + pipeline["waits_us"].get<double>()),
        product["predicted_us"].get<double>())
        << product;
  }
  EXPECT_THAT(read_file(page), HasSubstr("place 0"));
  EXPECT_THAT(stitch({"explain", layers, "--no-run"}).out, HasSubstr("pipeline: "));
}

Outcome with(const std::string& variable, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"/usr/bin/env", variable, stitch_program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run(std::move(command));
}

TEST(Environment, VariablesAreListedAndTyposNamed) {
  const Outcome listed = with("STITCH_MODE=replay", {"env", "--json"});
  ASSERT_EQ(listed.code, 0) << listed.err;
  EXPECT_EQ(listed.err, "");
  const json document = listed.json();
  EXPECT_TRUE(document["unknown"].empty());
  bool found = false;
  for (const json& each : document["variables"]) found |= each["name"] == "STITCH_MODE" && each["value"] == "replay";
  EXPECT_TRUE(found);
  const Outcome typo = with("STITCH_MODES=replay", {"env"});
  EXPECT_THAT(typo.out, HasSubstr("STITCH_MODES               is set and read by nobody here"));
  EXPECT_THAT(with("STITCH_MOD=replay", {"show", "plans", "--db", "/nowhere/s.db"}).err,
              HasSubstr("stitch: STITCH_MOD is set, and nothing here reads it"));
}

TEST(Environment, TheEnvironmentComesBeforeTheFileAndThatBeforeTheDefault) {
  const Folder folder;
  const std::string file = folder.write(
      "options.toml", "effort = \"full\"  # of the night\ndevice = \"cuda\"\n[torch]\nbudget_seconds = 7\n");
  const TestVariable config("STITCH_CONFIG", file), effort("STITCH_EFFORT", "none");
  const json document = stitch({"env", "--json"}).json();
  json found;
  for (const json& each : document["variables"]) found[each["name"]] = json::array({each["value"], each["origin"]});
  EXPECT_EQ(found["STITCH_EFFORT"], json::array({"none", "environment"}));
  EXPECT_EQ(found["STITCH_DEVICE"], json::array({"cuda", file}));
  EXPECT_EQ(found["STITCH_BUDGET_SECONDS"], json::array({"0", "default"})) << "the table is PyTorch's alone";
  EXPECT_EQ(found["STITCH_NVRTC"], json::array({nullptr, nullptr}));
}

}  // namespace
}  // namespace stitch::cli
