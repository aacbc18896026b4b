// What the model of a contraction's time has to say about pipelines, tiles and devices, whatever its constants are.
#include "costmodel/contraction/contraction_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/contraction/product_rates.h"
#include "graph/builder.h"
#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/merged_contraction.h"
#include "kernel/contraction/scaled_contraction.h"
#include "tests/costmodel/usual_schedule.h"
#include "tests/kernel/scaled_graphs.h"

namespace stitch::costmodel::test {
namespace {

using graph::DType;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::test::matmul;

ContractionProblem problem_of(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  return *kernel::derive_contraction(matmul(dtype, rows, columns, depth));
}

const DeviceSpec& a100() {
  static const DeviceSpec device = *find_device("a100-80gb");
  return device;
}

double us_of(const ContractionProblem& problem, const ContractionSchedule& schedule,
             const DeviceSpec& device = a100()) {
  return contraction_time(problem, schedule, device).total;
}

TEST(ContractionTime, LargeProductsAreBoundByTheTensorCores) {
  const ContractionProblem problem = problem_of(DType::f16, 8192, 8192, 8192);
  ContractionSchedule large = usual(problem);
  large.block_rows = 256;  // L2 feeds no smaller ones at that rate
  large.stages = 3;
  const ContractionTime time = contraction_time(problem, large, a100());
  const double ideal = problem.products() / (1024.0 * a100().sm_count * a100().clock_hz) * 1e6;
  EXPECT_GT(time.total, ideal);
  EXPECT_LT(time.total, 1.35 * ideal);
  EXPECT_GT(time.multiply, 0.8 * time.total);
  EXPECT_STREQ(time.binding().first, "tensor cores or multiply-adds");
  EXPECT_EQ(time.resident, 1);
  EXPECT_NEAR(time.rounds, 2048.0 / 108, 1e-9);
}

TEST(ContractionTime, StagesHideWhatALoadTakes) {
  const ContractionProblem problem = problem_of(DType::f16, 1024, 1024, 4096);
  ContractionSchedule s = usual(problem);
  double before = std::numeric_limits<double>::infinity();
  for (s.stages = 1; s.stages <= 4; ++s.stages) {
    const double us = us_of(problem, s);
    EXPECT_LE(us, before) << s.stages;
    before = us;
  }
  ContractionSchedule none = usual(problem), one = usual(problem);
  none.stages = 1;
  none.fragment_stages = one.fragment_stages = 1;
  EXPECT_GT(us_of(problem, none), 1.2 * us_of(problem, usual(problem)));
  EXPECT_GE(us_of(problem, one), us_of(problem, usual(problem)));
}

TEST(ContractionTime, ALoopIsAtLeastWhatItsUnitsTake) {
  const ContractionProblem problem = problem_of(DType::bf16, 768, 2304, 1024);
  for (const int stages : {1, 2, 4}) {
    ContractionSchedule s = usual(problem);
    s.stages = stages;
    const ContractionTime time = contraction_time(problem, s, a100());
    for (const double part : {time.multiply, time.shared, time.issue}) EXPECT_GE(time.loop, part);
    EXPECT_GE(time.total, time.loop + time.fill + time.epilogue + time.launch);
  }
}

TEST(ContractionTime, SplittingHelpsDeepProductsOfFewTiles) {
  const ContractionProblem deep = problem_of(DType::f16, 128, 128, 65536),
                           wide = problem_of(DType::f16, 4096, 4096, 512);
  ContractionSchedule split = usual(deep);
  split.split = 16;
  EXPECT_LT(us_of(deep, split), 0.3 * us_of(deep, usual(deep)));
  ContractionSchedule needless = usual(wide);
  needless.split = 16;
  EXPECT_GT(us_of(wide, needless), us_of(wide, usual(wide)));
}

/// Of 119 tiles on 108 SMs 97 wait for 11, unless all share the turns; of 108 there is nothing to be won.
TEST(ContractionTime, SharedTurnsLeaveNoRoundHalfEmpty) {
  const auto both = [](const ContractionProblem& problem) {
    const ContractionSchedule s = usual(problem);
    ContractionSchedule shared = s;
    shared.streamed = a100().sm_count;
    EXPECT_TRUE(kernel::check_legality(problem, shared, a100()));
    return std::pair{contraction_time(problem, s, a100()), contraction_time(problem, shared, a100())};
  };
  const auto [whole, shared] = both(problem_of(DType::bf16, 7 * 128, 17 * 128, 4096));
  EXPECT_LT(shared.total, 0.8 * whole.total);
  EXPECT_NEAR(shared.multiply / whole.multiply, 119.0 / 108 / 2, 0.02) << "rounds are as many as there are tiles";
  EXPECT_EQ(whole.partial, 0);
  EXPECT_GT(shared.partial, 0) << "parts are written, waited for and read";
  EXPECT_GT(shared.l2_bytes, whole.l2_bytes);
  const auto [even, needless] = both(problem_of(DType::bf16, 6 * 128, 18 * 128, 4096));
  EXPECT_GE(needless.total, even.total);
  EXPECT_EQ(needless.partial, 0) << "no tile comes in parts";
  const auto [many, hardly] = both(problem_of(DType::bf16, 54 * 128, 108 * 128, 4096));
  EXPECT_GE(hardly.total, 0.97 * many.total) << "54 rounds";
}

TEST(ContractionTime, WhatIsWalkedTogetherIsReadOnce) {
  // 268 MB a side do not fit L2: rows of tiles that are walked together share what they read of the right one.
  const ContractionProblem problem = problem_of(DType::f16, 16384, 16384, 8192);
  ContractionSchedule rows = usual(problem), bands = usual(problem);
  rows.group = 1;
  bands.group = 8;
  EXPECT_LT(contraction_time(problem, bands, a100()).dram_bytes,
            0.5 * contraction_time(problem, rows, a100()).dram_bytes);
  const ContractionProblem small = problem_of(DType::f16, 1024, 1024, 1024);
  EXPECT_EQ(contraction_time(small, usual(small), a100()).dram_bytes, small.least_bytes()) << "all of it is in L2";
}

/// A row of 16 tiles is less than what runs together on 108 SMs: six rows side by side read the right operand once.
TEST(ContractionTime, BandsThatRunSideBySideShareWhatTheyRead) {
  const ContractionProblem problem = problem_of(DType::f16, 32768, 2048, 16384);
  const auto read = [&](int group) {
    ContractionSchedule s = usual(problem);
    s.group = group;
    return contraction_time(problem, s, a100()).dram_bytes;
  };
  const double right = 2.0 * 2048 * 16384, bands = 256;
  EXPECT_LT(read(1), static_cast<double>(problem.least_bytes()) + right * bands / 6);
}

/// All blocks of a round leave their parts at once, so that L2's bandwidth is shared among them: 128 bytes a cycle and
/// SM are no SM's then.
TEST(ContractionTime, PartsAreWrittenWithTheBandwidthThatAllHave) {
  const ContractionProblem problem = problem_of(DType::bf16, 1024, 1024, 65536);
  ContractionSchedule s = usual(problem);
  s.split = 2;  // of 64 tiles: 128 blocks
  const auto partial = [&](double bandwidth) {
    DeviceSpec device = *find_device("rtx4090");
    device.l2_bandwidth = bandwidth;
    return contraction_time(problem, s, device).partial;
  };
  const double bytes = 4.0 * 1024 * 1024 * 2;
  EXPECT_GT(partial(5e12), (bytes + bytes) / 5e12 * 1e6) << "written, and read";
  EXPECT_GT(partial(2.5e12), partial(5e12) + 0.9 * bytes / 5e12 * 1e6);
}

/// What power leaves an L4 of its clock is left to L2 and shared memory, too: 128 × 64 results ask L2 for 1.5 times
/// as much as 128 × 128. A product that device memory bounds keeps its clock, and so does one by other boards, of which
/// the model has power in the rate of tensor cores.
TEST(ContractionTime, PowerLowersTheClockOfAllOfAnAdaBoard) {
  const DeviceSpec l4 = *find_device("l4");
  DeviceSpec unbound = l4;
  unbound.tensor.sustained_share = 1;
  const ContractionProblem square = problem_of(DType::bf16, 4096, 4096, 4096);
  ContractionSchedule s = usual(square);
  const ContractionTime low = contraction_time(square, s, l4), full = contraction_time(square, s, unbound);
  EXPECT_LT(low.clock, 0.6);
  EXPECT_GE(low.clock, l4.tensor.sustained_share * 0.999);
  EXPECT_NEAR(low.shared * low.clock, full.shared, 1e-9 * full.shared);
  EXPECT_NEAR(low.l2 * low.clock, full.l2, 1e-9 * full.l2);
  EXPECT_NEAR(low.turn.busy_us * low.clock, full.turn.busy_us, 1e-9);
  EXPECT_EQ(low.dram, full.dram);
  ContractionSchedule small = s;
  small.block_columns = 64;
  small.blocks_per_sm = 2;
  EXPECT_GT(us_of(square, small, l4), 1.02 * us_of(square, s, l4)) << "L2 has half of its bandwidth";
  const ContractionProblem thin = problem_of(DType::bf16, 16, 4096, 4096);
  ContractionSchedule row = usual(thin);
  row.block_rows = row.warp_rows = 16;
  EXPECT_EQ(contraction_time(thin, row, l4).clock, 1) << "memory is what is waited for";
  EXPECT_EQ(contraction_time(square, s, *find_device("h100")).clock, 1);
}

/// What several products share is read once, and half empty rounds of tiles are one.
TEST(ContractionTime, SeveralProductsOfOneOperandTakeLessThanEachByItself) {
  graph::Builder b;
  const graph::Value x = b.parameter(DType::f16, {512, 768});
  std::vector<graph::Value> results;
  for (const std::int64_t columns : {768, 256, 256})
    results.push_back(b.dot(x, b.parameter(DType::f16, {768, columns}), {{}, {}, {1}, {0}, DType::f16}));
  const ContractionProblem merged = *kernel::derive_merged(*b.finish(results));
  const ContractionSchedule s = usual(merged);
  double apart = 0;
  for (const ContractionProblem& member : merged.members) apart += us_of(member, s);
  EXPECT_LT(us_of(merged, s), 0.6 * apart);
  EXPECT_EQ(contraction_time(merged, s, a100()).dram_bytes, merged.least_bytes());
  EXPECT_EQ(merged.members[1].least_bytes(), 2 * (512 * 768 + 768 * 256 + 512 * 256)) << "no others' operands";
}

TEST(ContractionTime, FasterPartsNeverTakeLonger) {
  for (const std::int64_t rows : {16, 512, 4096}) {
    const ContractionProblem problem = problem_of(DType::f16, rows, 4096, 4096);
    ContractionSchedule s = usual(problem);
    s.block_rows = s.warp_rows = std::min<std::int64_t>(rows, 64);
    for (const auto& improve : std::vector<void (*)(DeviceSpec&)>{
             [](DeviceSpec& d) { d.tensor.f16 *= 2; }, [](DeviceSpec& d) { d.dram_bandwidth *= 2; },
             [](DeviceSpec& d) { d.l2_bandwidth *= 2; }, [](DeviceSpec& d) { d.shared_bytes_per_clock *= 2; },
             [](DeviceSpec& d) { d.dram_latency /= 2; }, [](DeviceSpec& d) { d.launch_us /= 2; }}) {
      DeviceSpec better = a100();
      improve(better);
      EXPECT_LE(us_of(problem, s, better), us_of(problem, s) * (1 + 1e-9)) << rows;
    }
  }
}

TEST(ContractionTime, TheLibraryHasWhatOurKernelsHaveNot) {
  const ContractionProblem problem = problem_of(DType::bf16, 8192, 8192, 8192);
  const DeviceSpec h100 = *find_device("h100");
  EXPECT_LT(library_us(problem, h100), 0.75 * us_of(problem, usual(problem), h100)) << "wgmma";
  EXPECT_GT(library_us(problem, a100()), 0.8 * us_of(problem, usual(problem)));
  for (const DType dtype : {DType::f32, DType::f64, DType::s32}) {
    const ContractionProblem other = *kernel::derive_contraction([&] {
      graph::Builder b;
      return kernel::test::finished(
          b, {b.dot(b.parameter(dtype, {256, 256}), b.parameter(dtype, {256, 256}), {{}, {}, {1}, {0}, dtype})});
    }());
    EXPECT_TRUE(std::isfinite(library_us(other, a100()))) << graph::to_string(dtype);
    DeviceSpec plain = h100;
    plain.tensor.synchronous_share = 1;
    EXPECT_EQ(library_us(other, h100), library_us(other, plain)) << "multiply-adds are no wgmma";
  }
}

/// Of f32 in two parts: tensor instructions are three of each, and every element that a lane has is split.
/// What cuBLAS took on H100s (bench/results/gpu), and others measured on a B200: of tiles between powers of two rounds
/// are fuller.
TEST(ContractionTime, TheLibraryTakesWhatLibrariesWereSeenToTake) {
  const auto us = [](const char* device, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    return library_us(*kernel::derive_contraction(kernel::test::matmul(DType::bf16, rows, columns, depth)),
                      *find_device(device));
  };
  EXPECT_NEAR(us("h100", 512, 12288, 4096), 70.6, 0.15 * 70.6);
  EXPECT_NEAR(us("h100", 2048, 12288, 4096), 257.5, 0.1 * 257.5);
  EXPECT_NEAR(us("h100", 2048, 3072, 768), 17.3, 0.15 * 17.3);
  EXPECT_GT(us("b200", 4096, 4096, 4096), 82);
  EXPECT_LT(us("b200", 4096, 4096, 4096), 101);
}

TEST(ContractionTime, SplittingOperandsIsIssued) {
  graph::Graph graph = matmul(DType::f32, 4096, 4096, 4096);
  graph.constraints.bf16x3 = true;
  const ContractionProblem problem = *kernel::derive_contraction(graph);
  ContractionSchedule s = usual(problem);
  s.instruction = kernel::ContractionInstruction::mma_m16n8k16_bf16x3;
  s.warp_columns = 32;
  s.fragment_stages = 1;
  ASSERT_TRUE(kernel::check_legality(problem, s, a100()));
  const ContractionTime time = contraction_time(problem, s, a100());
  // Of a warp and step, 16 of depth: (64 + 32) · 16 / 32 elements of a lane, 4 · 4 · 3 products.
  const double steps = 4096.0 * 4096 * 4096 / (64 * 32 * 16);
  const double least = steps * (48 * split_work(s.instruction).instructions + 48);
  const double us = least / 4 / a100().sm_count / a100().clock_hz * 1e6;
  EXPECT_GT(time.issue, us);
  EXPECT_LT(time.issue, 1.7 * us) << "copies and what a turn begins with";
  EXPECT_GT(time.total, problem.products() * 3 / (1024.0 * a100().sm_count * a100().clock_hz) * 1e6);
  EXPECT_GT(library_us(problem, a100()), time.total) << "no library multiplies so: its product is one of f32";
}

TEST(ContractionTime, BlocksOfAClusterShareWhatTheyRead) {
  const DeviceSpec h100 = *find_device("h100");
  const ContractionProblem problem = problem_of(DType::f16, 4096, 4096, 4096);
  ContractionSchedule s = usual(problem);
  s.instruction = kernel::ContractionInstruction::wgmma_m64k16;
  s.block_columns = s.warp_columns = 256;
  s.block_depth = 64;
  s.warp_rows = 16;
  s.fragment_stages = 1;
  s.tensor_copies = true;
  s.resident = h100.sm_count;
  kernel::fit_accesses(problem, s);
  ASSERT_TRUE(kernel::check_legality(problem, s, h100));
  const ContractionTime alone = contraction_time(problem, s, h100);
  s.cluster = 2;
  ASSERT_TRUE(kernel::check_legality(problem, s, h100));
  const ContractionTime pair = contraction_time(problem, s, h100);
  // Of 128 rows and 256 columns the columns are shared; the results are written as before.
  const double results = 4096.0 * 4096 * 2;
  EXPECT_NEAR((pair.l2_bytes - results) / (alone.l2_bytes - results), 256.0 / 384, 0.01);
  EXPECT_EQ(alone.resident, 1);
  s.cluster = 1;
  s.tensor_copies = false;
  s.resident = 0;
  EXPECT_LT(alone.issue, contraction_time(problem, s, h100).issue) << "nobody who multiplies asks for copies";
}

TEST(ContractionTime, NothingTakesALaunch) {
  for (const auto& [rows, columns, depth] : {std::array{0, 64, 64}, std::array{64, 64, 0}, std::array{1, 1, 1}}) {
    const ContractionProblem problem = problem_of(DType::f16, rows, columns, depth);
    const auto schedule = kernel::default_schedule(problem, a100());
    ASSERT_TRUE(schedule) << schedule.error().message;
    const ContractionTime time = contraction_time(problem, *schedule, a100());
    EXPECT_TRUE(std::isfinite(time.total));
    EXPECT_GE(time.total, a100().launch_us);
    EXPECT_LT(time.total, a100().launch_us + cold_code_us + 3);
  }
}

/// Of images [8,height,height,64] with [window,window,64,64], padded by `padding`, with `holes` in the images.
ContractionProblem convolution(std::int64_t height, std::int64_t window, std::int64_t padding, std::int64_t holes = 1) {
  graph::ConvolutionAttributes a = kernel::test::features_last();
  a.input_dilation = {holes, holes};
  a.low = a.high = {padding, padding};
  graph::Builder b;
  const graph::Value x = b.parameter(DType::f16, {8, height, height, 64});
  const graph::Value w = b.parameter(DType::f16, {window, window, 64, 64});
  a.result = DType::f16;
  return *kernel::derive_contraction(*b.finish({b.add(graph::Op::convolution, {x, w}, a)}));
}

TEST(ConvolutionTimes, WindowsOverlapInDeviceMemory) {
  const DeviceSpec device = *find_device("h100");
  const ContractionProblem windows = convolution(56, 3, 1);
  const ContractionProblem product = *kernel::derive_contraction(matmul(DType::f16, 8 * 56 * 56, 64, 576));
  const auto schedule = *kernel::default_schedule(windows, device);
  const ContractionTime read = contraction_time(windows, schedule, device);
  const ContractionTime written = contraction_time(product, schedule, device);
  EXPECT_LT(read.dram_bytes, written.dram_bytes / 3) << "patches that are written out are nine times the image";
  EXPECT_EQ(read.multiply, written.multiply);
  EXPECT_GE(read.issue, written.issue) << "copies ask whether they are inside";
}

TEST(ConvolutionTimes, ALibraryLeavesOutHoles) {
  const DeviceSpec device = *find_device("h100");
  const double dense = library_us(convolution(111, 3, 1), device);
  EXPECT_LT(library_us(convolution(56, 3, 1, 2), device), dense) << "as many positions, a quarter of the products";
  EXPECT_LT(library_us(convolution(56, 1, 0, 2), device), library_us(convolution(111, 1, 0), device))
      << "also where a window has one position";
}

/// Sums that are scaled take issue slots at each part's end, fewer where parts are longer, and their scales are read.
TEST(ContractionTime, ScalesOfPartsTakeInstructions) {
  const auto scaled = [](std::int64_t part) {
    return *kernel::derive_scaled(
        kernel::test::graph_of({"", 1, 4096, 4096, 4096, DType::s8, DType::s8, false, part, 128}));
  };
  const ContractionProblem by_128 = scaled(128), by_512 = scaled(512);
  ContractionProblem plain = by_128;
  plain.scales.reset();
  ContractionSchedule s = usual(by_128);
  s.instruction = kernel::ContractionInstruction::mma_m16n8k32;
  s.block_depth = 64;
  s.warp_columns = 32;
  kernel::fit_accesses(by_128, s);
  const ContractionTime none = contraction_time(plain, s, a100()), few = contraction_time(by_512, s, a100()),
                        many = contraction_time(by_128, s, a100());
  EXPECT_LT(none.issue, few.issue);
  EXPECT_LT(few.issue, many.issue);
  EXPECT_LT(none.total, many.total);
  EXPECT_NEAR((many.issue - none.issue) / (few.issue - none.issue), 4, 0.01);
  EXPECT_NEAR(many.dram_bytes - none.dram_bytes, static_cast<double>(by_128.scales->bytes), 1);
}

/// Sums of f8 by wgmma are added to others every tile: one warpgroup's additions are hidden by another one's products,
/// and by nobody where it is alone. A library's are, too.
TEST(ContractionTime, PromotedSumsAreHiddenByOtherWarpgroups) {
  const DeviceSpec h100 = *find_device("h100");
  const auto problem_by = [](DType dtype, DType sums) {
    graph::Builder b;
    const graph::Value x = b.parameter(dtype, {4096, 4096}), w = b.parameter(dtype, {4096, 4096});
    return *kernel::derive_contraction(*b.finish({b.dot(x, w, {{}, {}, {1}, {1}, sums})}));
  };
  const ContractionProblem f8 = problem_by(DType::f8e4m3, DType::f32), s8 = problem_by(DType::s8, DType::s32);
  const auto tile = [&](const ContractionProblem& problem, int rows, int columns) {
    ContractionSchedule s;
    s.instruction = kernel::warpgroup_instruction_for(problem, h100).value();
    s.block_rows = rows;
    s.block_columns = s.warp_columns = columns;
    s.block_depth = 128;
    s.warp_rows = 16;
    s.thread_rows = s.thread_columns = 0;
    s.stages = 6;  // whose loads are hidden
    s.tensor_copies = true;
    s.cluster = 2;  // else L2 is what they wait for
    s.resident = h100.sm_count;
    kernel::fit_accesses(problem, s);
    EXPECT_TRUE(kernel::check_legality(problem, s, h100));
    return contraction_time(problem, s, h100);
  };
  // s8 has the same rate, and sums that are exact.
  EXPECT_LT(tile(f8, 128, 128).loop, 1.05 * tile(s8, 128, 128).loop);
  EXPECT_GT(tile(f8, 64, 208).loop, 1.04 * tile(s8, 64, 208).loop);
  EXPECT_GT(tile(f8, 128, 128).issue, 1.5 * tile(s8, 128, 128).issue);
  EXPECT_GT(library_us(f8, h100), 1.05 * library_us(s8, h100)) << "its largest tiles do not fit twice";
}

}  // namespace
}  // namespace stitch::costmodel::test
