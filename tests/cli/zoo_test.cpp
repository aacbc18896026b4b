// stitch zoo: a folder of models, killed on the way, every fragment tuned once, the same page at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "db/sqlite_store.h"
#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// Models of a moment each; two of them share a fragment with a third, which is the first under another name.
const std::vector<std::string> small_models = {"along_axis", "cross_entropy_gradient",
                                               "cumulative", "dropout",
                                               "layout",     "narrow_sums",
                                               "open_loop",  "pooling",
                                               "reductions", "scan"};

/// The keys of the lines "3 of 12: KEY name, …" that a zoo writes as it stores fragments.
std::vector<std::string> told_keys(const std::string& errors) {
  std::vector<std::string> keys;
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(": ");
    if (line.find(" of ") < at && at != std::string::npos && line.size() > at + 34)
      keys.push_back(line.substr(at + 2, 32));
  }
  return keys;
}

class ZooEmulatedSlow : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(models / "twins");
    for (const std::string& name : small_models) {
      const std::string file = name + ".hlo.txt";
      fs::copy_file(fs::path(STITCH_SOURCE_DIR) / "tests/data/hlo" / file, models / file);
    }
    fs::copy_file(models / "dropout.hlo.txt", models / "twins/dropout_again.hlo.txt");
    std::ofstream(models / "broken.hlo.txt") << "HloModule broken\nENTRY main {\n  ROOT x = f32[2] add(a, b)\n}\n";
    std::ofstream(models / "notes.md") << "no model";
  }

  std::vector<std::string> command(const std::string& database, const std::string& page) const {
    return {stitch_program,  "zoo",     models.string(),    "--db",  folder.at(database), "--html",
            folder.at(page), "--cache", folder.at("cache"), "--json"};
  }

  std::unique_ptr<db::Store> open_store(const std::string& database) const {
    static const SystemClock clock;
    db::SqliteOptions options;
    options.path = folder.at(database);
    auto store = db::open_sqlite_store(options, clock);
    EXPECT_TRUE(store.ok()) << (store ? "" : store.error().message);
    return store ? *std::move(store) : nullptr;
  }

  const Folder folder;
  const fs::path models = folder.path() / "models";
};

TEST_F(ZooEmulatedSlow, KilledThreeTimesEveryFragmentIsTunedOnceAndThePageIsTheSame) {
  const Outcome whole = run(command("whole.db", "whole.html"));
  ASSERT_EQ(whole.code, 1) << "one model is broken" << whole.err;
  const json expected = whole.json();
  const std::int64_t distinct = expected["fragments"]["distinct"];
  ASSERT_EQ(expected["fragments"]["tuned_now"], distinct);
  ASSERT_GE(distinct, 8);

  std::map<std::string, int> told;
  constexpr int kills = 3;
  RealProcessLauncher launcher;
  for (int kill = 0; kill < kills; ++kill) {
    ProcessOptions options;
    options.arguments = command("killed.db", "killed.html");
    auto zoo = launcher.start(options);
    ASSERT_TRUE(zoo.ok()) << zoo.error().message;
    while ((*zoo)->running() && told_keys((*zoo)->standard_error()).size() < 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_TRUE((*zoo)->running()) << "it ended before it could be killed: " << (*zoo)->standard_error();
    (*zoo)->kill();
    ASSERT_TRUE((*zoo)->wait(deadline_in(60)).ok());
    for (const std::string& key : told_keys((*zoo)->standard_error())) ++told[key];
    EXPECT_FALSE(fs::exists(folder.at("killed.html"))) << "a page of half a zoo";
  }
  const std::size_t told_by_killed = told.size();
  const Outcome last = run(command("killed.db", "killed.html"));
  ASSERT_EQ(last.code, 1) << last.err;
  for (const std::string& key : told_keys(last.err)) ++told[key];

  // A kill may fall between storing a fragment and telling of it, but what was stored is never told of again.
  for (const auto& [key, times] : told) EXPECT_EQ(times, 1) << "tuned more than once: " << key;
  EXPECT_GE(told.size() + kills, static_cast<std::size_t>(distinct));
  const json after = last.json();
  EXPECT_EQ(after["fragments"]["distinct"], distinct);
  EXPECT_GE(after["fragments"]["tuned_before"], told_by_killed);
  EXPECT_EQ(
      after["fragments"]["tuned_before"].get<std::int64_t>() + after["fragments"]["tuned_now"].get<std::int64_t>(),
      distinct);
  EXPECT_EQ(read_file(folder.at("killed.html")), read_file(folder.at("whole.html")));
  EXPECT_EQ(after["models"], expected["models"]);

  // In the store each fragment has one plan, which was promoted once.
  const auto store = open_store("killed.db");
  ASSERT_TRUE(store);
  const auto plans = store->list_plans({}, {.limit = 1000});
  const auto promotions = store->list_promotions({.limit = 1000});
  const auto fragments = store->list_fragments({.limit = 1000});
  ASSERT_TRUE(plans.ok() && promotions.ok() && fragments.ok());
  EXPECT_EQ(std::ssize(fragments->items), distinct);
  EXPECT_EQ(std::ssize(plans->items), distinct);
  EXPECT_EQ(std::ssize(promotions->items), distinct);
  for (const db::PlanRecord& plan : plans->items) EXPECT_GT(plan.verified_share, 0);

  // Once more, there is nothing to do.
  const Outcome again = run(command("killed.db", "again.html"));
  EXPECT_EQ(again.json()["fragments"]["tuned_now"], 0);
  EXPECT_EQ(read_file(folder.at("again.html")), read_file(folder.at("whole.html")));
}

class ZooEmulated : public testing::Test {
 protected:
  Outcome zoo(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {
        "zoo", "--db", folder.at("zoo.db"), "--cache", folder.at("cache"), "--html", folder.at("zoo.html"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return stitch(arguments);
  }
  const Folder folder;
};

TEST_F(ZooEmulated, ABrokenModelIsARowAndWhatIsNotOursIsSaid) {
  const std::string good = folder.write("good.hlo.txt", softmax_hlo);
  const std::string bad = folder.write("bad.hlo.txt", "HloModule bad\nENTRY main {\n  ROOT x = f32[2] add(a, b)\n}\n");
  const std::string sorts = folder.write("sorts.hlo.txt", R"(HloModule sorts
ENTRY main {
  x = f32[64] parameter(0)
  y = f32[64] tanh(x)
  ROOT z = f32[64] custom-call(y), custom_call_target="ordered"
}
)");
  const std::string list = folder.write("zoo.list", "# three models\ngood.hlo.txt\n\nbad.hlo.txt\nsorts.hlo.txt\n");
  const Outcome outcome = zoo({"@" + list});
  EXPECT_EQ(outcome.code, 1);
  const json rows = outcome.json()["models"];
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0]["model"], "good.hlo.txt");
  EXPECT_EQ(rows[0]["share"], 1.0);
  EXPECT_EQ(rows[0]["after"]["launches"], 1);
  EXPECT_GT(rows[0]["before"]["launches"], 5);
  EXPECT_GT(rows[0]["peak_bytes"]["before"], rows[0]["peak_bytes"]["after"]);
  EXPECT_THAT(rows[1]["error"].get<std::string>(), HasSubstr("line 3"));
  EXPECT_EQ(rows[2]["operators"], 2);
  EXPECT_EQ(rows[2]["ours"], 1) << "nobody here knows the call";
  const std::string page = read_file(folder.at("zoo.html"));
  EXPECT_THAT(page, HasSubstr("bad.hlo.txt"));
  EXPECT_THAT(page, HasSubstr("stays with others: custom-call ordered"));
  for (const char* elsewhere : {"http", "src=", "href=", "url(", "<script"})
    EXPECT_THAT(page, Not(HasSubstr(elsewhere)));
  EXPECT_THAT(stitch({"show", "models", "--db", folder.at("zoo.db")}).out, HasSubstr("good.hlo.txt"));
}

TEST_F(ZooEmulated, ABudgetLeavesTheRestAndNoneOnlyPredicts) {
  const std::string model = folder.write("softmax.hlo.txt", softmax_hlo);
  const Outcome none_left = zoo({model, "--budget", "0s"});
  EXPECT_EQ(none_left.code, 0) << none_left.err;
  const json row = none_left.json()["models"][0];
  EXPECT_EQ(row["fragments"]["left"], 1);
  EXPECT_EQ(row["ours"], 0);
  EXPECT_EQ(row["after"], row["before"]) << "what has no plan runs as before";
  EXPECT_GT(row["before"]["launches"], 1);

  const json predicted = zoo({model, "--effort", "none"}).json();
  EXPECT_EQ(predicted["models"][0]["ours"], predicted["models"][0]["operators"]);
  EXPECT_THAT(stitch({"show", "plans", "--db", folder.at("zoo.db")}).out, HasSubstr("predicted"));
  EXPECT_EQ(zoo({model, "--effort", "none"}).json()["fragments"]["tuned_now"], 0);
  EXPECT_EQ(zoo({model}).json()["fragments"]["tuned_now"], 1) << "a prediction is not verified";
  EXPECT_EQ(zoo({model, "--budget", "2h"}).json()["fragments"]["tuned_before"], 1);
}

TEST_F(ZooEmulated, WhatCannotBeComparedIsSaidAndNotTunedAgain) {
  // The bits of what is rounded are not told.
  const std::string model = folder.write("bits.hlo.txt", R"(HloModule bits
ENTRY main {
  x = f32[64] parameter(0)
  y = f32[64] tanh(x)
  ROOT z = s32[64] bitcast-convert(y)
}
)");
  EXPECT_EQ(zoo({model, "--effort", "none"}).json()["models"][0]["fragments"]["uncompared"], 0) << "nobody tried";
  for (const bool again : {false, true}) {
    const Outcome outcome = zoo({model});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const json found = outcome.json();
    EXPECT_EQ(found["fragments"][again ? "tuned_before" : "tuned_now"], 1);
    EXPECT_EQ(found["fragments"]["left"], 0);
    EXPECT_EQ(found["models"][0]["fragments"]["tuned"], 1);
    EXPECT_EQ(found["models"][0]["fragments"]["uncompared"], 1);
  }
  EXPECT_THAT(read_file(folder.at("zoo.html")), HasSubstr("1 of 1, 1 not compared"));
}

TEST_F(ZooEmulated, SaysWhatIsNoModel) {
  EXPECT_THAT(zoo({folder.at("missing")}).out, HasSubstr("no such file or folder"));
  fs::create_directories(folder.at("empty"));
  EXPECT_THAT(zoo({folder.at("empty")}).out, HasSubstr("no model below it"));
  EXPECT_THAT(zoo({"@" + folder.write("bad.list", "\nnowhere.onnx\n")}).out, HasSubstr("line 2"));
  EXPECT_EQ(zoo({folder.at("empty"), "--budget", "soon"}).code, 2);
  EXPECT_EQ(zoo({folder.at("empty"), "--effort", "some"}).code, 2);
}

}  // namespace
}  // namespace stitch::cli
