#include "search/partition/fusion_plan.h"
#include "kernel/program/program_builder.h"
#include "kernel/program/traffic.h"
#include "kernel/structure/structure_builder.h"

#include <gtest/gtest.h>

#include <functional>

#include "search/partition/fusion_explorer.h"
#include "search/schedule/mapping_space.h"
#include "search/schedule/stitch_explorer.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

// ---- a kernel, whatever its schedule: the counting rules of bench/models/README.md --------------------------------

struct Example {
  std::string name;
  std::function<Graph()> graph;
  std::int64_t bytes;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

Graph unary(DType dtype, const Dims& dims) {
  Builder b;
  return finished(b, {b.unary(Op::negate, b.parameter(dtype, dims))});
}

Graph halves(bool also_whole) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 256});
  const Value left = b.slice(x, {0, 0}, {64, 128}), right = b.slice(x, {0, 128}, {64, 256});
  std::vector<Value> results = {b.binary(Op::add, left, right)};
  if (also_whole) results.push_back(b.unary(Op::tanh, x));
  return finished(b, results);
}

Graph slice_through(const std::function<Value(Builder&, Value)>& view, const Dims& starts, const Dims& limits) {
  Builder b;
  const Value x = b.parameter(DType::f32, {8, 16, 32});
  return finished(b, {b.unary(Op::tanh, b.slice(view(b, x), starts, limits))});
}

Graph looked_up(std::int64_t rows, std::int64_t count, bool twice = false) {
  Builder b;
  const Value table = b.parameter(DType::bf16, {rows, 128}), at = b.parameter(DType::s32, {count, 1});
  Value found = b.add(Op::gather, {table, at}, row_gather(128));
  if (twice) {
    const Value other = b.parameter(DType::s32, {count, 1});
    found = b.binary(Op::add, found, b.add(Op::gather, {table, other}, row_gather(128)));
  }
  return finished(b, {b.unary(Op::tanh, found)});
}

Graph dynamic_row() {
  Builder b;
  const Value x = b.parameter(DType::f32, {100, 64}), at = b.parameter(DType::s32, {});
  const Value row = b.add(Op::dynamic_slice, {x, at, b.scalar(DType::s32, 0)}, graph::DynamicSliceAttributes{{1, 64}});
  return finished(b, {b.unary(Op::exp, row)});
}

/// The cache keeps another shape than the update is made in.
Graph reshaped_cache_update() {
  Builder b;
  const Value cache = b.parameter(DType::f32, {16, 2048 * 64}), token = b.parameter(DType::f32, {16, 1, 64});
  const Value at = b.parameter(DType::s32, {}), zero = b.scalar(DType::s32, 0);
  return finished(b, {b.add(Op::dynamic_update_slice, {b.reshape(cache, {16, 2048, 64}), token, zero, at, zero},
                            graph::UpdateAttributes{true})});
}

/// The cache is updated in place and attended to: it is read whole.
Graph read_cache_update() {
  Builder b;
  const Value cache = b.parameter(DType::f32, {16, 64}), token = b.parameter(DType::f32, {1, 64});
  const Value at = b.parameter(DType::s32, {}), zero = b.scalar(DType::s32, 0);
  const Value next = b.add(Op::dynamic_update_slice, {cache, token, at, zero}, graph::UpdateAttributes{true});
  return finished(b, {next, b.unary(Op::tanh, cache)});
}

Graph result_twice() {
  Builder b;
  const Value y = b.unary(Op::tanh, b.parameter(DType::f32, {1000}));
  return finished(b, {y, y});
}

Graph copied_parameter() {
  Builder b;
  const Value x = b.parameter(DType::f32, {1000});
  return finished(b, {x, b.slice(x, {0}, {10})});
}

Graph masked() {
  Builder b;
  const Value x = b.parameter(DType::f32, {512}), mask = b.parameter(DType::pred, {512});
  return finished(b, {b.select(mask, x, b.filled(DType::f32, {512}, 0))});
}

std::vector<Example> kernels() {
  constexpr std::int64_t cache = 16 * 2048 * 64 * 4, token = 16 * 64 * 4;
  return {
      // Operands once, results once, by dtype.
      {"f32", [] { return unary(DType::f32, {1000}); }, 8000},
      {"bf16", [] { return unary(DType::bf16, {1000}); }, 4000},
      {"f64",
       [] {
         return unary(DType::f64, {10, 10});
       },
       1600},
      {"scalar", [] { return unary(DType::f32, {}); }, 8},
      {"empty",
       [] {
         return unary(DType::f32, {0, 5});
       },
       0},
      {"pred_is_a_byte_constants_are_free", masked, 512 * 4 + 512 + 512 * 4},
      {"softmax", [] { return softmax(64, 300); }, 2 * 64 * 300 * 4},
      {"layer_norm", [] { return layer_norm(64, 256); }, 2 * 64 * 256 * 4 + 256 * 4},
      {"layer_norm_backward", [] { return layer_norm_backward(64, 256); },
       3 * 64 * 256 * 4 + 64 * 4 + 256 * 4 + 2 * 256 * 4},
      {"row_and_column_sums", [] { return row_and_column_sums(64, 256); }, (64 * 256 + 64 + 256) * 4},
      {"same_result_twice_is_stored_twice", result_twice, 3 * 4000},
      // What is only sliced or gathered counts by what is taken, but never above the whole.
      {"two_slices", [] { return halves(false); }, 2 * 64 * 128 * 4 + 64 * 128 * 4},
      {"slices_and_whole", [] { return halves(true); }, 64 * 256 * 4 + 64 * 128 * 4 + 64 * 256 * 4},
      {"slice_of_a_reshape",
       [] {
         return slice_through([](Builder& b, Value x) { return b.reshape(x, {128, 32}); }, {5, 0}, {7, 32});
       },
       2 * 2 * 32 * 4},
      {"slice_of_a_transpose_counts_whole",
       [] {
         return slice_through([](Builder& b, Value x) { return b.transpose(x, {2, 1, 0}); }, {0, 0, 0}, {1, 16, 8});
       },
       8 * 16 * 32 * 4 + 16 * 8 * 4},
      {"gather", [] { return looked_up(50000, 300); }, 2 * 300 * 128 * 2 + 300 * 4},
      {"gather_of_more_than_there_is", [] { return looked_up(10, 300); }, 10 * 128 * 2 + 300 * 128 * 2 + 300 * 4},
      {"two_gathers", [] { return looked_up(50000, 300, true); }, 3 * 300 * 128 * 2 + 2 * 300 * 4},
      {"dynamic_slice", dynamic_row, 2 * 64 * 4 + 4},
      {"copied_parameter_counts_whole", copied_parameter, 2 * 4000 + 40},
      // Updates: in place only what is written, else the whole tensor on both sides.
      {"update_in_place", [] { return cache_update(16, 2048, 64, true); }, 2 * token + 4},
      {"update_of_a_copy", [] { return cache_update(16, 2048, 64, false); }, 2 * cache + token + 4},
      {"update_in_place_of_a_reshape", reshaped_cache_update, 2 * token + 4},
      {"update_in_place_and_read", read_cache_update, 64 * 4 + 4 + 64 * 4 + 2 * 16 * 64 * 4},
      {"scatter", [] { return scattered(300, 64, 40); }, 2 * 300 * 64 * 4 + 40 * 4 + 40 * 64 * 4},
  };
}

class KernelBytes : public testing::TestWithParam<Example> {};

TEST_P(KernelBytes, FollowTheCountingRules) { EXPECT_EQ(kernel::kernel_bytes(GetParam().graph()), GetParam().bytes); }

INSTANTIATE_TEST_SUITE_P(Kernels, KernelBytes, testing::ValuesIn(kernels()),
                         [](const auto& each) { return each.param.name; });

// ---- a kernel as scheduled ----------------------------------------------------------------------------------------

/// The first program (of many) that is as wished.
kernel::KernelProgram program_of(const Graph& graph, const std::function<bool(const kernel::KernelProgram&)>& wish) {
  const auto candidates = explore_stitches(graph, RoughScorer(), {1000, true});
  if (!candidates) {
    throw std::runtime_error(candidates.error().message);
  }
  for (const StitchCandidate& candidate : *candidates) {
    if (wish(candidate.program)) return candidate.program;
  }
  throw std::runtime_error("no schedule is as wished");
}

/// A row a block, its values kept as asked.
kernel::KernelProgram softmax_holding(const Graph& graph, kernel::Hold hold) {
  const kernel::AxisAnalysis analysis(graph);
  const auto structure = kernel::derive_structure(graph, analysis, {{1}, {}});
  kernel::Schedule schedule;
  schedule.tile_axes = {1};
  for (const kernel::GroupMapping& mapping :
       enumerate_mappings(structure->phases[0].groups[0], {}, *find_device("h100"))) {
    if (mapping.hold != hold) continue;
    schedule.phases = {{mapping}};
    const auto program = kernel::derive_program(graph, *structure, schedule);
    if (program) return *program;
  }
  throw std::runtime_error("no mapping holds rows as asked");
}

class ScheduledSoftmax : public testing::TestWithParam<std::pair<kernel::Hold, int>> {};

// The maximum, the sum and the quotient each sweep the row.
TEST_P(ScheduledSoftmax, ReadsRowsAsOftenAsTheyAreNotHeld) {
  const Graph graph = softmax(64, 4096);
  const kernel::KernelProgram program = softmax_holding(graph, GetParam().first);
  EXPECT_EQ(kernel::scheduled_bytes(graph, program), (GetParam().second + 1) * 64 * 4096 * 4);
}

INSTANTIATE_TEST_SUITE_P(Holds, ScheduledSoftmax,
                         testing::Values(std::pair(kernel::Hold::registers, 1), std::pair(kernel::Hold::shared, 1),
                                         std::pair(kernel::Hold::reload, 3)));

TEST(ScheduledBytes, PartialResultsAreWrittenAndReadOnce) {
  const Graph graph = row_and_column_sums(4096, 256);
  const kernel::KernelProgram program =
      program_of(graph, [](const kernel::KernelProgram& p) { return p.phases.size() == 2 && p.scratch.size() == 1; });
  const std::int64_t sets = program.partial_count[0];
  ASSERT_GT(sets, 1);
  const std::int64_t kept = program.scratch[0].elements;
  EXPECT_TRUE(kept == 256 || kept == 4096) << kept;
  EXPECT_EQ(kernel::scheduled_bytes(graph, program), kernel::kernel_bytes(graph) + 2 * sets * kept * 4);
}

TEST(ScheduledBytes, LaterPhasesReadAgain) {
  // All rows at once do not fit anywhere: standardising a whole tensor reads it in three phases.
  Builder b;
  const Value x = b.parameter(DType::f32, {1 << 22});
  const Value sum = b.reduce(ReduceKind::sum, x, {0});
  const Graph graph = finished(b, {b.binary(Op::subtract, x, b.broadcast(sum, {1 << 22}, {}))});
  const kernel::KernelProgram program =
      program_of(graph, [](const kernel::KernelProgram& p) { return p.phases.size() > 1 && p.schedule.retained == 0; });
  std::int64_t scratch = 0;
  for (std::size_t i = 0; i < program.scratch.size(); ++i) scratch += program.scratch_bytes(i);
  ASSERT_EQ(program.phases.size(), 3U);  // sum of a part; of the parts; difference
  EXPECT_EQ(kernel::scheduled_bytes(graph, program), (2 + 1) * std::int64_t{4 << 22} + 2 * scratch);
}

TEST(ScheduledBytes, WhatBlocksRetainIsReadOnce) {
  Builder b;
  const Value x = b.parameter(DType::f32, {1 << 22});
  const Value sum = b.reduce(ReduceKind::sum, x, {0});
  const Graph graph = finished(b, {b.binary(Op::subtract, x, b.broadcast(sum, {1 << 22}, {}))});
  const kernel::KernelProgram program =
      program_of(graph, [](const kernel::KernelProgram& p) { return p.schedule.retained > 0; });
  std::int64_t scratch = 0;
  for (std::size_t i = 0; i < program.scratch.size(); ++i) scratch += program.scratch_bytes(i);
  const double share = program.phases.back().groups[0].found_share(program.phases.back().groups[0].retained.at(0).item);
  ASSERT_GT(share, 0);
  EXPECT_NEAR(static_cast<double>(kernel::scheduled_bytes(graph, program)),
              (3 - share) * (4 << 22) + 2.0 * static_cast<double>(scratch), 1);
}

TEST(ScheduledBytes, StoredResultsThatLaterPhasesReadCountAgain) {
  const Graph graph = scanned(64, 256);
  const kernel::KernelProgram program =
      program_of(graph, [](const kernel::KernelProgram& p) { return p.phases.size() == 2; });
  // x twice, the sums into scratch and back, the quotient once.
  EXPECT_EQ(kernel::scheduled_bytes(graph, program), 5 * 64 * 256 * 4);
}

TEST(ScheduledBytes, AtomicUpdatesReadAndWriteWhatTheyCombine) {
  const Graph graph = scattered(4096, 8, 1024);
  const kernel::KernelProgram program =
      program_of(graph, [](const kernel::KernelProgram& p) { return p.phases.size() == 2; });
  const std::int64_t table = 4096 * 8 * 4, updates = 1024 * 8 * 4;
  EXPECT_EQ(kernel::scheduled_bytes(graph, program), 2 * table + 1024 * 4 + updates + 2 * updates);
}

TEST(PlanBytes, SumUpTheKernelsAndWhatTheyHandOver) {
  Builder b;
  const Value x = b.parameter(DType::f32, {1 << 16});
  const Value y = b.unary(Op::tanh, x);
  const Graph graph = finished(b, {y, b.unary(Op::exp, y)});
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto unfused = unfused_plan(graph, cache);
  const auto fused = explore_fusion(graph, cache, {});
  ASSERT_TRUE(unfused && fused);
  ASSERT_EQ(unfused->kernels.size(), 2U);
  ASSERT_EQ(fused->kernels.size(), 1U);
  EXPECT_EQ(plan_bytes(*unfused), 4 * (std::int64_t{4} << 16));  // y is read again
  EXPECT_EQ(plan_bytes(*fused), 3 * (std::int64_t{4} << 16));
}

TEST(ScheduledBytes, GroupsThatReadDifferentPartsReadNothingAgain) {
  // The parts of a packed projection have axes of their own, so each is a group.
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 300});
  const Value first = b.unary(Op::tanh, b.slice(x, {0, 0}, {64, 100}));
  const Value second = b.unary(Op::exp, b.slice(x, {0, 100}, {64, 200}));
  const Value third = b.unary(Op::negate, b.slice(x, {0, 200}, {64, 300}));
  const Graph graph = finished(b, {first, second, third});
  const kernel::KernelProgram program =
      program_of(graph, [](const kernel::KernelProgram& p) { return p.phases.size() == 1; });
  EXPECT_EQ(kernel::scheduled_bytes(graph, program), 2 * 64 * 300 * 4);
}

}  // namespace
}  // namespace stitch::search::test
