// A daemon with a device that times: a model's program has the library's call where that is measured faster, and a
// kernel of ours where this is, and so has every program that it outlines later. The times come from a script.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/codec/codec.h"
#include "tests/daemon/running_service.h"
#include "tests/tuning/call_timer.h"

namespace stitch::daemon {
namespace {

using graph::DType;
using graph::Value;
using testing::UnorderedElementsAre;

/// x · w, v · u of other widths, and an exponential beside them.
std::string two_products() {
  graph::Builder b;
  const auto product = [&](std::int64_t columns) {
    const Value x = b.parameter(DType::f16, {128, 128}), w = b.parameter(DType::f16, {128, columns});
    return b.dot(x, w, {{}, {}, {1}, {0}, DType::f16});
  };
  const Value narrow = product(128), wide = product(256);
  const Value exponential = b.unary(graph::Op::exp, b.parameter(DType::f32, {64, 64}));
  return graph::encode(*b.finish({narrow, wide, exponential}), graph::Encoding::json);
}

class MeasuredCallsDaemon : public testing::Test {
 protected:
  MeasuredCallsDaemon() {
    // The wide product is the library's.
    timer_.library_us = [](const graph::Graph& call) {
      return call.type(call.results().front()).dims.back() == 256 ? 8.0 : 12.0;
    };
    tuning::TunerOptions options;
    options.products = tuning::ProductsBy::faster;
    options.verify.distributions.resize(1);
    options.measured_candidates = 1;
    tuner_ = *tuning::Tuner::create(options, tuning::shared_device(), &timer_, files_, clock_);
  }
  [[nodiscard]] RunningOptions options() const {
    RunningOptions options;
    options.tuner = tuner_.get();
    return options;
  }
  /// The widths of products, by who computes them.
  static std::vector<std::string> widths(const api::Program& program) {
    std::vector<std::string> all;
    const auto add = [&](const char* by, const graph::Graph& graph) {
      if (std::ranges::none_of(graph.nodes(), graph::is_contraction, &graph::Node::op)) return;
      all.push_back(fmt::format("{} by {}", graph.type(graph.results().front()).dims.back(), by));
    };
    for (const api::ProgramFragment& fragment : program.fragments) add("us", fragment.graph);
    for (const api::ProgramCall& call : program.calls) add("the library", call.graph);
    return all;
  }

  const TestFolder folder_;
  RealFileSystem files_;
  SystemClock clock_;
  tuning::CallTimer timer_;
  std::unique_ptr<tuning::Tuner> tuner_;
};

TEST_F(MeasuredCallsDaemon, ProgramsAreWhatWasMeasuredFaster) {
  const std::string model = two_products();
  {
    const RunningService running(folder_ / "stitch.db", options());
    const auto submitted = running.service->submit_model(model, "two.json");
    ASSERT_TRUE(submitted.ok()) << submitted.error().message;
    const api::JobStatus done = running.wait_for(submitted->job);
    ASSERT_EQ(done.state, "done") << (done.error ? done.error->message : "");
    const auto program = running.service->program(sha256(model), api::CodeInside::none);
    ASSERT_TRUE(program.ok()) << program.error().message;
    EXPECT_THAT(widths(*program), UnorderedElementsAre("128 by us", "256 by the library"));
    EXPECT_EQ(timer_.calls_measured, 2);
    const auto outlined = running.service->outline(model, "two.json");
    ASSERT_TRUE(outlined.ok()) << outlined.error().message;
    EXPECT_EQ(outlined->id, program->id);
  }
  // Another daemon on the same store knows.
  const RunningService later(folder_ / "stitch.db", options());
  const auto outlined = later.service->outline(model, "two.json");
  ASSERT_TRUE(outlined.ok()) << outlined.error().message;
  EXPECT_THAT(widths(*outlined), UnorderedElementsAre("128 by us", "256 by the library"));
  EXPECT_EQ(timer_.calls_measured, 2);
}

}  // namespace
}  // namespace stitch::daemon
