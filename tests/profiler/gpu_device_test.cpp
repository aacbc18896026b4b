// Kernels on a real GPU: right, wrong, faulting and hanging. Skipped, with the driver's own reason, where there is
// none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/measure/measure_kernel.h"
#include "profiler/runner/device.h"
#include "tests/profiler/kernel_case.h"
#include "tests/profiler/ptx_kernels.h"
#include "tests/profiler/running_device.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::profiler::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class RunnerGpu : public testing::Test {
 protected:
  static RunnerOptions options() {
    RunnerOptions options = runner_options({"--device", "gpu:0"});
    options.launch_seconds = 10;
    return options;
  }
  RunnerGpu() : running_(options()) {}
  void SetUp() override {
    if (!running_.device) GTEST_SKIP() << running_.error.message;
  }

  [[nodiscard]] std::unique_ptr<TimedSession> session() {
    auto session = running_.device->timed_session();
    EXPECT_TRUE(session) << error_of(session);
    return session ? std::move(*session) : nullptr;
  }

  /// Copies `words` words from one buffer to another; a task of `rotations` sets of them.
  static MeasureTask copy_task(TimedSession& session, std::int64_t words, int rotations) {
    const auto kernel = session.load(copy_kernel());
    EXPECT_TRUE(kernel) << error_of(kernel);
    MeasureTask task;
    for (int i = 0; kernel && i < rotations; ++i) {
      const auto from = *session.allocate("from", words * 4, counting(1), Access::read_only);
      const auto to = *session.allocate("to", words * 4, Poison{}, Access::read_write);
      task.rotations.push_back({PlannedLaunch{*kernel, {words / 256, 256, 1, 0, false}, {from, to}}});
    }
    return task;
  }

  /// An emulated driver runs what a measurement runs, and tells no times.
  [[nodiscard]] bool is_emulated() const { return running_.device->identity().emulated; }
  void expect_measured(const Result<Measurement>& measured) const {
    if (!is_emulated()) {
      EXPECT_TRUE(measured) << error_of(measured);
      return;
    }
    EXPECT_EQ(error_of(measured), "unavailable: the CUDA driver is emulated: it tells no times");
  }

  RunningDevice running_;
};

TEST_F(RunnerGpu, SaysWhoItIs) {
  const DeviceIdentity& identity = running_.device->identity();
  EXPECT_EQ(identity.kind, "gpu");
  EXPECT_THAT(identity.key, testing::MatchesRegex("GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"));
  EXPECT_THAT(identity.driver, HasSubstr("CUDA "));
  EXPECT_GT(identity.sm_count, 0);
  EXPECT_GT(identity.memory_bytes, std::int64_t{1} << 30);
}

TEST_F(RunnerGpu, ARightKernelIsRight) {
  const auto session = this->session();
  const auto kernel = session->load(copy_kernel());
  ASSERT_TRUE(kernel) << error_of(kernel);
  const auto from = *session->allocate("from", 4 << 20, counting(7), Access::read_only);
  const auto to = *session->allocate("to", 4 << 20, Poison{}, Access::read_write);
  const auto launched = session->launch(*kernel, {4096, 256, 1, 0, false}, std::vector<LaunchValue>{from, to}, {});
  ASSERT_TRUE(launched) << error_of(launched);
  EXPECT_THAT(launched->findings, testing::IsEmpty());
  EXPECT_EQ(words_of(*session, to), words_of(*session, from));
  EXPECT_FALSE(session->samples_blocks());
}

TEST_F(RunnerGpu, RedZonesAndReadOnlyBuffersAreWatched) {
  const auto session = this->session();
  const auto from = *session->allocate("from", 256, counting(7), Access::read_only);
  const auto to = *session->allocate("to", 256, Poison{}, Access::read_write);
  const std::vector<LaunchValue> forth = {from, to}, back = {to, from};
  const auto overrun = session->load(overrun_kernel());
  ASSERT_TRUE(overrun) << error_of(overrun);
  const LaunchShape shape = {2, 32, 1, 0, false};
  const auto launched = session->launch(*overrun, shape, forth, {});
  ASSERT_TRUE(launched) << error_of(launched);
  ASSERT_EQ(launched->findings.size(), 1U);
  EXPECT_THAT(launched->findings[0], AllOf(HasSubstr("out_of_bounds: "), HasSubstr("behind 'to' (of 256 bytes), the "
                                                                                   "first at byte 256")));
  const auto copy = *session->load(copy_kernel());
  EXPECT_THAT(session->launch(copy, shape, forth, {})->findings, testing::IsEmpty()) << "zones are made whole again";
  const std::vector<std::byte> zeros(256);
  ASSERT_TRUE(session->write(to, 0, zeros));
  const auto wrote = session->launch(copy, shape, back, {});
  ASSERT_TRUE(wrote) << error_of(wrote);
  ASSERT_EQ(wrote->findings.size(), 1U);
  EXPECT_THAT(wrote->findings[0], HasSubstr("read_only_write: 'from'"));
  // One word before the start.
  const std::vector<LaunchValue> before = {to, static_cast<std::int64_t>(to.address) - 4};
  const auto under = session->launch(copy, shape, before, {});
  ASSERT_TRUE(under) << error_of(under);
  EXPECT_THAT(under->findings.at(0), HasSubstr("before 'to', the nearest 1 bytes from its start"));
}

TEST_F(RunnerGpu, AKernelThatFaultsLosesItsRunnerAndNothingElse) {
  const auto session = this->session();
  const auto kernel = *session->load(wild_kernel());
  const auto buffer = *session->allocate("x", 256, Zero{}, Access::read_write);
  const std::vector<LaunchValue> arguments = {buffer, buffer};
  const auto faulted = session->launch(kernel, {1, 32, 1, 0, false}, arguments, {});
  ASSERT_FALSE(faulted);
  EXPECT_EQ(faulted.error().kind, ErrorKind::runtime);
  EXPECT_THAT(faulted.error().message, AllOf(HasSubstr("kernel wild"), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")));
  EXPECT_THAT(error_of(session->read(buffer, 0, {})), AnyOf(HasSubstr("fine"), HasSubstr("this session was lost")));
  const auto next = this->session();
  EXPECT_EQ(running_.device->generation(), 2);
  const auto again = next->launch(*next->load(wild_kernel()), {1, 32, 1, 0, false},
                                  std::vector<LaunchValue>{std::int64_t{0}, std::int64_t{0}}, {});
  EXPECT_THAT(error_of(again), AllOf(HasSubstr("kernel wild"), HasSubstr("is quarantined on GPU-")));
  expect_measured(next->measure(copy_task(*next, 1 << 16, 1)));
}

TEST_F(RunnerGpu, AKernelThatHangsIsKilled) {
  const auto session = this->session();
  const auto kernel = *session->load(endless_kernel());
  const auto buffer = *session->allocate("x", 256, Zero{}, Access::read_write);
  const std::vector<LaunchValue> arguments = {buffer, buffer};
  const auto hung = session->launch(kernel, {1, 32, 1, 0, false}, arguments, {});
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().kind, ErrorKind::timeout);
  EXPECT_THAT(hung.error().message, AllOf(HasSubstr("kernel endless"), HasSubstr("gave no answer to launch")));
  const auto next = this->session();
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->load(copy_kernel()));
}

TEST_F(RunnerGpu, ShapesThatTheDeviceRefusesAreConstraints) {
  const auto session = this->session();
  const auto kernel = *session->load(copy_kernel());
  const std::vector<LaunchValue> arguments = {std::int64_t{0}, std::int64_t{0}};
  const auto shared = session->launch(kernel, {1, 32, 1, 1 << 20, false}, arguments, {});
  EXPECT_THAT(error_of(shared), HasSubstr("constraint: "));
  const auto cooperative = session->launch(kernel, {1 << 24, 1024, 1, 0, true}, arguments, {});
  EXPECT_THAT(error_of(cooperative), HasSubstr("constraint: "));
  EXPECT_EQ(running_.device->generation(), 1);
  EXPECT_TRUE(running_.quarantine.entries().empty());
}

TEST_F(RunnerGpu, MeasuresKernels) {
  const auto session = this->session();
  const auto small = session->measure(copy_task(*session, 1 << 18, 2));
  expect_measured(small);
  if (is_emulated()) return;
  ASSERT_TRUE(small);
  const auto large = session->measure(copy_task(*session, 1 << 25, 2));
  ASSERT_TRUE(large) << error_of(large);
  EXPECT_EQ(large->kind, Measurement::Kind::device_time);
  EXPECT_EQ(large->method, "CUPTI activity");
  EXPECT_GE(large->samples.size(), 12U);
  EXPECT_THAT(large->toolkit, HasSubstr("CUPTI "));
  // 128 times the bytes: whatever the machine does meanwhile, no less than four times the time.
  EXPECT_GT(large->median, 4 * small->median) << to_text(*small) << "\n" << to_text(*large);
  RecordProperty("small", to_text(*small));
  RecordProperty("large", to_text(*large));
  if (large->counters) {
    const double bytes = 4.0 * (1 << 25);
    EXPECT_NEAR(large->counters->dram_read_bytes / bytes, 1, 0.3);
    EXPECT_GT(large->counters->achieved_occupancy, 0.2);
    EXPECT_LE(large->counters->achieved_occupancy, 1);
  } else {
    EXPECT_NE(large->no_counters, "");
    RecordProperty("no_counters", large->no_counters);
  }
}

TEST_F(RunnerGpu, MeasuresPlansAsGraphs) {
  const auto session = this->session();
  // Where there is no time to tell, few: a runner that gives no answer for long is killed.
  MeasureTask one = copy_task(*session, is_emulated() ? 1 << 18 : 1 << 24, 2);
  one.options.counters = false;
  const auto alone = session->measure(one);
  expect_measured(alone);
  MeasureTask plan = one;
  plan.cuda_graph = true;
  for (auto& steps : plan.rotations) {
    const PlannedLaunch launch = std::get<PlannedLaunch>(steps[0]);
    const auto from = std::get<BufferHandle>(launch.arguments[0]), to = std::get<BufferHandle>(launch.arguments[1]);
    steps = {launch, launch, PlannedCopy{from, to, from.bytes}, launch, launch};
  }
  const auto whole = session->measure(plan);
  expect_measured(whole);
  if (is_emulated()) return;
  ASSERT_TRUE(alone && whole);
  EXPECT_TRUE(whole->cuda_graph);
  EXPECT_EQ(whole->launches, 4);
  EXPECT_GT(whole->median, 2 * alone->median) << to_text(*alone) << "\n" << to_text(*whole);
}

class GeneratedGpu : public RunnerGpu {};

TEST_F(GeneratedGpu, KernelsThatTheEmulatorFindsRightAreRightAndMeasured) {
  const struct {
    const char* name;
    Result<graph::Graph> graph;
    Wish wish;
  } cases[] = {
      {"sum", scaled_sum({1 << 14}), one_phase},
      {"softmax", softmax(256, 1024), any},
      {"clustered", softmax(64, 4096), clustered},
      {"norm backward", norm_backward(256, 512), any},
      {"scan", scanned(64, 1024), any},
      {"transpose", transposed({64, 96, 32}, {2, 0, 1}), any},
  };
  for (const auto& each : cases) {
    const KernelCase made = make_case(each.graph, each.wish);
    EXPECT_TRUE(verify(made).correct) << each.name << " on the emulator";
    const KernelImage image = compile(made.kernel);
    const auto verified = verify_kernel(*running_.device, *made.graph, made.program, made.kernel, image, {});
    ASSERT_TRUE(verified) << each.name << ": " << error_of(verified);
    EXPECT_TRUE(verified->correct) << each.name << ": " << verified->failure;
    EXPECT_GT(verified->share, 0) << each.name;
    const auto measured = measure_kernel(*session(), *made.graph, made.kernel, image, {});
    expect_measured(measured);
    if (is_emulated()) continue;
    ASSERT_TRUE(measured) << each.name;
    EXPECT_GT(measured->median, 0) << each.name;
    RecordProperty(each.name, to_text(*measured));
  }
}

TEST_F(GeneratedGpu, AWrongKernelIsWrongHereToo) {
  const KernelCase wrong = mutated(make_case(softmax(64, 256)), "exponential(", "2.0f + exponential(");
  const auto verified =
      verify_kernel(*running_.device, *wrong.graph, wrong.program, wrong.kernel, compile(wrong.kernel), {});
  ASSERT_TRUE(verified) << error_of(verified);
  EXPECT_FALSE(verified->correct);
  EXPECT_THAT(verified->failure, HasSubstr("result 0 at"));
}

}  // namespace
}  // namespace stitch::profiler::test
