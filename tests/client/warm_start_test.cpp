// A second process on the same store has nothing made for it, by the daemon's own count; on an empty one it has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <thread>

#include "client/client.h"
#include "client/emulated_executor.h"
#include "client/plan_handle.h"
#include "client/program.h"
#include "graph/codec/codec.h"
#include "profiler/device/emulated_device.h"
#include "tests/base/test_folder.h"
#include "tests/daemon/counter_of.h"
#include "tests/daemon/raw_http.h"
#include "tests/daemon/stitchd_process.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::client {
namespace {

using testing::_;
using testing::Each;
using testing::Pair;

using Counts = std::map<std::string, std::int64_t>;

constexpr std::array<const char*, 5> work_counters = {"stitch_kernels_compiled_total", "stitch_kernels_verified_total",
                                                      "stitch_measurements_total", "stitch_plans_predicted_total",
                                                      "stitch_plans_tuned_total"};

class WarmStartDaemonTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ / "store"); }

  /// What a program does that begins: a fragment's plan, the program of a model that was not tuned, that of one that
  /// was; all loaded on the emulated device. What the daemon, which is started for it, did meanwhile.
  Counts begin() {
    Counts counts;
    begin(counts);
    return counts;
  }
  void begin(Counts& counts);
  void have_plans(Client& client);

  const TestFolder folder_;
  const graph::Graph fragment_ = tuning::samples::softmax(8, 64);
  const graph::Graph model_ = tuning::samples::layered_model(3), tuned_ = tuning::samples::layered_model(2);
  std::map<std::string, std::string> plans_;  ///< of the latest start, by what they are for
};

/// Waits until no job is left that would do something later.
void rest(const daemon::StitchdProcess& daemon) {
  const auto busy = [&](const char* state) {
    return daemon::raw::request(daemon.socket, "GET", fmt::format("/v1/jobs?state={}", state)).body.find("\"id\"") !=
           std::string::npos;
  };
  while (busy("queued") || busy("running")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void WarmStartDaemonTest::have_plans(Client& client) {
  profiler::EmulatedDevice device;
  EmulatedExecutor executor(device);
  const auto plan = PlanHandle::fetch(client, executor, fragment_, {.deadline_ms = 120'000});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  plans_ = {{"fragment", (*plan)->plan().id.hex()}};

  const std::string bytes = graph::encode(tuned_, graph::Encoding::json);
  auto tuned = client.program(sha256(bytes));
  if (!tuned) {
    ASSERT_EQ(tuned.error().kind, ErrorKind::not_found) << tuned.error().message;
    const auto job = client.submit_model(bytes, "tuned.json");
    ASSERT_TRUE(job.ok()) << job.error().message;
    ASSERT_TRUE(client.follow(job->job, 0, [](const api::JobEvent&) { return true; }).ok());
    tuned = client.program(sha256(bytes));
  }
  auto made =
      client.make_program(graph::encode(model_, graph::Encoding::cbor), {.deadline_ms = 120'000, .name = "made.cbor"});
  for (auto* program : {&made, &tuned}) {
    ASSERT_TRUE(program->ok()) << program->error().message;
    for (const api::ProgramFragment& each : (*program)->fragments) {
      ASSERT_TRUE(each.plan) << each.why_none;
      plans_[(*program)->model + " " + each.key.hex()] = each.plan->id.hex();
    }
    EXPECT_TRUE(ProgramRunner::open(std::move(**program), executor).ok());
  }
}

void WarmStartDaemonTest::begin(Counts& counts) {
  const daemon::StitchdProcess daemon(folder_ / "store", {"--workers", "1"});
  ASSERT_TRUE(daemon.ready());
  const auto client = Client::open({.server = "unix://" + daemon.socket.string(), .cache = {}});
  ASSERT_TRUE(client.ok()) << client.error().message;
  have_plans(**client);
  rest(daemon);
  const std::string text = daemon::raw::request(daemon.socket, "GET", "/metrics").body;
  for (const char* name : work_counters) counts[name] = daemon::counter_of(text, name);
  EXPECT_TRUE(daemon.terminate().success());
}

TEST_F(WarmStartDaemonTest, NothingIsCompiledMeasuredOrPredicted) {
  const Counts cold = begin();
  EXPECT_GT(cold.at("stitch_kernels_compiled_total"), 0);
  EXPECT_GT(cold.at("stitch_kernels_verified_total"), 0);
  EXPECT_GT(cold.at("stitch_plans_predicted_total"), 0);
  EXPECT_GT(cold.at("stitch_plans_tuned_total"), 0);
  EXPECT_EQ(cold.at("stitch_measurements_total"), 0) << "the emulated device has no times";

  const Counts warm = begin();
  const auto first = plans_;
  EXPECT_THAT(warm, Each(Pair(_, 0)));
  EXPECT_THAT(begin(), Each(Pair(_, 0)));
  EXPECT_EQ(plans_, first);

  // Emptied, the store has all of it done again: what compilers made before is in a cache of its own.
  std::filesystem::rename(folder_ / "store/kernels", folder_ / "kernels");
  std::filesystem::remove_all(folder_ / "store");
  std::filesystem::create_directories(folder_ / "store");
  std::filesystem::rename(folder_ / "kernels", folder_ / "store/kernels");
  const Counts emptied = begin();
  EXPECT_EQ(emptied.at("stitch_kernels_compiled_total"), 0);
  for (const char* name : {"stitch_kernels_verified_total", "stitch_plans_predicted_total", "stitch_plans_tuned_total"})
    EXPECT_GT(emptied.at(name), 0) << name;
  std::filesystem::remove_all(folder_ / "store");
  std::filesystem::create_directories(folder_ / "store");
  EXPECT_GT(begin().at("stitch_kernels_compiled_total"), 0);
}

}  // namespace
}  // namespace stitch::client
