#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <thread>

#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// `stitch serve` in a folder of the test's.
class ServeDaemon : public testing::Test {
 protected:
  void SetUp() override {
    RealProcessLauncher launcher;
    ProcessOptions options;
    options.arguments = {stitch_program, "serve", "--db", folder.at("s.db"), "--socket", folder.at("s.sock")};
    auto started = launcher.start(options);
    ASSERT_TRUE(started.ok()) << started.error().message;
    server = *std::move(started);
    for (int i = 0; i < 300 && stitch({"show", "plans", "--server", address}).code != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

  Folder folder;
  std::string address = "unix:" + folder.at("s.sock");
  std::unique_ptr<Process> server;
};

TEST_F(ServeDaemon, AMissIsExplainedByTheServer) {
  const std::string model = folder.write("softmax.hlo.txt", softmax_hlo);
  const auto explained = [&](const std::string& file) {
    const json report = stitch({"explain-miss", file, "--server", address, "--json"}).json();
    EXPECT_EQ(report["fragments"].size(), 1U) << report;
    return report["fragments"][0];
  };
  const json nothing = explained(model);
  EXPECT_EQ(nothing["found"], false);
  EXPECT_EQ(nothing["differs"][0]["field"], "fragment");
  EXPECT_EQ(stitch({"show", "jobs", "--server", address, "--json"}).json().size(), 0U) << "nothing is begun";
  EXPECT_EQ(stitch({"show", "plans", "--server", address, "--json"}).json().size(), 0U) << "nothing is predicted";
  EXPECT_EQ(explained(model)["found"], false) << "what is explained stays what it was";
  ASSERT_EQ(stitch({"tune", model, "--server", address}).code, 0);
  EXPECT_EQ(explained(model)["found"], true);

  const json shape = explained(folder.write("taller.hlo.txt", taller_softmax_hlo()));
  ASSERT_EQ(shape["differs"].size(), 1U) << shape;
  EXPECT_EQ(shape["differs"][0]["field"], "shape");
  EXPECT_THAT(shape["differs"][0]["wanted"].get<std::string>(), HasSubstr("40"));
  EXPECT_THAT(shape["differs"][0]["stored"].get<std::string>(), HasSubstr("24"));
}

TEST_F(ServeDaemon, AModelIsTunedByTheServerAndItsPlansAreShown) {
  const std::string model = folder.write("softmax.hlo.txt", softmax_hlo);
  const Outcome tuned = stitch({"tune", model, "--server", address, "--json"});
  ASSERT_EQ(tuned.code, 0) << tuned.out << tuned.err;
  EXPECT_EQ(tuned.json()["verified"]["kernels"], tuned.json()["kernels"]);

  const json startup = stitch({"bench", model, "--startup", "--server", address, "--repeat", "2", "--json"}).json();
  ASSERT_EQ(startup["phases"].size(), 5U) << startup;
  EXPECT_EQ(startup["phases"][2]["name"], "fetch");
  EXPECT_EQ(startup["planned"], 1);
  EXPECT_EQ(startup["made"].size(), 6U);
  for (const auto& [what, count] : startup["made"].items()) EXPECT_EQ(count, 0) << what;
  const Outcome unknown =
      stitch({"bench", folder.write("other.hlo.txt", "HloModule other"), "--startup", "--server", address});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("no program of model"));

  const json plans = stitch({"show", "plans", "--server", address, "--json"}).json();
  ASSERT_EQ(plans.size(), 1U);
  const std::string id = plans[0]["id"];
  // A server and its database tell the same.
  const json from_server = stitch({"show", "plan", id, "--server", address, "--json"}).json();
  const json from_database = stitch({"show", "plan", id, "--db", folder.at("s.db"), "--json"}).json();
  EXPECT_EQ(from_server, from_database);
  // How far predictions may be off goes all the way, from the model to who asks: of a kernel, of a plan, of a report.
  double uncertainty_us = 0;
  for (const json& launch : from_server["launches"]) {
    EXPECT_GT(launch["uncertainty_us"], 0);
    uncertainty_us += launch["uncertainty_us"].get<double>();
  }
  EXPECT_DOUBLE_EQ(from_server["uncertainty_us"].get<double>(), uncertainty_us);
  EXPECT_DOUBLE_EQ(tuned.json()["uncertainty_us"].get<double>(), uncertainty_us);
  EXPECT_THAT(stitch({"show", "plan", id, "--server", address}).out,
              HasSubstr(fmt::format(" ± {:.2f} us", uncertainty_us)));
  const std::string key = plans[0]["fragment"];
  EXPECT_EQ(stitch({"show", "fragment", key, "--server", address, "--json"}).out,
            stitch({"show", "fragment", key, "--db", folder.at("s.db"), "--json"}).out);
  EXPECT_THAT(stitch({"show", "jobs", "--server", address}).out, HasSubstr("done"));
  EXPECT_EQ(stitch({"show", "plan", id, "--server", address, "--source"}).code, 1);

  const Outcome bad = stitch({"tune", folder.write("cut.onnx", "\x08\x07\x12"), "--server", address});
  EXPECT_NE(bad.code, 0);
  EXPECT_THAT(bad.err, HasSubstr("cut.onnx"));

  ::kill(server->id(), SIGTERM);
  const auto ended = server->wait(deadline_in(60));
  ASSERT_TRUE(ended.ok());
  EXPECT_TRUE(ended->success()) << ended->describe();
  EXPECT_EQ(stitch({"verify", "--db", folder.at("s.db"), "--json"}).json()["right"], 1);
}

TEST_F(ServeDaemon, AnInterruptCancelsTheJob) {
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = {stitch_program, "tune", STITCH_SOURCE_DIR "/bench/models/hlo/bert_train.hlo.txt.gz", "--server",
                       address};
  auto tuning = launcher.start(options);
  ASSERT_TRUE(tuning.ok());
  json jobs;
  for (int i = 0; i < 300 && (jobs.empty() || jobs[0]["state"] != "running"); ++i) {
    jobs = stitch({"show", "jobs", "--server", address, "--json"}).json();
  }
  ASSERT_FALSE(jobs.empty());
  ::kill((*tuning)->id(), SIGINT);
  const auto ended = (*tuning)->wait(deadline_in(120));
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->code, 130) << (*tuning)->standard_error();
  jobs = stitch({"show", "jobs", "--server", address, "--json"}).json();
  EXPECT_TRUE(jobs[0]["cancel_requested"] == true || jobs[0]["state"] == "cancelled") << jobs;
}

}  // namespace
}  // namespace stitch::cli
