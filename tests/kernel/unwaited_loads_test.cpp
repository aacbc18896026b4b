// Which loads of a kernel may stand before its wait for the launch before.
#include "kernel/program/unwaited_loads.h"

#include <gmock/gmock.h>

#include <functional>
#include <set>

#include "search/schedule/stitch_explorer.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

constexpr UnwaitedInputs all = ~UnwaitedInputs{0};

/// Inputs by number.
std::set<int> inputs_of(const KernelProgram& program, UnwaitedInputs inputs) {
  std::set<int> numbers;
  for (const ItemId id : unwaited_loads(program, inputs))
    numbers.insert(program.phases[0].groups[0].structure.program->at(id).buffer.number);
  return numbers;
}

/// Calls `look` with every candidate of the wide space.
void for_each_program(const Graph& graph, const std::function<void(const KernelProgram&)>& look) {
  const auto space = search::explore_space(graph, RoughScorer(), {.keep = 100000, .wide = true});
  ASSERT_TRUE(space) << space.error().message;
  ASSERT_FALSE(space->candidates.empty());
  for (const search::StitchCandidate& candidate : space->candidates) look(candidate.program);
}

Graph scaled_rows(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(DType::f32, dims), gain = b.parameter(DType::f32, {columns});
  const Value sum = b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {1});
  const Value scaled = b.binary(Op::divide, x, b.broadcast(sum, dims, {0}));
  return finished(b, {b.binary(Op::multiply, scaled, b.broadcast(gain, dims, {1}))});
}

/// How often a thread loads an input, sweep by sweep.
std::ptrdiff_t times_loaded(const GroupProgram& group, int input) {
  std::ptrdiff_t times = 0;
  for (const Sweep& sweep : group.sweeps) {
    for (const auto* items : {&sweep.body, &sweep.uniform}) {
      times += std::ranges::count_if(*items, [&](ItemId id) {
        const Item& item = group.structure.program->at(id);
        return item.kind == Item::Kind::load && item.buffer == Buffer{Buffer::Kind::input, input};
      });
    }
  }
  return times;
}

TEST(UnwaitedLoads, AreWhatAThreadLoadsOnceAndInNoLoop) {
  int rows = 0;
  for_each_program(scaled_rows(4096, 512), [&](const KernelProgram& program) {
    const GroupProgram& group = program.phases[0].groups[0];
    const std::set<int> found = inputs_of(program, all);
    if (program.is_looped(0) || group.shift || !group.inner_loops.empty() || !group.outer_loops.empty()) {
      EXPECT_FALSE(found.contains(0));
      return;
    }
    if (found.contains(0)) {
      EXPECT_EQ(times_loaded(group, 0), 1) << "the row";
    }
    if (found.contains(1)) {
      EXPECT_LE(group.register_elements(AxisSet::of(1)), 32) << "which are kept until the second sweep";
    }
    rows += found.contains(0) ? 1 : 0;
    for (const int one : found) EXPECT_TRUE(inputs_of(program, UnwaitedInputs{1} << one) == std::set<int>{one});
    EXPECT_THAT(inputs_of(program, 0), testing::IsEmpty());
  });
  EXPECT_GT(rows, 0);
}

TEST(UnwaitedLoads, AreNoneOfKernelsWhoseWaitStandsBeforeTheirGroups) {
  int phased = 0;
  for (const Graph& graph : {layer_norm_backward(2048, 256), scanned(64, 1000)}) {
    for_each_program(graph, [&](const KernelProgram& program) {
      const bool scans = program.phases[0].groups[0].structure.anchors[0].has_own_loops();
      if (program.phases.size() == 1 && !scans) return;
      EXPECT_THAT(unwaited_loads(program, all), testing::IsEmpty());
      ++phased;
    });
  }
  EXPECT_GT(phased, 10);
}

TEST(UnwaitedLoads, AreNotWhoseAddressOrGuardIsComputed) {
  Builder b;
  const Value table = b.parameter(DType::f32, {1000, 64}), places = b.parameter(DType::s32, {256, 1});
  graph::GatherAttributes rows;
  rows.offset_dims = {1};
  rows.collapsed_slice_dims = {0};
  rows.start_index_map = {0};
  rows.index_vector_dim = 1;
  rows.slice_sizes = {1, 64};
  const Graph graph = finished(b, {b.unary(Op::negate, b.add(Op::gather, {table, places}, rows))});
  for_each_program(graph, [&](const KernelProgram& program) {
    EXPECT_FALSE(inputs_of(program, all).contains(0)) << "rows of the table";
  });
}

TEST(UnwaitedInputs, ThoseBeyondTheSixtyFourthAreWaitedFor) {
  EXPECT_TRUE(is_unwaited(all, {Buffer::Kind::input, 63}));
  EXPECT_FALSE(is_unwaited(all, {Buffer::Kind::input, 64}));
  EXPECT_FALSE(is_unwaited(all, {Buffer::Kind::output, 1}));
  EXPECT_FALSE(is_unwaited(all, {Buffer::Kind::scratch, 1}));
  EXPECT_FALSE(is_unwaited(5, {Buffer::Kind::input, 1}));
}

}  // namespace
}  // namespace stitch::kernel::test
