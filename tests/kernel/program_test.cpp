#include "kernel/program/program.h"
#include "kernel/program/group_deriver.h"
#include "kernel/program/program_builder.h"
#include "kernel/structure/structure_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

/// The group of a structure with one, and what it refers to.
struct Grouped {
  Graph graph;
  KernelStructure structure;

  Grouped(Graph made, const std::set<int>& tile_axes) : graph(std::move(made)) {
    const AxisAnalysis analysis(graph);
    structure = *derive_structure(graph, analysis, {tile_axes, {}});
  }
  Grouped(const Grouped&) = delete;

  [[nodiscard]] const GroupStructure& group() const { return structure.phases[0].groups[0]; }
};

AxisMapping axis(std::initializer_list<std::pair<Level, std::int64_t>> levels) {
  AxisMapping mapping;
  for (const auto& [level, extent] : levels) mapping.at(level) = extent;
  return mapping;
}

Graph row_sums(DType dtype, std::int64_t rows, std::int64_t columns) {
  Builder b;
  return finished(b, {b.reduce(ReduceKind::sum, b.parameter(dtype, {rows, columns}), {1})});
}

/// A row a block of 64 threads, four columns a thread.
GroupMapping row_a_block() {
  return {
      {axis({{Level::grid, 64}}), axis({{Level::vector, 4}, {Level::lane, 32}, {Level::warp, 2}})}, 1, Hold::registers};
}

// ---- what a mapping means -----------------------------------------------------------------------------------------

TEST(DeriveGroup, ReadsReductionsOffTheMapping) {
  const Grouped each(row_sums(DType::f32, 64, 256), {1});
  Schedule schedule;
  schedule.threads = 64;
  const auto group = derive_group(each.group(), row_a_block(), schedule, 1);
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->threads, 64);
  EXPECT_EQ(group->tiles, 64);
  EXPECT_EQ(group->in_thread.bits(), 0b10U);
  EXPECT_EQ(group->thread_order, (std::vector{1, 0}));
  ASSERT_EQ(group->reductions.size(), 1U);
  const ReductionPlan& plan = group->reductions[0];
  EXPECT_EQ(plan.shuffles, (std::vector{1, 2, 4, 8, 16}));
  EXPECT_EQ(plan.exchange, 2);
  EXPECT_EQ(plan.cluster, 1);
  EXPECT_EQ(plan.partials, 1);
  EXPECT_EQ(plan.kept_per_thread, 1);
  EXPECT_EQ(plan.shared_bytes, 2 * 4);  // one f32 from either warp
  EXPECT_EQ(group->exchange_bytes, 16);
}

TEST(DeriveGroup, ShufflesSkipTheLanesOfOtherAxes) {
  // Eight columns by four lanes of rows: the rows' digits come first in memory order of threads.
  const Grouped each(row_sums(DType::f32, 64, 32), {1});
  Schedule schedule;
  schedule.threads = 32;
  const GroupMapping mapping{
      {axis({{Level::lane, 4}, {Level::grid, 16}}), axis({{Level::vector, 4}, {Level::lane, 8}})}, 1, Hold::registers};
  const auto columns_first = derive_group(each.group(), mapping, schedule, 1);
  ASSERT_TRUE(columns_first);
  EXPECT_EQ(columns_first->reductions[0].shuffles, (std::vector{1, 2, 4}));
  EXPECT_EQ(columns_first->reductions[0].exchange, 1);
  EXPECT_EQ(columns_first->exchange_bytes, 0);
  EXPECT_EQ(columns_first->reductions[0].kept_per_block, 4);
  // Walking rows first, the columns' digits are the slow ones.
  const GroupMapping turned{
      {axis({{Level::lane, 4}, {Level::grid, 16}}), axis({{Level::reg, 4}, {Level::lane, 8}})}, 0, Hold::registers};
  EXPECT_EQ(derive_group(each.group(), turned, schedule, 1)->reductions[0].shuffles, (std::vector{4, 8, 16}));
}

TEST(DeriveGroup, PartialResultsComeFromTheGrid) {
  const Grouped each(row_and_column_sums(64, 256), {1});
  Schedule schedule;
  schedule.threads = 64;
  GroupMapping mapping = row_a_block();
  mapping.axes[0] = axis({{Level::loop, 4}, {Level::grid, 16}});
  const auto group = derive_group(each.group(), mapping, schedule, 1);
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->tiles, 16);
  EXPECT_EQ(group->outer_loops.bits(), 0b01U);  // all sweeps of a row, then the next row
  EXPECT_EQ(group->inner_loops.bits(), 0U);
  ASSERT_EQ(group->reductions.size(), 2U);
  EXPECT_EQ(group->reductions[0].partials, 1);
  EXPECT_EQ(group->reductions[1].partials, 16);
  EXPECT_EQ(group->reductions[1].kept_per_thread, 4);  // a thread's own columns
  EXPECT_EQ(group->reductions[1].exchange, 1);
}

TEST(DeriveGroup, LoopsOverWhatIsReducedAreInsideTheSweep) {
  const Grouped each(softmax(64, 1024), {1});
  Schedule schedule;
  schedule.threads = 64;
  GroupMapping mapping = row_a_block();
  mapping.axes[1].at(Level::loop) = 4;
  mapping.hold = Hold::shared;
  const auto group = derive_group(each.group(), mapping, schedule, 1);
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->inner_loops.bits(), 0b10U);
  EXPECT_EQ(group->sweeps.size(), 3U);
  // x, then exp in its place: 16 elements of 4 bytes in 64 threads.
  EXPECT_EQ(group->held_bytes, 16 * 4 * 64);
  mapping.hold = Hold::registers;
  const auto in_registers = derive_group(each.group(), mapping, schedule, 1);
  ASSERT_FALSE(in_registers);
  EXPECT_THAT(in_registers.error().message, testing::HasSubstr("held in registers is swept by a loop"));
}

struct Accessed {
  std::string name;
  std::int64_t columns;
  DType dtype;
  std::int64_t vector;
  int width;
};

void PrintTo(const Accessed& each, std::ostream* out) { *out << each.name; }

class AccessWidth : public testing::TestWithParam<Accessed> {};

// At most 16 bytes, and only where a vector never crosses its alignment.
TEST_P(AccessWidth, FollowsFromAlignment) {
  const Grouped each(row_sums(GetParam().dtype, 64, GetParam().columns), {1});
  Schedule schedule;
  schedule.threads = 32;
  const std::int64_t step = 32 * GetParam().vector;
  const GroupMapping mapping{{axis({{Level::grid, 64}}), axis({{Level::vector, GetParam().vector},
                                                               {Level::lane, 32},
                                                               {Level::reg, (GetParam().columns + step - 1) / step}})},
                             1,
                             Hold::registers};
  const auto group = derive_group(each.group(), mapping, schedule, 1);
  ASSERT_TRUE(group) << group.error().message;
  for (std::size_t i = 0; i < group->accesses.size(); ++i) {
    if (each.group().program->items()[i].kind == Item::Kind::load) {
      EXPECT_EQ(group->accesses[i].width, GetParam().width);
      EXPECT_FALSE(group->accesses[i].uniform);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, AccessWidth,
                         testing::Values(Accessed{"f32", 256, DType::f32, 4, 4},
                                         Accessed{"bf16", 256, DType::bf16, 8, 8},
                                         Accessed{"rows_of_even_length", 254, DType::f32, 4, 2},
                                         Accessed{"rows_of_odd_length", 255, DType::f32, 4, 1},
                                         Accessed{"more_than_16_bytes", 256, DType::f32, 8, 4},
                                         Accessed{"single", 256, DType::f32, 1, 1}),
                         [](const auto& each) { return each.param.name; });

struct Joined {
  std::int64_t first, second;
  int width_of_first, width_of_second;
};

// A vector lies in one part of a concatenation or every element is looked up by itself.
TEST(AccessWidthOfGuardedLoads, NeedsTheWholeVectorInside) {
  for (const Joined& joined : std::vector<Joined>{{8, 8, 4, 4}, {6, 10, 1, 1}, {12, 4, 4, 4}, {2, 14, 1, 1}}) {
    Builder b;
    const Value x = b.parameter(DType::f32, {joined.first}), y = b.parameter(DType::f32, {joined.second});
    const Grouped each(finished(b, {b.unary(Op::tanh, b.concatenate({x, y}, 0))}), {});
    Schedule schedule;
    schedule.threads = 32;
    const auto group =
        derive_group(each.group(), {{axis({{Level::vector, 4}, {Level::lane, 4}})}, 0, Hold::registers}, schedule, 1);
    ASSERT_TRUE(group) << group.error().message;
    std::vector<int> widths;
    for (std::size_t i = 0; i < group->accesses.size(); ++i) {
      if (each.group().program->items()[i].kind == Item::Kind::load) widths.push_back(group->accesses[i].width);
    }
    EXPECT_EQ(widths, (std::vector{joined.width_of_first, joined.width_of_second})) << joined.first;
  }
}

TEST(AccessWidthOfGuardedLoads, NeedsThePaddingToKeepVectorsWhole) {
  for (const auto& [low, width] : std::vector<std::pair<std::int64_t, int>>{{4, 4}, {8, 4}, {2, 1}, {1, 1}}) {
    Builder b;
    const Value x = b.parameter(DType::f32, {8});
    const Grouped each(finished(b, {b.pad(x, b.scalar(DType::f32, 1), {low}, {16 - low})}), {});
    Schedule schedule;
    schedule.threads = 32;
    const auto group =
        derive_group(each.group(), {{axis({{Level::vector, 4}, {Level::lane, 6}})}, 0, Hold::registers}, schedule, 1);
    ASSERT_TRUE(group) << group.error().message;
    for (std::size_t i = 0; i < group->accesses.size(); ++i) {
      if (each.group().program->items()[i].kind != Item::Kind::load) continue;
      EXPECT_EQ(group->accesses[i].width, width) << "padded by " << low;
    }
  }
}

// ---- what no program follows from ---------------------------------------------------------------------------------

struct Refused {
  std::string name;
  std::function<void(GroupMapping&, Schedule&)> change;
  std::string message;
};

void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class RefusedMapping : public testing::TestWithParam<Refused> {};

TEST_P(RefusedMapping, IsAConstraint) {
  const Grouped each(row_and_column_sums(64, 256), {1});
  Schedule schedule;
  schedule.threads = 64;
  GroupMapping mapping = row_a_block();
  ASSERT_TRUE(derive_group(each.group(), mapping, schedule, 1));
  GetParam().change(mapping, schedule);
  const auto group = derive_group(each.group(), mapping, schedule, 1);
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().kind, ErrorKind::constraint);
  EXPECT_THAT(group.error().message, testing::HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Mappings, RefusedMapping,
    testing::Values(Refused{"too_few_axes", [](GroupMapping& m, Schedule&) { m.axes.pop_back(); },
                            "has 1 axes, the group has 2"},
                    Refused{"not_covered", [](GroupMapping& m, Schedule&) { m.axes[0].at(Level::grid) = 63; },
                            "axis 0 of extent 64 is covered to 63"},
                    Refused{"too_many_threads", [](GroupMapping&, Schedule& s) { s.threads = 32; },
                            "64 threads mapped, the block has 32"},
                    Refused{"vectors_elsewhere", [](GroupMapping& m, Schedule&) { m.vector_axis = 0; },
                            "axis 1 has vectors but is not the vector axis"},
                    Refused{"another_cluster",
                            [](GroupMapping& m, Schedule& s) {
                              m.axes[1].at(Level::cluster) = 2;
                              s.cluster = 4;
                            },
                            "2 blocks per cluster, the launch has 4"},
                    Refused{"row_over_two_tiles",
                            [](GroupMapping& m, Schedule&) {
                              m.axes[1].at(Level::warp) = 1;
                              m.axes[1].at(Level::grid) = 2;
                            },
                            "a reduction that must end in its tile spans 2 tiles"},
                    Refused{"too_many_accumulators",
                            [](GroupMapping& m, Schedule&) {
                              m.axes[1] = axis({{Level::vector, 4}, {Level::reg, 128}});
                            },
                            "512 accumulators in a thread"},
                    Refused{"partials_of_a_loop",
                            [](GroupMapping& m, Schedule&) {
                              m.axes[1].at(Level::warp) = 1;
                              m.axes[1].at(Level::loop) = 2;
                            },
                            "a reduction keeps axis 1, which its sweep loops over"}),
    [](const auto& each) { return each.param.name; });

// ---- kernels ------------------------------------------------------------------------------------------------------

TEST(DeriveProgram, CountsPartialsAndBlocks) {
  const Grouped each(row_and_column_sums(64, 256), {1});
  Schedule schedule;
  schedule.tile_axes = {1};
  schedule.threads = 64;
  schedule.syncs = {Sync::barrier};
  GroupMapping first = row_a_block();
  first.axes[0] = axis({{Level::loop, 4}, {Level::grid, 16}});
  const GroupMapping finish{
      {axis({{Level::lane, 8}, {Level::reg, 2}}), axis({{Level::lane, 4}, {Level::grid, 64}})}, 1, Hold::registers};
  schedule.phases = {{first}, {finish}};
  const auto program = derive_program(each.graph, each.structure, schedule);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->partial_count, std::vector<std::int64_t>{16});
  EXPECT_EQ(program->scratch_bytes(0), 16 * 256 * 4);
  EXPECT_EQ(program->phases[0].tiles, 16);
  EXPECT_EQ(program->phases[1].tiles, 64);
  EXPECT_EQ(program->phases[1].groups[0].extents, (std::vector<std::int64_t>{16, 256}));
  EXPECT_EQ(program->blocks, 16);
  schedule.blocks = 5;
  EXPECT_EQ(derive_program(each.graph, each.structure, schedule)->blocks, 5);
}

TEST(DeriveProgram, RefusesSchedulesOfOtherKernels) {
  const Grouped each(row_and_column_sums(64, 256), {1});
  Schedule schedule;
  schedule.threads = 64;
  schedule.syncs = {Sync::barrier};
  schedule.phases = {{row_a_block()}};
  const auto short_one = derive_program(each.graph, each.structure, schedule);
  ASSERT_FALSE(short_one);
  EXPECT_THAT(short_one.error().message, testing::HasSubstr("the schedule has 1 phases, the kernel 2"));
  schedule.phases = {{row_a_block()}, {row_a_block(), row_a_block()}};
  const auto more = derive_program(each.graph, each.structure, schedule);
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().message, testing::HasSubstr("phase 1 has 2 mappings for 1 groups"));
  schedule.phases = {{row_a_block()}, {row_a_block()}};
  schedule.syncs.clear();
  EXPECT_FALSE(derive_program(each.graph, each.structure, schedule));
}

TEST(DeriveProgram, AGateIsOpenedBehindWhatOneBlockDoes) {
  const Grouped each(row_and_column_sums(64, 256), {1});
  Schedule schedule;
  schedule.tile_axes = {1};
  schedule.threads = 64;
  schedule.phases = {{row_a_block()}, {row_a_block()}, {row_a_block()}, {row_a_block()}};
  const auto message = [&](const std::vector<Sync>& syncs) {
    schedule.syncs = syncs;
    KernelStructure four = each.structure;
    while (four.phases.size() < 4) four.phases.push_back(four.phases.back());
    const auto program = derive_program(each.graph, four, schedule);
    return program ? std::string() : program.error().message;
  };
  EXPECT_EQ(message({Sync::gate, Sync::barrier, Sync::barrier}), "'barrier' follows 'gate'");
  EXPECT_EQ(message({Sync::open, Sync::barrier, Sync::barrier}), "'open' follows the launch");
  EXPECT_EQ(message({Sync::barrier, Sync::open, Sync::barrier}), "'open' follows 'barrier'");
  EXPECT_EQ(message({Sync::barrier, Sync::gate, Sync::gate}), "a gate that nobody opens");
  EXPECT_EQ(message({Sync::last_block, Sync::gate, Sync::open}), "'gate' where the other blocks have left");
  schedule.cluster = 2;
  EXPECT_EQ(message({Sync::gate, Sync::open, Sync::barrier}),
            "one block of a cluster would wait at a gate, the other within it");
}

TEST(KernelProgram, OneBlockRunsWhatIsBehindAGate) {
  KernelProgram kernel;
  kernel.schedule.syncs = {Sync::gate, Sync::gate, Sync::open, Sync::last_block, Sync::last_block};
  const std::array<bool, 6> alone = {false, true, true, false, true, true};
  for (std::size_t phase = 0; phase < alone.size(); ++phase) EXPECT_EQ(kernel.runs_alone(phase), alone[phase]) << phase;
  EXPECT_TRUE(kernel.blocks_wait());
  kernel.schedule.syncs = {Sync::last_block};
  EXPECT_FALSE(kernel.blocks_wait());
}

TEST(JoinGroups, SharedMemoryHasRoomForTheMostOfEither) {
  // One layout for all groups of the kernel: held values, then the two exchange buffers.
  GroupProgram holds, exchanges;
  holds.held_bytes = 1000;
  holds.exchange_bytes = 8;
  exchanges.exchange_bytes = 128;
  Schedule schedule;
  schedule.syncs = {Sync::last_block};
  schedule.blocks = 1;
  const KernelProgram kernel = join_groups({}, schedule, {{holds}, {exchanges}});
  EXPECT_EQ(kernel.held_bytes(), 1000);
  EXPECT_EQ(kernel.exchange_bytes(), 128);
  EXPECT_EQ(kernel.shared_bytes, 1000 + 2 * 128);
  EXPECT_FALSE(kernel.runs_alone(0));
  EXPECT_TRUE(kernel.runs_alone(1));
}

}  // namespace
}  // namespace stitch::kernel::test
