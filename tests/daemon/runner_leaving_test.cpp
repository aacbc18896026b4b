// Runners that are asked to end (SIGTERM) while a daemon measures on them: others take their places, nothing that they
// were in the midst of is blamed or left out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "db/sqlite_store.h"
#include "graph/codec/codec.h"
#include "tests/base/test_folder.h"
#include "tests/daemon/stitchd_process.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::daemon {
namespace {

using Json = nlohmann::json;

/// A daemon's runners.
std::vector<int> runners_of(int daemon) {
  std::vector<int> runners;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", daemon), ignored)) {
    std::ifstream children(task.path() / "children");
    for (int child = 0; children >> child;) {
      std::ifstream words(fmt::format("/proc/{}/cmdline", child));
      std::string program;
      std::getline(words, program, '\0');
      if (program.ends_with("stitch-runner")) runners.push_back(child);
    }
  }
  return runners;
}

std::string state_of(const StitchdProcess& daemon, std::int64_t job) {
  const raw::Answer answer = raw::request(daemon.socket, "GET", fmt::format("/v1/jobs/{}", job));
  const Json document = Json::parse(answer.body, nullptr, false);
  return document.is_object() ? document.value("state", std::string()) : std::string();
}

/// Whether a runner has come so far that it is asked and not ended by the signal.
bool can_be_asked(int runner) {
  std::ifstream status(fmt::format("/proc/{}/status", runner));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:")) return (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
  }
  return false;
}

/// Tunes fragments of which each has kernels of its own, one job after the other; `disturb` is called time and again
/// while one runs, with its number.
void tune_all(const StitchdProcess& daemon, const std::function<void(int)>& disturb) {
  for (int i = 0; i < 6; ++i) {
    const std::string fragment = graph::encode(tuning::samples::softmax(48 + i, 96 + 32 * i), graph::Encoding::json);
    const raw::Answer answer =
        raw::request(daemon.socket, "POST", "/v1/fragments", fragment, "Content-Type: application/json\r\n");
    ASSERT_EQ(answer.status, 202) << answer.body;
    const std::int64_t job = Json::parse(answer.body).at("job");
    std::string state = state_of(daemon, job);
    while (state == "queued" || state == "running") {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      disturb(i);
      state = state_of(daemon, job);
    }
    ASSERT_EQ(state, "done") << i;
  }
}

/// What a daemon has stored after it has tuned all of them; `ask`: its runners are asked to end, again and again. In no
/// job more often than what was lost is begun again: on a slow machine one task could have all of it.
struct Tuned {
  db::StoreStatistics stored;
  int asked = 0;
  bool quarantined = false;
};
void tune(bool ask, Tuned& tuned) {
  const TestFolder folder;
  std::filesystem::create_directories(folder / "");
  std::filesystem::path database;
  {
    const StitchdProcess daemon(folder / "", {"--device", "emulated:counts", "--workers", "1"});
    database = daemon.database;
    ASSERT_TRUE(daemon.ready());
    constexpr int most_of_job = 3;
    std::map<int, int> asked_in;
    std::set<int> asked;
    tune_all(daemon, [&](int job) {
      for (const int runner : ask ? runners_of(daemon.process->id()) : std::vector<int>()) {
        if (asked_in[job] == most_of_job || asked.contains(runner) || !can_be_asked(runner)) continue;
        // Some at once, others amid what they do by then.
        std::this_thread::sleep_for(std::chrono::milliseconds(40 * (asked.size() % 5)));
        if (::kill(runner, SIGTERM) != 0) continue;
        asked.insert(runner);
        ++asked_in[job];
      }
    });
    tuned.asked = static_cast<int>(asked.size());
    EXPECT_TRUE(daemon.terminate().success());
  }
  tuned.quarantined = std::filesystem::exists(folder / "quarantine.json");
  const SystemClock clock;
  db::SqliteOptions options;
  options.path = database;
  const auto store = db::open_sqlite_store(options, clock);
  ASSERT_TRUE(store.ok()) << store.error().message;
  tuned.stored = *(*store)->statistics();
}

TEST(RunnerLeavingDaemonTest, OthersTakeTheirPlacesAndEverythingIsMeasured) {
  Tuned undisturbed, disturbed;
  tune(false, undisturbed);
  tune(true, disturbed);
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_GT(undisturbed.stored.measurements, undisturbed.stored.plans) << "of plans and of kernels";
  EXPECT_GE(disturbed.asked, 3) << "all was over before anybody could ask";
  EXPECT_EQ(disturbed.stored.plans, undisturbed.stored.plans);
  EXPECT_EQ(disturbed.stored.measurements, undisturbed.stored.measurements);
  EXPECT_EQ(disturbed.stored.candidates, undisturbed.stored.candidates);
  EXPECT_FALSE(disturbed.quarantined);
}

}  // namespace
}  // namespace stitch::daemon
