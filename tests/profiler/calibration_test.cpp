#include "profiler/measure/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/device_class.h"
#include "profiler/device/emulated_device.h"
#include "profiler/measure/calibration_kernels.h"
#include "profiler/measure/counted_device.h"
#include "tests/profiler/forwarding_session.h"
#include "tests/profiler/running_device.h"

namespace stitch::profiler::test {
namespace {

using testing::HasSubstr;

Measurement series(std::vector<double> samples) {
  Measurement measurement;
  measurement.samples = std::move(samples);
  summarise(measurement, Verdict::precise);
  return measurement;
}

// ---- what figures follow from ----------------------------------------------------------------------------------

TEST(Calibration, StepsAreDifferences) {
  const auto figure = per_step(series({10, 10, 10}), series({30, 30, 30}), 5);
  ASSERT_TRUE(figure);
  EXPECT_EQ(*figure, (Figure{4, 0}));
  const auto noisy = per_step(series({9, 10, 11}), series({28, 30, 32}), 5);
  ASSERT_TRUE(noisy);
  EXPECT_DOUBLE_EQ(noisy->value, 4);
  EXPECT_NEAR(noisy->spread, std::hypot(1.0, 2.0) / 20, 1e-9) << "both measurements' noise, of their difference";
  EXPECT_THAT(error_of(per_step(series({30}), series({10}), 5)),
              HasSubstr("5 steps more took 10.00 us instead of 30.00 us"));
}

TEST(Calibration, CyclesComeFromTheRing) {
  std::vector<std::uint64_t> ring = {3, 100, 120, 110, 0, 0};
  EXPECT_EQ(cycles_per_step(ring, 10)->value, 11);
  EXPECT_GT(cycles_per_step(ring, 10)->spread, 0);
  ring = {7, 200, 200, 200, 200, 200};  // seven were noted, five are left
  EXPECT_EQ(*cycles_per_step(ring, 2), (Figure{100, 0}));
  EXPECT_EQ(error_of(cycles_per_step(std::vector<std::uint64_t>{0, 9}, 2)), "corrupt: no cycles were noted");
}

TEST(Calibration, RatesKeepTheSpread) { EXPECT_EQ(rate(1000, {4, 0.125}), (Figure{250, 0.125})); }

TEST(Calibration, ConstantsTakeTheTablesPlaceUnlessTheyAreAbsurd) {
  const DeviceSpec table = *find_device("h100");
  const Calibration calibration = {{{"copy_fraction", {0.93, 0.01}},
                                    {"l2_bandwidth", {6e12, 0}},
                                    {"shared_bytes_per_clock", {127.6, 0}},
                                    {"dram_latency", {table.dram_latency / 5, 0}},
                                    {"launch_us", {std::nan(""), 0}},
                                    {"clock_hz", {1.98e9, 0}},
                                    {"warp_speed", {9, 0}}}};
  const CalibratedSpec applied = apply(table, calibration);
  EXPECT_EQ(applied.spec.copy_fraction, 0.93);
  EXPECT_EQ(applied.spec.shared_bytes_per_clock, 128);
  EXPECT_EQ(applied.spec.clock_hz, 1.98e9);
  EXPECT_EQ(applied.spec.l2_bandwidth, table.l2_bandwidth);
  EXPECT_EQ(applied.spec.dram_latency, table.dram_latency);
  EXPECT_EQ(applied.spec.launch_us, table.launch_us);
  EXPECT_EQ(applied.spec.grid_barrier_us, table.grid_barrier_us);
  EXPECT_THAT(applied.notes,
              testing::ElementsAre("l2_bandwidth: 6e+12 was measured; the table's 6.5e+12 stays until that is proven",
                                   "dram_latency: 137.6 was measured, the table's 688 stays",
                                   "launch_us: nan was measured, the table's 1.06 stays",
                                   "warp_speed: the device table has no such constant"));
  EXPECT_THAT(apply(table, {{{"copy_fraction", {1.1, 0}}}}).notes, testing::SizeIs(1));
  const CalibratedSpec half = apply(table, {{{"shared_bytes_per_clock", {64, 0}}}});
  EXPECT_THAT(half.notes, testing::SizeIs(1)) << "what an H100 said while ptxas loaded half of the words";
  EXPECT_EQ(half.spec.shared_bytes_per_clock, 128);
}

TEST(Calibration, ComesBackFromJson) {
  const Calibration calibration = {{{"copy_fraction", {0.93, 0.01}}, {"launch_us", {1.25, 0.5}}}};
  EXPECT_EQ(*calibration_from(to_document(calibration)), calibration);
  EXPECT_EQ(*calibration_from(nlohmann::json::object()), Calibration{});
  EXPECT_THAT(error_of(calibration_from(nlohmann::json::array())), "parse: calibrated constants: not an object");
  EXPECT_THAT(error_of(calibration_from({{"launch_us", {{"value", "much"}, {"spread", 0}}}})),
              HasSubstr("parse: calibrated constants: launch_us: "));
  EXPECT_THAT(error_of(calibration_from({{"launch_us", {{"value", 1}}}})), HasSubstr("launch_us: "));
}

TEST(Calibration, SizesFollowFromTheDevice) {
  for (const DeviceSpec& spec : known_devices()) {
    const CalibrationSizes sizes = CalibrationSizes::of(spec);
    SCOPED_TRACE(spec.name);
    EXPECT_EQ(sizes.copy_bytes % (32 << 10), 0);
    EXPECT_GE(sizes.copy_bytes, 4 * spec.l2_bytes);
    EXPECT_TRUE(sizes.l2_bytes > spec.l2_bytes / 17 && sizes.l2_bytes <= spec.l2_bytes / 8);
    EXPECT_EQ(sizes.l2_bytes & (sizes.l2_bytes - 1), 0);
    EXPECT_EQ(sizes.l2_chain_lines & (sizes.l2_chain_lines - 1), 0);
    EXPECT_LE(sizes.l2_chain_lines * 128, spec.l2_bytes / 8);
    EXPECT_EQ(sizes.dram_chain_lines & (sizes.dram_chain_lines - 1), 0);
    EXPECT_GE(sizes.dram_chain_lines * 128, 8 * spec.l2_bytes);
    EXPECT_EQ(sizes.blocks, spec.sm_count);
  }
}

// ---- the kernels, on the emulated device -----------------------------------------------------------------------

const codegen::CompiledKernel& compiled() {
  static const auto kernels = [] {
    const auto compiler = codegen::NvrtcCompiler::create();
    EXPECT_TRUE(compiler) << error_of(compiler);
    auto done = compile_calibration(**compiler, "sm_90a");
    EXPECT_TRUE(done) << error_of(done);
    return *done;
  }();
  return kernels;
}

class CalibrationEmulated : public testing::Test {
 protected:
  CalibrationEmulated() : session_(*device_.session()), kernels_(*session_, compiled()) {}

  /// Launches twice, as a measurement would; nothing is found. The counters of the second launch.
  emulator::Counters run(const Result<CalibrationRun>& made) {
    EXPECT_TRUE(made) << error_of(made);
    if (!made) return {};
    emulator::Counters counters;
    for (int launch = 0; launch < 2; ++launch) {
      const auto done = session_->launch(made->launch.kernel, made->launch.shape, made->launch.arguments, {});
      EXPECT_TRUE(done) << error_of(done);
      if (!done) return {};
      EXPECT_THAT(done->findings, testing::IsEmpty());
      counters = *done->counters;
    }
    return counters;
  }
  std::vector<std::uint32_t> words(BufferHandle buffer) { return words_of(*session_, buffer); }
  std::vector<std::uint64_t> ring(const CalibrationRun& run) {
    std::vector<std::uint64_t> all(cycle_ring_words);
    EXPECT_TRUE(session_->read(run.cycles, 0, std::as_writable_bytes(std::span(all))));
    return all;
  }

  EmulatedDevice device_;
  std::unique_ptr<Session> session_;
  CalibrationKernels kernels_;
};

TEST_F(CalibrationEmulated, TheCopyCopiesByWords) {
  const auto made = kernels_.copy(128 << 10);
  const auto counters = run(made);
  const auto from = std::get<BufferHandle>(made->launch.arguments[0]);
  EXPECT_EQ(words(made->results), words(from));
  EXPECT_EQ(counters.global_loads.requests, (128U << 10) / (16 * 32)) << "16 bytes a thread";
  EXPECT_EQ(counters.global_loads.sectors, (128U << 10) / 32);
  EXPECT_EQ(counters.global_stores.sectors, (128U << 10) / 32);
}

TEST_F(CalibrationEmulated, L2IsReadAroundAndAround) {
  constexpr std::int64_t bytes = 2 * CalibrationKernels::l2_turn_bytes, turns = 3;  // two blocks read all in a turn
  const auto made = kernels_.l2_read(bytes, turns, 2);
  const auto counters = run(made);
  const auto input = words(std::get<BufferHandle>(made->launch.arguments[0]));
  std::uint32_t expected = 0, sum = 0;
  for (std::size_t i = 0; i < input.size(); i += 4)
    expected += turns * ((input[i] ^ input[i + 1]) + (input[i + 2] ^ input[i + 3]));
  for (const std::uint32_t each : words(made->results)) sum += each;
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(counters.global_loads.sectors, static_cast<std::uint64_t>(turns * bytes / 32));
}

TEST_F(CalibrationEmulated, SharedMemoryIsReadWithoutConflicts) {
  constexpr std::int64_t rounds = 21;
  const auto made = kernels_.shared_read(rounds, 2);
  const auto counters = run(made);
  const auto sums = words(made->results);
  for (std::uint32_t thread = 0; thread < 2048; ++thread) {
    std::uint32_t expected = 0;
    for (std::uint32_t r = 0; r < rounds; ++r) expected += 3 * ((thread % 1024) ^ r);
    ASSERT_EQ(sums[thread], expected) << thread;
  }
  EXPECT_EQ(counters.of(emulator::InstructionClass::shared_load).warps, 2U * 32 * rounds);
  EXPECT_EQ(ring(*made)[0], 4U) << "two blocks, two launches";
  EXPECT_GT(cycles_per_step(ring(*made), rounds)->value, 0);
}

TEST_F(CalibrationEmulated, ChasesEndWhereTheyMust) {
  const auto made = kernels_.chase(256, 256, 77);
  run(made);
  std::vector<std::uint64_t> ended(1);
  ASSERT_TRUE(session_->read(made->results, 0, std::as_writable_bytes(std::span(ended))));
  const auto chain = std::get<BufferHandle>(made->launch.arguments[0]);
  // 256 steps go once round all lines: nothing is left out, or the chase would end elsewhere.
  EXPECT_EQ(ended[0], chain.address + static_cast<std::uint64_t>(chase_end(256, 77)) * 128);
  EXPECT_EQ(chase_end(256, 256), 0);
  for (int step = 1; step < 256; ++step) ASSERT_NE(chase_end(256, step), 0) << step;
  EXPECT_GE(cycles_per_step(ring(*made), 77)->value, 1);

  const auto shared = kernels_.shared_chase(77);
  run(shared);
  std::uint32_t at = 0;
  for (int i = 0; i < 77; ++i) at = (at * 5 + 3) % 512;
  EXPECT_EQ(words(shared->results).at(0), at);
  EXPECT_EQ(ring(*shared)[0], 2U);
}

TEST_F(CalibrationEmulated, BarriersAreAllThere) {
  const auto block = kernels_.block_barrier(50, 3);
  const auto counters = run(block);
  EXPECT_THAT(words(block->results), testing::Each(50U));
  EXPECT_EQ(counters.block_barriers, 3U * (1 + 50));
  EXPECT_EQ(ring(*block)[0], 6U);

  const auto grid = kernels_.grid_barrier(9, 5);
  const auto arrivals = run(grid);
  EXPECT_EQ(arrivals.global_atomics, 5U * 9);
  EXPECT_THAT(words(grid->results), testing::ElementsAre(0U)) << "rounds of two launches are even";
}

TEST_F(CalibrationEmulated, TinyKernelsCountAndSpinsEnd) {
  const auto tiny = kernels_.tiny();
  run(tiny);
  EXPECT_THAT(words(tiny->results), testing::ElementsAre(2U));
  const auto spin = kernels_.spin(500);
  run(spin);
  EXPECT_THAT(words(spin->results), testing::ElementsAre(1U));
}

TEST_F(CalibrationEmulated, CountsCalibrateNothing) {
  CountedDevice counts({}, true);
  const auto compiler = codegen::NvrtcCompiler::create();
  ASSERT_TRUE(compiler);
  const auto done = calibrate(counts, *find_device("h100"), **compiler, "sm_90a", {});
  EXPECT_THAT(error_of(done), HasSubstr("unsupported: clock_hz: the device gives sectors by emulator counters"));
}

/// The emulated device with made-up times: each measurement takes longer than the one before by `step_us`. What has
/// more steps, and is measured later, takes longer; so does a tiny kernel alone, longer than its share of a graph.
class RisingTimes final : public TimedDevice {
 public:
  explicit RisingTimes(double step_us) : step_us_(step_us) {}
  [[nodiscard]] const DeviceIdentity& identity() const override { return counts_.identity(); }
  Result<std::unique_ptr<TimedSession>> timed_session() override {
    STITCH_ASSIGN(auto inner, counts_.timed_session());
    return std::unique_ptr<TimedSession>(std::make_unique<RisingSession>(std::move(inner), *this));
  }

 private:
  class RisingSession final : public ForwardingSession {
   public:
    RisingSession(std::unique_ptr<TimedSession> inner, RisingTimes& times)
        : ForwardingSession(std::move(inner)), times_(times) {}
    Result<Measurement> measure(const MeasureTask& task) override {
      STITCH_ASSIGN(Measurement measured, ForwardingSession::measure(task));
      measured.kind = Measurement::Kind::device_time;
      measured.samples = {times_.next_us_ += times_.step_us_};
      summarise(measured, Verdict::precise);
      return measured;
    }

   private:
    RisingTimes& times_;
  };

  CountedDevice counts_{{}, true};
  double step_us_, next_us_ = 1000;
};

CalibrationSizes small_sizes() {
  CalibrationSizes sizes;
  sizes.copy_bytes = 128 << 10;
  sizes.l2_bytes = 32 << 10;
  sizes.l2_chain_lines = sizes.dram_chain_lines = 256;
  sizes.chain_steps = 77;
  sizes.rounds = 20;
  sizes.blocks = 2;
  return sizes;
}

TEST_F(CalibrationEmulated, AConstantThatCannotBeMeasuredCostsNoOther) {
  RisingTimes device(10);
  const auto compiler = codegen::NvrtcCompiler::create();
  ASSERT_TRUE(compiler);
  const auto done = calibrate(device, *find_device("h100"), **compiler, "sm_90a", small_sizes());
  ASSERT_TRUE(done) << error_of(done);
  std::vector<std::string> names;
  for (const CalibratedConstant& constant : done->constants) names.push_back(constant.name);
  EXPECT_THAT(names, testing::ElementsAre("clock_hz", "copy_fraction", "l2_bandwidth", "shared_bytes_per_clock",
                                          "shared_latency", "l2_latency", "dram_latency", "launch_us",
                                          "grid_barrier_us", "block_barrier_cycles"));
  EXPECT_THAT(done->failures, testing::IsEmpty());
}

TEST_F(CalibrationEmulated, FallingTimesLeaveWhatNeedsNoDifference) {
  RisingTimes device(-10);
  const auto compiler = codegen::NvrtcCompiler::create();
  ASSERT_TRUE(compiler);
  const auto done = calibrate(device, *find_device("h100"), **compiler, "sm_90a", small_sizes());
  ASSERT_TRUE(done) << error_of(done);
  EXPECT_EQ(done->constants.size(), 6U);
  EXPECT_THAT(done->failures,
              testing::ElementsAre(HasSubstr("clock_hz: 300000 steps more took"), HasSubstr("l2_bandwidth: "),
                                   HasSubstr("launch_us: "), HasSubstr("grid_barrier_us: ")));
}

// ---- a real one ------------------------------------------------------------------------------------------------

TEST(CalibrationGpu, EveryConstantIsMeasuredAndSane) {
  RunningDevice running(runner_options({"--device", "gpu:0"}));
  if (!running.device) GTEST_SKIP() << running.error.message;
  const DeviceIdentity& identity = running.device->identity();
  if (identity.emulated) GTEST_SKIP() << "times of the emulated driver are none";
  const auto own = classify(identity.traits);
  ASSERT_TRUE(own) << own.error().message;
  const DeviceSpec* spec = &own->spec;
  const auto compiler = codegen::NvrtcCompiler::create();
  ASSERT_TRUE(compiler);
  const auto done = calibrate(*running.device, *spec, **compiler, identity.architecture, CalibrationSizes::of(*spec));
  ASSERT_TRUE(done) << error_of(done);
  EXPECT_THAT(done->failures, testing::IsEmpty());
  EXPECT_EQ(done->constants.size(), 10U);
  EXPECT_THAT(apply(*spec, *done).notes, testing::ElementsAre(HasSubstr("until that is proven")));
  for (const auto& [name, figure] : done->constants) {
    RecordProperty(name, fmt::format("{:.6g} (spread {:.4f}), table {:.6g}", figure.value, figure.spread,
                                     table_value(*spec, name)));
  }
}

}  // namespace
}  // namespace stitch::profiler::test
