// kill -9 of a daemon while it tunes: whatever it acknowledged is there afterwards, and its jobs go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/protocol.h"
#include "base/random.h"
#include "db/sqlite_store.h"
#include "tests/base/rounds.h"
#include "tests/daemon/lookup_request.h"
#include "tests/daemon/running_service.h"
#include "tests/daemon/stitchd_process.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::daemon {
namespace {

using Json = nlohmann::json;
using testing::IsEmpty;

const std::string json_header = "Content-Type: application/json\r\n";

std::unique_ptr<db::Store> open_store(const std::filesystem::path& path) {
  static const SystemClock clock;
  db::SqliteOptions options;
  options.path = path;
  auto store = db::open_sqlite_store(options, clock);
  EXPECT_TRUE(store.ok()) << (store ? "" : store.error().message);
  return store ? *std::move(store) : nullptr;
}

/// What the daemon has promised so far.
struct Acknowledged {
  std::vector<Hash128> plans;
  std::vector<std::int64_t> jobs;
};

/// Asks for a plan; remembers what the answer acknowledges.
void look_up(const std::filesystem::path& socket, std::int64_t rows, Acknowledged& acknowledged) {
  const raw::Answer answer = raw::look_up(socket, tuning::samples::softmax(rows, 64), "kill test", 20'000);
  const Json document = Json::parse(answer.body, nullptr, false);
  if (document.is_discarded() || (answer.status != 200 && answer.status != 202)) return;
  if (document.contains("plan"))
    acknowledged.plans.push_back(*Hash128::from_hex(document["plan"]["id"].get<std::string>()));
  if (document.contains("job")) acknowledged.jobs.push_back(document["job"]);
}

void submit(const std::filesystem::path& socket, const std::string& target, const std::string& body,
            Acknowledged& acknowledged) {
  const raw::Answer answer = raw::request(socket, "POST", target, body, json_header);
  const Json document = Json::parse(answer.body, nullptr, false);
  if (answer.status == 202 && document.is_object()) acknowledged.jobs.push_back(document["job"]);
}

/// Waits until a job is further than it was, or over. One that ends thirty daemons without a step is given up, and most
/// of these live for a quarter of a second.
void wait_for_progress(const std::filesystem::path& socket, std::int64_t job, double& furthest) {
  const auto bound = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (std::chrono::steady_clock::now() < bound) {
    const Json document =
        Json::parse(raw::request(socket, "GET", "/v1/jobs/" + std::to_string(job)).body, nullptr, false);
    if (!document.is_object()) return;
    const double progress = document["progress"];
    if (progress > furthest || (document["state"] != "queued" && document["state"] != "running")) {
      furthest = progress;
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void expect_sound(const std::filesystem::path& database, const Acknowledged& acknowledged) {
  const auto store = open_store(database);
  ASSERT_TRUE(store);
  EXPECT_THAT(store->integrity_check(true)->problems, IsEmpty());
  for (const Hash128& plan : acknowledged.plans) {
    EXPECT_TRUE(store->get_plan_bundle(plan).ok()) << "plan " << plan.hex() << " was acknowledged and is gone";
  }
  for (const std::int64_t job : acknowledged.jobs) EXPECT_TRUE(store->get_job(job).ok()) << "job " << job;
}

TEST(DaemonKillSlowTest, NothingAcknowledgedIsLostAndJobsResume) {
  const TestFolder folder;
  std::filesystem::create_directories(folder / "");
  Random random(20);
  Acknowledged acknowledged;
  std::filesystem::path database;
  int interrupted = 0;
  double furthest = 0;
  const int kills = rounds(20);
  for (int round = 0; round < kills; ++round) {
    const StitchdProcess daemon(folder / "", {"--workers", "2"});
    database = daemon.database;
    ASSERT_TRUE(daemon.ready());
    if (round == 0) {
      const std::string model = graph::encode(tuning::samples::layered_model(24), graph::Encoding::json);
      submit(daemon.socket, "/v1/models?name=model.json", model, acknowledged);
      ASSERT_EQ(acknowledged.jobs.size(), 1U);
    }
    // Something new to tune without being waited for, and plans that are.
    for (int i = 0; i < 3; ++i) {
      const graph::Graph fragment = tuning::samples::softmax(100 + round * 4 + i, 32);
      submit(daemon.socket, "/v1/fragments", graph::encode(fragment, graph::Encoding::json), acknowledged);
    }
    std::thread client([&] { look_up(daemon.socket, 8 + 2 * round, acknowledged); });
    if (round % 2 == 0) client.join();
    if (round % 8 == 7) wait_for_progress(daemon.socket, acknowledged.jobs.front(), furthest);
    std::this_thread::sleep_for(std::chrono::milliseconds(random.below(250)));
    daemon.kill();
    if (client.joinable()) client.join();
    const auto store = open_store(database);
    ASSERT_TRUE(store);
    interrupted += static_cast<int>(store->statistics()->jobs[static_cast<int>(db::JobState::running)]);
    expect_sound(database, acknowledged);
  }
  EXPECT_GE(std::ssize(acknowledged.plans), kills / 2);
  EXPECT_GE(std::ssize(acknowledged.jobs), 2 * kills);
  EXPECT_GT(interrupted, 0) << "no kill hit a running job";

  // Left alone, the next daemon finishes everything.
  const StitchdProcess daemon(folder / "", {"--workers", "2"});
  ASSERT_TRUE(daemon.ready());
  for (const std::int64_t job : acknowledged.jobs) {
    Json document;
    while (true) {
      document =
          Json::parse(raw::request(daemon.socket, "GET", "/v1/jobs/" + std::to_string(job)).body, nullptr, false);
      ASSERT_TRUE(document.is_object());
      if (document["state"] != "queued" && document["state"] != "running") break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(document["state"], "done") << document.dump();
  }
  EXPECT_TRUE(daemon.terminate().success());
  expect_sound(database, acknowledged);
  const auto store = open_store(database);
  int resumed = 0;
  const auto jobs = store->list_jobs({}, {.limit = 1000});
  for (const db::Job& job : jobs->items) resumed += static_cast<int>(job.attempts > 1);
  EXPECT_GT(resumed, 0);
  for (const Hash128& plan : acknowledged.plans) {
    const auto record = store->get_plan(plan);
    EXPECT_TRUE(record.ok() && record->status == db::PlanStatus::incumbent && record->verified_share > 0);
  }
  std::printf("%d kills, %zu plans and %zu jobs acknowledged, %d jobs interrupted, %d resumed\n", kills,
              acknowledged.plans.size(), acknowledged.jobs.size(), interrupted, resumed);
}

}  // namespace
}  // namespace stitch::daemon
