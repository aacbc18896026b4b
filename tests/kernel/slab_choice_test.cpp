#include "kernel/program/slab_choice.h"
#include "kernel/program/program_builder.h"
#include "kernel/structure/structure_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/program/traffic.h"
#include "search/partition/fusion_plan.h"
#include "search/schedule/stitch_explorer.h"
#include "tests/profiler/kernel_case.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::Builder;
using graph::Graph;

using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;
using profiler::test::centred_channels, profiler::test::centred_columns, profiler::test::divided_by_norm,
    profiler::test::GridScorer, profiler::test::weighted_columns;

const DeviceSpec& h100() {
  static const DeviceSpec device = *find_device("h100");
  return device;
}

std::vector<search::StitchCandidate> space(const Graph& graph) {
  auto found = search::explore_space(graph, GridScorer(), {.keep = 10'000});
  if (!found) throw std::runtime_error(found.error().message);
  return std::move(found->candidates);
}

/// Of a kernel that has none, as the explorer would be given them.
std::vector<Slabs> options_of(const Result<Graph>& graph) {
  for (const search::StitchCandidate& candidate : space(*graph)) {
    if (candidate.schedule.slabs.count == 1 && candidate.schedule.retained == 0 && candidate.program.phases.size() > 1)
      return slab_options(*graph, candidate.program, h100());
  }
  throw std::runtime_error("all kernels have slabs");
}

std::vector<std::int64_t> counts(const std::vector<Slabs>& options) {
  std::vector<std::int64_t> all;
  for (const Slabs& slabs : options) all.push_back(slabs.count);
  return all;
}

TEST(Slabs, AreAsManyAsItTakesToStayOnChip) {
  // 205 MB, of which an H100 holds about 29.
  const auto columns = centred_columns(200'704, 256);
  const std::vector<Slabs> options = options_of(columns);
  EXPECT_THAT(counts(options), testing::ElementsAre(4, 8, 16));
  for (const Slabs& slabs : options) {
    EXPECT_EQ(slabs.value, (Value{columns->parameters()[0], 0}));
    EXPECT_EQ(slabs.dimension, 1);
  }
  EXPECT_THAT(counts(options_of(centred_channels({64, 100, 4'096}))), testing::ElementsAre(2, 4, 5));
  EXPECT_THAT(counts(options_of(centred_channels({64, 6, 80'000}))), testing::ElementsAre(3, 6)) << "a channel each";
  // Of two tensors one or both.
  EXPECT_THAT(counts(options_of(weighted_columns(100'352, 256))), testing::ElementsAre(2, 4, 8, 16));
}

TEST(Slabs, AreNotWhereThereIsNothingToGain) {
  EXPECT_TRUE(options_of(centred_columns(10'000, 128)).empty()) << "5 MB stay on chip as they are";
  EXPECT_TRUE(options_of(divided_by_norm(64 << 20)).empty()) << "all of it goes into one number";
  EXPECT_TRUE(options_of(centred_columns(16 << 20, 4)).empty()) << "a sector is of all columns";
}

/// The structure with one slab at a time, or why there is none.
Status separated(const Result<Graph>& graph, const Slabs& slabs) {
  const AxisAnalysis analysis(*graph, slabs);
  EXPECT_GE(analysis.slab_axis(), 0);
  const auto structure = derive_structure(*graph, analysis, {});
  if (!structure) return structure.error();
  for (const PhaseStructure& phase : structure->phases) {
    for (const GroupStructure& group : phase.groups)
      EXPECT_EQ(group.program->axes().axes[group.slab_axis], analysis.slab_axis());
  }
  return {};
}

TEST(Slabs, ArePossibleWhereNoneNeedsAnother) {
  const auto made = [](auto&& result) {
    Builder b;
    const graph::Dims dims = {5'000, 64};
    const Value x = b.parameter(DType::f32, dims);
    const Value sums = b.reduce(ReduceKind::sum, x, {0});
    return b.finish({result(b, x, sums, dims)});
  };
  const auto minus = [](Builder& b, Value x, Value sums, const graph::Dims& dims) {
    return b.binary(Op::subtract, x, b.broadcast(sums, dims, {1}));
  };
  EXPECT_TRUE(separated(made(minus), {{0, 0}, 1, 4}));
  // Rows go into the sums.
  EXPECT_FALSE(separated(made(minus), {{0, 0}, 0, 4}));
  // Sums of other columns, which another slab has.
  const auto mirrored = made([&](Builder& b, Value x, Value sums, const graph::Dims& dims) {
    return minus(b, x, b.reverse(sums, {0}), dims);
  });
  EXPECT_FALSE(separated(mirrored, {{0, 0}, 1, 4}));
  const auto rotated = made([&](Builder& b, Value x, Value sums, const graph::Dims& dims) {
    const Value back = b.concatenate({b.slice(sums, {16}, {64}), b.slice(sums, {0}, {16})}, 0);
    return minus(b, x, back, dims);
  });
  EXPECT_FALSE(separated(rotated, {{0, 0}, 1, 4}));
  // Sums from an index on that nobody knows yet.
  const auto moved = [&](std::int64_t padding) {
    return made([=](Builder& b, Value x, Value sums, const graph::Dims& dims) {
      const Value longer = b.pad(sums, b.filled(DType::f32, {}, 0), {0}, {padding});
      const Value start = b.convert(b.reduce(ReduceKind::max, sums, {0}), DType::s32);
      const Value part = b.add(Op::dynamic_slice, {longer, start}, graph::DynamicSliceAttributes{{64}});
      return minus(b, x, part, dims);
    });
  };
  EXPECT_FALSE(separated(moved(16), {{0, 0}, 1, 4}));
  EXPECT_FALSE(separated(moved(64), {{0, 0}, 1, 4}));
  // A sum over all columns too.
  const auto all = made([](Builder& b, Value x, Value sums, const graph::Dims& dims) {
    return b.binary(Op::subtract, x, b.broadcast(b.reduce(ReduceKind::sum, sums, {0}), dims, {}));
  });
  EXPECT_FALSE(separated(all, {{0, 0}, 1, 4}));
}

// A tensor that all slabs need whole takes no less room for being read a slab at a time.
TEST(Slabs, AreOfTheTensorsThatComeApart) {
  Builder b;
  const graph::Dims dims = {32, 16, 131'072};
  const Value x = b.parameter(DType::f32, dims), mask = b.parameter(DType::f32, {32, 131'072});
  const Value masked = b.binary(Op::multiply, x, b.broadcast(mask, dims, {0, 2}));
  const Value sums = b.broadcast(b.reduce(ReduceKind::sum, masked, {0, 2}), dims, {1});
  const auto graph = b.finish({b.binary(Op::multiply, masked, sums)});
  for (const Slabs& slabs : options_of(graph)) EXPECT_EQ(slabs.value, (Value{graph->parameters()[0], 0}));
  EXPECT_THAT(counts(options_of(graph)), testing::ElementsAre(8, 16)) << "268 MB of x, whatever the mask";
  // What is not of the slabs is counted for each of them.
  const std::int64_t once = kernel::kernel_bytes(*graph), again = 32 * std::int64_t{131'072} * 4;
  for (const search::StitchCandidate& candidate : space(*graph)) {
    if (candidate.schedule.slabs.count != 16) continue;
    EXPECT_GE(kernel::scheduled_bytes(*graph, candidate.program), once + 15 * again);
  }
}

TEST(Slabs, StoreResultsOfTheirOwnParts) {
  const auto graph = centred_columns(200'704, 256);
  int found = 0;
  for (const search::StitchCandidate& candidate : space(*graph)) {
    if (candidate.schedule.slabs.count == 1) {
      EXPECT_EQ(slab_steps(candidate.program, 1), (std::vector<std::int64_t>{0}));
    } else {
      EXPECT_EQ(slab_steps(candidate.program, 1), (std::vector<std::int64_t>{256 / candidate.schedule.slabs.count}));
      ++found;
    }
  }
  EXPECT_GT(found, 0);
}

TEST(Slabs, AreReadOnceAndFollowFromTheSchedule) {
  const auto graph = centred_columns(200'704, 256);
  const std::int64_t bytes = std::int64_t{200'704} * 256 * 4;
  bool whole = false;
  for (const search::StitchCandidate& candidate : space(*graph)) {
    const KernelProgram& kernel = candidate.program;
    if (candidate.schedule.slabs.count != 8) continue;
    for (const Sync sync : candidate.schedule.syncs) EXPECT_NE(sync, Sync::last_block);
    const AxisAnalysis analysis(*graph, candidate.schedule.slabs);
    StructureOptions options{candidate.schedule.tile_axes, {}};
    options.gathered = candidate.schedule.gathered;
    const auto structure = derive_structure(*graph, analysis, options);
    ASSERT_TRUE(structure);
    const auto again = derive_program(*graph, *structure, candidate.schedule);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->shared_bytes, kernel.shared_bytes);
    EXPECT_EQ(kernel::scheduled_bytes(*graph, *again), kernel::scheduled_bytes(*graph, kernel));
    const auto& kept = kernel.phases[0].groups[0].retained;
    if (kept.empty() || kept[0].share < 1) continue;
    whole = true;
    EXPECT_LT(kernel::scheduled_bytes(*graph, kernel), 2 * bytes * 102 / 100) << "read and written once";
  }
  EXPECT_TRUE(whole);
}

}  // namespace
}  // namespace stitch::kernel::test
