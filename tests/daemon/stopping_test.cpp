// Work that would go on for minutes ends when nobody wants it any more: a job that is cancelled, a daemon that is told
// to stop. What is measured of it: bench/reliability/stopping. Here the bound is one that only work which does not look
// at its token exceeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "graph/builder.h"
#include "tests/daemon/lookup_request.h"
#include "tests/daemon/running_service.h"
#include "tests/daemon/stitchd_process.h"

namespace stitch::daemon {
namespace {

using Json = nlohmann::json;
using graph::Value;

/// Steps x = tanh(x − a sum or maximum of rows or columns of x): hard to partition.
graph::Graph chain(int operators) {
  graph::Builder builder("chain");
  const graph::Dims dims = {256, 512};
  Value x = builder.parameter(graph::DType::f32, dims, "x");
  for (int step = 0; 4 * step < operators; ++step) {
    const std::int64_t along = step % 2, kept = 1 - along;
    const Value all = builder.reduce(along == 0 ? graph::ReduceKind::sum : graph::ReduceKind::max, x, {along});
    x = builder.unary(graph::Op::tanh, builder.binary(graph::Op::subtract, x, builder.broadcast(all, dims, {kept})));
  }
  return *builder.finish({x});
}

/// A sum over everything and maxima of columns: a kernel whose blocks wait for each other, so that its verification
/// runs all of them, and a reference that reads 2^28 elements.
graph::Graph grid_wide() {
  graph::Builder builder("grid wide");
  const graph::Dims dims = {1 << 14, 1 << 14};
  const Value x = builder.parameter(graph::DType::f32, dims, "x");
  const Value sum = builder.reduce(graph::ReduceKind::sum, x, {0, 1});
  const Value power =
      builder.unary(graph::Op::exp, builder.binary(graph::Op::subtract, x, builder.broadcast(sum, dims, {})));
  return *builder.finish({power, builder.reduce(graph::ReduceKind::max, power, {0})});
}

struct Heavy {
  std::string name;
  std::function<graph::Graph()> make;
};

class StoppingDaemonSlowTest : public testing::TestWithParam<Heavy> {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ / ""); }
  static Json get(const StitchdProcess& daemon, const std::string& target) {
    return Json::parse(raw::request(daemon.socket, "GET", target).body, nullptr, false);
  }
  /// Waits until the job is worked on, and for `then` more.
  static void wait_until_running(const StitchdProcess& daemon, std::int64_t job, std::chrono::milliseconds then) {
    while (get(daemon, "/v1/jobs/" + std::to_string(job))["state"] == "queued")
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(then);
  }

  const TestFolder folder_;
};

TEST_P(StoppingDaemonSlowTest, ACancelledJobEnds) {
  const std::string fragment = graph::encode(GetParam().make(), graph::Encoding::json);
  const StitchdProcess daemon(folder_ / "");
  ASSERT_TRUE(daemon.ready());
  for (const int ms : {50, 1500}) {
    const raw::Answer submitted =
        raw::request(daemon.socket, "POST", "/v1/fragments", fragment, "Content-Type: application/json\r\n");
    ASSERT_EQ(submitted.status, 202) << submitted.body;
    const std::int64_t job = Json::parse(submitted.body)["job"];
    wait_until_running(daemon, job, std::chrono::milliseconds(ms));
    EXPECT_EQ(raw::request(daemon.socket, "POST", "/v1/jobs/" + std::to_string(job) + "/cancel", "{}",
                           "Content-Type: application/json\r\n")
                  .status,
              202);
    const Deadline bound = deadline_in(60);
    std::string state = "running";
    while (state == "running" && std::chrono::steady_clock::now() < bound) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      state = get(daemon, "/v1/jobs/" + std::to_string(job))["state"];
    }
    EXPECT_EQ(state, "cancelled");
  }
  daemon.kill();
}

TEST_P(StoppingDaemonSlowTest, ATerminatedDaemonEndsAndSoDoWhoWaitsForIt) {
  const graph::Graph fragment = GetParam().make();
  const StitchdProcess daemon(folder_ / "");
  ASSERT_TRUE(daemon.ready());
  std::vector<std::jthread> followers;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 4; ++i) {
    followers.emplace_back([&] {
      const raw::Answer answer = raw::look_up(daemon.socket, fragment, "stopping", 60'000);
      if (answer.status == 200 || answer.status == 503) ++answered;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_TRUE(daemon.terminate().success());
  followers.clear();
  EXPECT_EQ(answered, 4);
}

INSTANTIATE_TEST_SUITE_P(, StoppingDaemonSlowTest,
                         testing::Values(Heavy{"chain", [] { return chain(1000); }}, Heavy{"grid_wide", grid_wide}),
                         [](const auto& heavy) { return heavy.param.name; });

}  // namespace
}  // namespace stitch::daemon
