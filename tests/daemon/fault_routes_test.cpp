// What is told of kernels that were wrong: the fault that can be sent in, and the count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>

#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "tests/daemon/raw_http.h"
#include "tests/daemon/running_service.h"
#include "tests/tuning/breaking_device.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::daemon {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

/// A daemon whose device makes kernels wrong, as a wrong emitter would.
class FaultRoutesDaemonTest : public testing::Test {
 protected:
  FaultRoutesDaemonTest() {
    tuning::TunerOptions options;
    options.verify.distributions.resize(1);
    options.verify.seed = 77;
    auto tuner = tuning::Tuner::create(options, device_, nullptr, files_, clock_);
    EXPECT_TRUE(tuner.ok()) << (tuner ? "" : tuner.error().message);
    tuner_ = *std::move(tuner);
    running_.emplace(folder_ / "stitch.db", RunningOptions{.work = true, .serve = true, .tuner = tuner_.get()});
  }

  raw::Answer ask(const std::string& method, const std::string& target, const std::string& body = {}) const {
    return raw::request(running_->socket, method, target, body, "Content-Type: application/json\r\n");
  }
  /// Tunes the softmax of these many rows to the end.
  api::JobStatus tune(std::int64_t rows) const {
    const graph::Graph fragment = tuning::samples::softmax(rows, 64);
    const raw::Answer submitted = ask("POST", "/v1/fragments", graph::encode(fragment, graph::Encoding::json));
    EXPECT_EQ(submitted.status, 202) << submitted.body;
    return running_->wait_for(Json::parse(submitted.body)["job"]);
  }
  static std::string key_of(std::int64_t rows) {
    return graph::canonicalise(tuning::samples::softmax(rows, 64))->key.hex();
  }
  [[nodiscard]] std::int64_t wrong_kernels() const {
    const std::string text = ask("GET", "/metrics").body;
    std::smatch found;
    EXPECT_TRUE(std::regex_search(text, found, std::regex("\nstitch_wrong_kernels_total (\\d+)"))) << text;
    return found.empty() ? -1 : std::stoll(found[1]);
  }

  const TestFolder folder_;
  SystemClock clock_;
  RealFileSystem files_;
  tuning::BreakingDevice device_;
  std::unique_ptr<tuning::Tuner> tuner_;
  std::optional<RunningService> running_;
};

TEST_F(FaultRoutesDaemonTest, AFaultIsADocumentThatCanBeSentIn) {
  device_.breaks = tuning::has_exponential;
  const api::JobStatus job = tune(8);
  EXPECT_EQ(job.state, "failed");
  ASSERT_TRUE(job.error);
  EXPECT_THAT(job.error->message, HasSubstr("instead of"));
  const raw::Answer answer = ask("GET", "/v1/fragments/" + key_of(8) + "/fault");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json fault = Json::parse(answer.body);
  EXPECT_EQ(fault["format"], "stitch-fault");
  EXPECT_EQ(fault["target"], "h100");
  EXPECT_EQ(fault["fragment"], key_of(8));
  EXPECT_EQ(fault["served"], "none");
  ASSERT_FALSE(fault["candidates"].empty());
  for (const Json& candidate : fault["candidates"]) {
    EXPECT_EQ(candidate["outcome"], "correctness");
    EXPECT_EQ(candidate["seed"], 77) << "its inputs can be made again";
    EXPECT_THAT(std::string(candidate["detail"]), HasSubstr("instead of"));
    EXPECT_TRUE(candidate["schedule"].is_object());
  }
  EXPECT_EQ(wrong_kernels(), std::ssize(fault["candidates"]));
  const auto graph = graph::decode(fault["graph"].dump(), graph::Encoding::json);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph::canonicalise(*graph)->key.hex(), key_of(8)) << "whoever mends it has the fragment";
}

TEST_F(FaultRoutesDaemonTest, AFragmentThatIsServedAllTheSameSaysSo) {
  std::mutex mutex;
  std::set<std::string> broken;
  device_.breaks = [&](const std::string& ptx) {
    const std::lock_guard lock(mutex);
    if (broken.empty()) broken.insert(ptx);
    return broken.contains(ptx);
  };
  const api::JobStatus job = tune(8);
  EXPECT_EQ(job.state, "done") << job.message;
  EXPECT_EQ(wrong_kernels(), 1);
  const Json result = Json::parse(job.result);
  EXPECT_EQ(result["fault"], "/v1/fragments/" + key_of(8) + "/fault");
  const Json fault = Json::parse(ask("GET", result["fault"]).body);
  EXPECT_EQ(fault["served"], "another plan");
  EXPECT_EQ(fault["candidates"].size(), 1U);
}

TEST_F(FaultRoutesDaemonTest, WithoutAFaultThereIsNone) {
  device_.breaks = [](const std::string&) { return false; };
  EXPECT_EQ(tune(8).state, "done");
  const raw::Answer right = ask("GET", "/v1/fragments/" + key_of(8) + "/fault");
  EXPECT_EQ(right.status, 404);
  EXPECT_THAT(right.body, HasSubstr("no kernel of fragment " + key_of(8) + " was found to be wrong"));
  EXPECT_EQ(wrong_kernels(), 0);
  EXPECT_EQ(ask("GET", "/v1/fragments/" + key_of(9) + "/fault").status, 404) << "a fragment that nobody sent";
  EXPECT_EQ(ask("GET", "/v1/fragments/abacus/fault").status, 400);
}

}  // namespace
}  // namespace stitch::daemon
