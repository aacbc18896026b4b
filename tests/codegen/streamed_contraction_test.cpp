// Products whose blocks share the turns of tiles (stream-K), on the emulated device, beside the float64 reference.
#include "kernel/contraction/streamed_depth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernel/contraction/contraction_shape.h"
#include "tests/codegen/computed_case.h"
#include "tests/codegen/gated_case.h"
#include "tests/codegen/merged_case.h"
#include "tests/codegen/summed_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

constexpr auto f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;

ContractionSchedule streamed(ContractionSchedule schedule, int blocks) {
  schedule.streamed = blocks;
  return schedule;
}

/// Small tiles of a few turns.
ContractionSchedule small_tiles(const ContractionProblem& problem, int blocks) {
  ContractionSchedule s = default_of(problem);
  s.block_rows = s.block_columns = s.warp_rows = s.warp_columns = 32;
  s.block_depth = 64 / std::min(4, graph::byte_size(problem.left.dtype));
  if (s.instruction == kernel::ContractionInstruction::cuda_core) s.thread_rows = 8, s.thread_columns = 4;
  s.stages = s.fragment_stages = 1;
  fit_accesses(problem, s);
  for (const int stages : {2, 3}) {
    ContractionSchedule more = s;
    more.stages = stages;
    if (kernel::check_legality(problem, more, *find_device("h100"))) s = more;
  }
  return streamed(s, blocks);
}

struct Streamed {
  Matmul matmul;
  int blocks;
};
void PrintTo(const Streamed& each, std::ostream* out) { *out << each.matmul.name; }

class StreamedEmulated : public testing::TestWithParam<Streamed> {};

TEST_P(StreamedEmulated, AreRight) {
  const ContractionProblem problem = problem_of(GetParam().matmul);
  const ContractionSchedule schedule = small_tiles(problem, GetParam().blocks);
  EXPECT_THAT(case_of(problem, schedule).kernel.source, testing::HasSubstr("StreamedTurns<"));
  expect_problem_right(problem, schedule);
}

// Tiles are 32 × 32.
INSTANTIATE_TEST_SUITE_P(
    Of, StreamedEmulated,
    testing::Values(Streamed{{"fewer_tiles_than_blocks", {1, 64, 32, 512}, f16}, 5},
                    Streamed{{"a_round_and_some", {1, 160, 32, 256}, bf16, plain, turned, bf16}, 4},
                    Streamed{{"rounds_and_some", {1, 96, 128, 128}, bf16, plain, plain, bf16, "bias"}, 5},
                    Streamed{{"whole_rounds", {1, 64, 64, 128}, f16}, 2},
                    Streamed{{"one_block", {1, 64, 64, 128}, f16, turned, turned}, 1},
                    Streamed{{"a_turn_each", {1, 32, 64, 128}, f16}, 8},
                    Streamed{{"batches", {3, 40, 33, 96}, f16, turned, plain, f16, "residual"}, 7},
                    Streamed{{"odd", {2, 37, 53, 171}, bf16, plain, plain, bf16}, 6},
                    Streamed{{"ragged", {1, 72, 40, 188}, bf16, plain, turned, f32, "gelu"}, 4},
                    Streamed{{"across", {2, 64, 48, 96}, f16, plain, plain, f32, "turned"}, 5},
                    Streamed{{"f32", {1, 96, 80, 140}, f32, plain, plain}, 5},
                    Streamed{{"f32_odd", {2, 33, 47, 65}, f32, turned, turned, f32, "bias"}, 7},
                    Streamed{{"tf32", {1, 96, 40, 188}, f32, plain, turned, f32, "", {.tf32 = true}}, 5},
                    Streamed{{"tf32x3", {2, 37, 53, 71}, f32, turned, plain, f32, "bias", {.tf32x3 = true}}, 6},
                    Streamed{{"f64", {1, 64, 40, 60}, DType::f64, plain, plain, DType::f64}, 3},
                    Streamed{{"s8", {1, 64, 96, 192}, DType::s8, plain, turned, DType::s32}, 4},
                    Streamed{{"f8", {1, 64, 96, 192}, DType::f8e4m3, plain, turned}, 4},
                    Streamed{{"depth_of_one", {1, 96, 64, 1}, f16}, 4}, Streamed{{"no_depth", {1, 96, 64, 0}, f32}, 4},
                    Streamed{{"one", {1, 1, 1, 1}, f32}, 1}, Streamed{{"row", {1, 1, 200, 128}, f16}, 5}),
    [](const auto& each) { return each.param.matmul.name; });

/// Tiles of more turns than there are stages, of fewer, and of one alone.
TEST(StreamedKernelEmulated, PipelinesAreRight) {
  const ContractionProblem problem = problem_of({"", {1, 96, 160, 320}, f16, plain, turned});
  for (const auto& [stages, fragments] : {std::pair{1, 1}, {2, 1}, {3, 1}, {4, 2}, {2, 2}}) {
    for (const int blocks : {1, 4, 5, 11, 30, 60})
      expect_problem_right(problem, streamed(pipelined(problem, stages, fragments), blocks));
  }
}

TEST(StreamedKernelEmulated, ByWarpgroupsIsRight) {
  const Matmul matmul = {"", {2, 100, 130, 360}, bf16, plain, turned, bf16, "bias"};
  const ContractionProblem problem = problem_of(matmul);
  for (const int blocks : {3, 5, 20}) {
    const ContractionSchedule s = streamed(schedule_of(problem, {"", matmul, 64, 64, 32, 16, 64, 4}), blocks);
    EXPECT_THAT(case_of(problem, s).kernel.source, testing::HasSubstr("wgmma.mma_async"));
    expect_problem_right(problem, s);
  }
}

TEST(StreamedKernelEmulated, WhatOneProductDoesOthersDo) {
  const ContractionProblem merged =
      problem_of(MergedMatmuls{"", 1, 96, 200, f16, plain, {{64, turned, f16, "bias"}, {160, turned}, {40, turned}}});
  const ContractionProblem computed =
      problem_of(ComputedMatmul{"", {"", {1, 96, 64, 330}, f16, plain, turned}, f32, "scale"});
  const ContractionProblem both =
      problem_of(ComputedMatmul{"", {"", {1, 72, 70, 188}, f16, plain, turned}, f32, "convert", true, true});
  const ContractionProblem gated = problem_of(Gated{"", 1, 100, 128, 192, 2, f16, f16, plain, "split"});
  const ContractionProblem summed =
      problem_of(SummedMatmuls{"", 1, 96, 130, f16, plain, turned, {{160}, {72}, {40}}, f16, "bias"});
  for (const ContractionProblem* problem : {&merged, &computed, &both, &gated, &summed}) {
    for (const auto& [stages, fragments, blocks] : {std::tuple{3, 2, 5}, {1, 1, 7}, {4, 1, 9}})
      expect_problem_right(*problem, streamed(pipelined(*problem, stages, fragments), blocks));
  }
}

/// Whoever arrives last adds the parts, by rising depth: bits are the same whatever the order of the blocks is, and
/// those of one block's sums added so. Counters are left ready for the next launch.
TEST(StreamedKernelEmulated, ResultsAreThoseOfAnyOrderOfBlocks) {
  const ContractionProblem problem = problem_of({"", {1, 96, 96, 512}, f32, plain, plain, f32, "bias", {.tf32 = true}});
  const KernelCase each = case_of(problem, small_tiles(problem, 7));
  const std::vector<Bytes> inputs = fine_inputs_of(*each.graph);
  const KernelOutcome first = run(each, inputs);
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    profiler::EmulatedOptions options;
    options.shuffle_seed = seed;
    for (const KernelOutcome& outcome : launch_in_turn(each, {inputs, inputs, inputs}, options)) {
      EXPECT_THAT(outcome.findings, testing::IsEmpty());
      EXPECT_EQ(outcome.results, first.results) << seed;
    }
  }
}

/// Of three parts 2²⁵, -2²⁵ and 1 the sum is 1 by rising depth, and 0 the other way round.
TEST(StreamedKernelEmulated, PartsAreAddedByRisingDepth) {
  const ContractionProblem problem = problem_of({"", {1, 32, 32, 48}, f32, plain, plain});
  const ContractionSchedule schedule = small_tiles(problem, 3);
  ASSERT_EQ(kernel::streamed_parts(kernel::shape_of(problem, schedule).streamed).most, 3);
  const KernelCase each = case_of(problem, schedule);
  std::vector<double> left(std::size_t{32} * 48), right(std::size_t{48} * 32, 1);
  for (std::size_t row = 0; row < 32; ++row) {
    left[row * 48] = 0x1p25;
    left[row * 48 + 16] = -0x1p25;
    left[row * 48 + 32] = 1;
  }
  const Bytes ones = bytes_of(f32, std::vector<double>(std::size_t{32} * 32, 1));
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    profiler::EmulatedOptions options;
    options.shuffle_seed = seed;
    EXPECT_EQ(run(each, {bytes_of(f32, left), bytes_of(f32, right)}, options).results[0], ones) << seed;
  }
}

KernelOutcome without(const KernelCase& each, std::string_view text, std::string_view instead) {
  KernelCase broken = each;
  const std::size_t at = broken.kernel.source.find(text);
  if (at == std::string::npos) throw std::runtime_error(fmt::format("no {} in\n{}", text, broken.kernel.source));
  broken.kernel.source.replace(at, text.size(), instead);
  return launch(broken, inputs_of(*each.graph));
}

/// Without what orders blocks, parts, tiles and stages the kernel is seen to be wrong.
TEST(StreamedKernelEmulated, WhatOrdersBlocksIsNeeded) {
  const ContractionProblem problem = problem_of({"", {1, 96, 160, 320}, f16, plain, turned});
  const KernelCase each = case_of(problem, streamed(pipelined(problem, 3, 1), 4));
  const KernelOutcome right = launch(each, inputs_of(*each.graph));
  EXPECT_THAT(right.findings, testing::IsEmpty());
  const std::string arrival = "if (!arrives_last(arrived + tile, static_cast<u32>(count))) continue;";
  // Nobody waits to be the last; the first to arrive adds; nobody is told what others wrote.
  EXPECT_THAT(without(each, arrival, "__syncthreads();").findings, testing::Not(testing::IsEmpty()));
  EXPECT_THAT(without(each, arrival, "if (!arrives_last(arrived + tile, 1u)) continue;").findings,
              testing::Not(testing::IsEmpty()));
  const std::string relaxed =
      "__shared__ bool last; __syncthreads(); if (threadIdx.x == 0) { const u32 ticket = atomicAdd(arrived + tile, "
      "1u); "
      "last = ticket + 1 == static_cast<u32>(count); if (last) arrived[tile] = 0; } __syncthreads(); if (!last) "
      "continue;";
  EXPECT_THAT(without(each, arrival, relaxed).findings, testing::Not(testing::IsEmpty())) << "a fence";
  EXPECT_THAT(without(each, "__syncthreads();  // the next tiles come where the strips lie", "").findings,
              testing::Not(testing::IsEmpty()));
  // One place for the parts of two tiles; a part too few.
  EXPECT_THAT(without(each, "tile + static_cast<int>(blockIdx.x), 1, 0", "tile, 1, 0").findings,
              testing::Not(testing::IsEmpty()));
  EXPECT_NE(without(each, "Streams::first_block(tile), count);", "Streams::first_block(tile), count - 1);").results,
            right.results);
  // Of a tile with fewer turns than there are stages, more than those are asked for: into places that the next tile's
  // copies come to.
  const KernelCase shallow = case_of(problem, streamed(pipelined(problem, 4, 1), 60));
  EXPECT_THAT(launch(shallow, inputs_of(*each.graph)).findings, testing::IsEmpty());
  EXPECT_THAT(without(shallow, "if (2 < turns)", "if (true)").findings, testing::Not(testing::IsEmpty()));
}

/// Shapes, types and schedules drawn by a seed; STITCH_STREAMED: how many.
TEST(StreamedKernelEmulated, RandomOnesAreRight) {
  constexpr DType dtypes[] = {f16, bf16, f32, DType::f64, DType::s8};
  const char* const epilogues[] = {"", "bias", "turned"};
  Random random(20261129);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const char* const asked = std::getenv("STITCH_STREAMED");
  const int count = asked != nullptr ? std::atoi(asked) : 24;
  int tried = 0;
  while (tried < count) {
    Matmul m;
    m.shape = {1 + static_cast<std::int64_t>(random.below(3)), 1 + static_cast<std::int64_t>(random.below(200)),
               1 + static_cast<std::int64_t>(random.below(200)), 1 + static_cast<std::int64_t>(random.below(400))};
    m.dtype = among(dtypes);
    m.left = random.below(2) == 0 ? plain : turned;
    m.right = random.below(2) == 0 ? plain : turned;
    m.result = m.dtype == DType::s8 ? DType::s32 : m.dtype;
    m.epilogue = among(epilogues);
    const ContractionProblem problem = problem_of(m);
    ContractionSchedule s = random.below(2) == 0 ? small_tiles(problem, 0) : drawn_schedule(problem, random);
    s.split = 1;
    const kernel::ContractionShape shape = kernel::shape_of(problem, s);
    s.streamed = 1 + static_cast<int>(random.below(std::min<std::int64_t>(40, shape.tiles * shape.depth_tiles)));
    if (!kernel::check_legality(problem, s, *find_device("h100"))) continue;
    ++tried;
    expect_problem_right(problem, s);
    if (testing::Test::HasFailure()) return;
  }
}

/// What the schedule counts on: everything stays in registers.
TEST(StreamedKernel, DoesNotSpill) {
  const auto compiler = NvrtcCompiler::create();
  ASSERT_TRUE(compiler.ok());
  for (const char* target : {"a100", "l4", "h100"}) {
    const DeviceSpec device = *find_device(target);
    for (const auto& [dtype, constraints] : {std::pair{bf16, graph::Constraints{}},
                                             {f32, graph::Constraints{}},
                                             {f32, graph::Constraints{.tf32 = true}}}) {
      const ContractionProblem problem =
          problem_of({"", {1, 4096, 3712, 4096}, dtype, plain, turned, dtype, "bias", constraints});
      ContractionSchedule s = streamed(*kernel::default_schedule(problem, device), device.sm_count);
      ASSERT_TRUE(kernel::check_legality(problem, s, device));
      SCOPED_TRACE(fmt::format("{} {}", target, to_string(s)));
      CompileRequest request;
      request.source = generate_contraction(problem, s, {})->source;
      request.architecture = device.architecture();
      const auto compiled = (*compiler)->compile(request);
      ASSERT_TRUE(compiled.ok()) << compiled.error().message;
      EXPECT_FALSE(compiled->resources.spills()) << compiled->resources.describe();
    }
  }
}

}  // namespace
}  // namespace stitch::codegen::test
