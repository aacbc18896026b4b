// Fragments that are a great deal of work: others are answered meanwhile, who cancels is heard, and so is a signal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/protocol.h"
#include "base/random.h"
#include "graph/builder.h"
#include "tests/base/test_folder.h"
#include "tests/daemon/lookup_request.h"
#include "tests/daemon/stitchd_process.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::daemon {
namespace {

using Json = nlohmann::json;
using testing::AnyOf;
using testing::IsEmpty;
using testing::Not;

const std::string json_header = "Content-Type: application/json\r\n";

graph::Graph chain(int length) {
  graph::Builder builder("chain");
  graph::Value value = builder.parameter(graph::DType::f32, {64, 128}, "x");
  for (int i = 0; i < length; ++i) value = builder.add(graph::Op::tanh, {value});
  return *builder.finish({value});
}

/// `size` operators of which each reads what one or two of the fifty before it computed.
graph::Graph thicket(int size) {
  graph::Builder builder("thicket");
  Random random(7);
  std::vector<graph::Value> values = {builder.parameter(graph::DType::f32, {64, 128}, "x"),
                                      builder.parameter(graph::DType::f32, {64, 128}, "y")};
  const std::vector<graph::Op> one = {graph::Op::tanh, graph::Op::negate, graph::Op::abs};
  const std::vector<graph::Op> two = {graph::Op::add, graph::Op::multiply, graph::Op::maximum};
  std::vector<bool> used(size + 2, false);
  const auto before = [&] {
    const std::size_t near = std::min<std::size_t>(values.size(), 50);
    const std::size_t place = values.size() - 1 - random.below(near);
    used[place] = true;
    return values[place];
  };
  for (int i = 0; i < size; ++i) {
    const bool unary = random.below(5) < 2;
    const auto& ops = unary ? one : two;
    std::vector<graph::Value> operands = {before()};
    if (!unary) operands.push_back(before());
    values.push_back(builder.add(ops[random.below(ops.size())], std::move(operands)));
  }
  std::vector<graph::Value> results;
  for (std::size_t i = 2; i < values.size(); ++i) {
    if (!used[i]) results.push_back(values[i]);
  }
  return *builder.finish(results);
}

class BoundsDaemonTest : public testing::TestWithParam<graph::Graph (*)()> {
 protected:
  /// Asks for a plan; the answer's document and status.
  [[nodiscard]] std::pair<int, Json> look_up(const graph::Graph& fragment, int deadline_ms) const {
    const raw::Answer answer = raw::look_up(daemon_.socket, fragment, "bounds test", deadline_ms);
    return {answer.status, Json::parse(answer.body, nullptr, false)};
  }
  [[nodiscard]] std::string state_of(std::int64_t job) const {
    const raw::Answer answer = raw::request(daemon_.socket, "GET", fmt::format("/v1/jobs/{}", job));
    const Json document = Json::parse(answer.body, nullptr, false);
    return document.is_object() ? document.value("state", std::string()) : std::string();
  }
  /// Waits until a job is in a state; half a minute is a failure.
  [[nodiscard]] bool comes_to(std::int64_t job, const std::string& state) const {
    for (int i = 0; i < 1500; ++i) {
      if (state_of(job) == state) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  /// The daemon's compilers and runners.
  [[nodiscard]] std::vector<int> children() const {
    std::vector<int> ids;
    const int daemon = daemon_.process->id();
    for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", daemon))) {
      std::ifstream list(task.path() / "children");
      for (int id = 0; list >> id;) ids.push_back(id);
    }
    return ids;
  }

  const TestFolder folder_;
  const StitchdProcess daemon_{folder_ / ""};
};

TEST_P(BoundsDaemonTest, OthersAreAnsweredAndWhoCancelsIsHeard) {
  ASSERT_TRUE(daemon_.ready());
  const auto [status, document] = look_up(GetParam()(), 0);
  ASSERT_EQ(status, 202) << document.dump();
  const std::int64_t job = document.at("job");
  for (const std::int64_t rows : {33, 34, 35}) {
    const auto [others, answer] = look_up(tuning::samples::softmax(rows, 64), 60'000);
    EXPECT_EQ(others, 200) << answer.dump();
  }
  const int told = raw::request(daemon_.socket, "POST", fmt::format("/v1/jobs/{}/cancel", job), "", json_header).status;
  EXPECT_THAT(told, AnyOf(200, 202));
  if (told == 202) {
    EXPECT_TRUE(comes_to(job, "cancelled")) << state_of(job);
  }  // else it had ended
  EXPECT_TRUE(daemon_.terminate().success());
}

TEST_P(BoundsDaemonTest, ASignalEndsItInTheMidstOfTheWorkAndOfAStream) {
  ASSERT_TRUE(daemon_.ready());
  const auto [status, document] = look_up(GetParam()(), 0);
  ASSERT_EQ(status, 202) << document.dump();
  const std::int64_t job = document.at("job");
  ASSERT_TRUE(comes_to(job, "running")) << state_of(job);
  std::vector<raw::Socket> followers;
  for (int i = 0; i < 4; ++i) {
    followers.emplace_back(daemon_.socket);
    ASSERT_TRUE(followers.back().send(raw::request_text("GET", fmt::format("/v1/jobs/{}/events", job))));
    ASSERT_THAT(followers.back().receive(), Not(IsEmpty()));
  }
  ::kill(daemon_.process->id(), SIGTERM);
  const auto ended = daemon_.process->wait(deadline_in(20));  // what is left of the work takes minutes
  ASSERT_TRUE(ended.ok()) << ended.error().message;
  EXPECT_TRUE(ended->success()) << daemon_.process->standard_error();
}

INSTANTIATE_TEST_SUITE_P(Fragments, BoundsDaemonTest,
                         testing::Values([] { return chain(1000); }, [] { return thicket(5000); },
                                         [] { return thicket(50'000); }));

class BoundsOnceDaemonTest : public BoundsDaemonTest {};

TEST_P(BoundsOnceDaemonTest, CompilersEndWithADaemonThatIsKilled) {
  ASSERT_TRUE(daemon_.ready());
  (void)look_up(GetParam()(), 0);
  std::vector<int> compilers;
  for (int i = 0; i < 1500 && compilers.empty(); ++i) {
    compilers = children();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_THAT(compilers, Not(IsEmpty()));
  daemon_.kill();
  const auto is_alive = [](int pid) {
    std::ifstream stat(fmt::format("/proc/{}/stat", pid));
    std::string number, name, state;
    return stat >> number >> name >> state && state != "Z";
  };
  for (int i = 0; i < 1500 && std::ranges::any_of(compilers, is_alive); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(std::ranges::any_of(compilers, is_alive));
}

INSTANTIATE_TEST_SUITE_P(Fragments, BoundsOnceDaemonTest, testing::Values([] { return chain(1000); }));

}  // namespace
}  // namespace stitch::daemon
