// Which loads a mapping with several stages makes turns ahead, and what that costs.
#include "kernel/program/loads_ahead.h"

#include <gmock/gmock.h>

#include <functional>

#include "kernel/pipeline/simulation.h"
#include "kernel/program/group_deriver.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/mapping_space.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int threads = 256;

Schedule schedule_of_block() {
  Schedule schedule;
  schedule.threads = threads;
  return schedule;
}

/// The first phase's first group, where the reductions over `tile_axes` end in a tile.
GroupStructure group_of(const Graph& graph, const std::set<int>& tile_axes) {
  auto structure = derive_structure(graph, AxisAnalysis(graph), {tile_axes, {}});
  if (!structure) {
    throw std::runtime_error(structure.error().message);
  }
  return structure->phases.at(0).groups.at(0);
}

/// Calls `look` with each group whose loads are made ahead, and the same one whose are not.
int for_each_pair(const GroupStructure& structure,
                  const std::function<void(const GroupProgram&, const GroupProgram&)>& look) {
  search::MappingSpaceOptions space;
  space.loads_ahead = true;
  space.threads = threads;
  space.partial_tiles = 132;
  int pairs = 0;
  for (GroupMapping mapping : search::enumerate_mappings(structure, space, *find_device("h100"))) {
    if (mapping.stages == 1) continue;
    const auto ahead = derive_group(structure, mapping, schedule_of_block(), 1);
    mapping.stages = 1;
    const auto plain = derive_group(structure, mapping, schedule_of_block(), 1);
    if (!ahead || !plain) continue;
    look(*ahead, *plain);
    ++pairs;
  }
  return pairs;
}

/// Parameters that are loaded ahead, in order.
std::vector<int> inputs_ahead(const GroupProgram& group, const LoadsAhead& ahead) {
  std::vector<int> inputs;
  for (const ItemId id : ahead.loads) inputs.push_back(group.structure.program->at(id).buffer.number);
  std::ranges::sort(inputs);
  return inputs;
}

// Of a norm's backward the row's input and gradient, and the number that it has; the gain is the same for all rows.
TEST(LoadsAhead, AreWhatChangesFromRowToRow) {
  const Graph graph = layer_norm_backward(2048, 256);
  const int pairs = for_each_pair(group_of(graph, {1}), [](const GroupProgram& ahead, const GroupProgram& plain) {
    EXPECT_THAT(plain.ahead.loads, IsEmpty());
    if (!ahead.inner_loops.empty()) return;
    EXPECT_EQ(ahead.ahead.axis, 0);
    EXPECT_THAT(inputs_ahead(ahead, ahead.ahead), ElementsAre(0, 1, 3));
    EXPECT_EQ(ahead.hoisted, plain.hoisted);
    // A second row of two tensors, and at most an address for each element.
    const std::int64_t row = ahead.register_elements(AxisSet::of(0) | AxisSet::of(1));
    EXPECT_GE(ahead.registers - plain.registers, 2 * row);
    EXPECT_LE(ahead.registers - plain.registers, 6 * row + 4);
  });
  EXPECT_GE(pairs, 10);
}

TEST(LoadsAhead, OfALoopWithinASweepAreItsNextIterations) {
  const Graph graph = softmax(64, 40000);
  int inner = 0;
  for_each_pair(group_of(graph, {1}), [&](const GroupProgram& ahead, const GroupProgram& plain) {
    if (ahead.inner_loops.empty()) return;
    ++inner;
    EXPECT_THAT(ahead.ahead.loads, IsEmpty());
    const std::int64_t at_once = ahead.register_elements(AxisSet::of(0) | AxisSet::of(1));
    EXPECT_GT(ahead.registers - plain.registers, at_once);
    EXPECT_LE(ahead.registers - plain.registers, 3 * at_once);  // at most an address for each element
    for (const Sweep& sweep : ahead.sweeps) {
      if (sweep.ahead.loads.empty()) continue;
      EXPECT_EQ(sweep.ahead.axis, 1);
      EXPECT_THAT(sweep.copied, IsEmpty());  // of those all turns are on their way as it is
      EXPECT_THAT(inputs_ahead(ahead, sweep.ahead), ElementsAre(0));
    }
  });
  EXPECT_GT(inner, 3);
}

/// The same with stages in shared memory.
Result<GroupProgram> staged(const GroupStructure& structure, GroupMapping mapping, int stages) {
  mapping.stages = stages;
  mapping.shared_stages = true;
  return derive_group(structure, mapping, schedule_of_block(), 1);
}

// Rows that registers hold while they are used are copied, and take shared memory instead of a second row's registers;
// the number that a row has goes on coming through a register.
TEST(LoadsAhead, InSharedMemoryAreWholeAccesses) {
  const Graph graph = layer_norm_backward(2048, 256);
  const GroupStructure structure = group_of(graph, {1});
  int rows = 0;
  for_each_pair(structure, [&](const GroupProgram& ahead, const GroupProgram& plain) {
    if (!ahead.inner_loops.empty() || ahead.extent(0, Level::loop) < 3 || plain.held_bytes > 0) return;
    const auto three = staged(structure, plain.mapping, 3);
    ASSERT_TRUE(three) << three.error().message;
    ++rows;
    EXPECT_THAT(inputs_ahead(*three, three->ahead), ElementsAre(3));
    ASSERT_EQ(three->ahead.staged.size(), 2);
    std::int64_t end = 0;
    for (const StagedLoad& load : three->ahead.staged) {
      EXPECT_EQ(load.stage_bytes, 4 * three->threads * three->register_elements(AxisSet::of(0) | AxisSet::of(1)));
      EXPECT_EQ(load.shared_offset % 16, 0);
      EXPECT_EQ(load.shared_offset, end);
      end += 3 * load.stage_bytes;
    }
    EXPECT_EQ(three->held_bytes, end);
    EXPECT_LT(three->registers, ahead.registers);
  });
  EXPECT_GE(rows, 3);
}

// The loop with its stages has stages - 1 turns' copies under way while a turn computes, reads what was waited for, and
// misses every wait that is dropped.
TEST(LoadsAhead, HaveALoopOfStages) {
  using pipeline::TileStatement;
  for (int stages = 2; stages <= 4; ++stages) {
    for (std::int64_t turns = stages; turns < 10; ++turns) {
      auto nest = staged_loop("row", turns, stages);
      ASSERT_TRUE(nest) << nest.error().message;
      const auto done = pipeline::simulate(*nest);
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_EQ(done->computed, turns);
      EXPECT_EQ(done->copied, turns);
      EXPECT_EQ(done->ahead, std::min<std::int64_t>(stages, turns) - 1);
      const auto dropped = std::erase_if(nest->body.back().body,
                                         [](const TileStatement& s) { return s.kind == TileStatement::Kind::wait; });
      EXPECT_EQ(dropped, 1);
      EXPECT_FALSE(pipeline::simulate(*nest));
    }
    EXPECT_FALSE(staged_loop("row", stages - 1, stages));
  }
}

// What is held in shared memory as it is lies in its stage, and nowhere else.
TEST(LoadsAhead, OfHeldRowsStayInTheirStages) {
  const Graph graph = softmax(4096, 16384);
  const GroupStructure structure = group_of(graph, {1});
  search::MappingSpaceOptions space;
  space.threads = threads;
  int rows = 0;
  for (GroupMapping mapping : search::enumerate_mappings(structure, space, *find_device("h100"))) {
    if (mapping.axes[0].at(Level::grid) < 4) continue;
    mapping.axes[0].at(Level::grid) /= 4;
    mapping.axes[0].at(Level::loop) *= 4;
    const auto plain = derive_group(structure, mapping, schedule_of_block(), 1);
    const auto two = staged(structure, mapping, 2);
    if (!plain || !two || two->ahead.staged.empty() || two->inner_loops.empty()) continue;
    ++rows;
    const StagedLoad& load = two->ahead.staged.at(0);
    EXPECT_EQ(std::ranges::count(two->held, load.item, &HeldItem::item), 1);
    EXPECT_EQ(std::ranges::count(two->sweeps[0].copied, load.item), 1);
    EXPECT_EQ(load.stage_bytes, 4 * threads * two->elements_per_thread(AxisSet::of(0) | AxisSet::of(1)));
    EXPECT_EQ(two->held_bytes, load.shared_offset + 2 * load.stage_bytes);
    EXPECT_GE(load.shared_offset + load.stage_bytes, plain->held_bytes);  // without the second row as much as before
  }
  EXPECT_GT(rows, 0);
}

struct Refusal {
  std::string name;
  std::function<void(GroupMapping&, Schedule&)> change;
  std::string reason;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class RefusedLoadsAhead : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedLoadsAhead, SayWhy) {
  const Graph graph = layer_norm_backward(2048, 256);
  const GroupStructure structure = group_of(graph, {1});
  search::MappingSpaceOptions space;
  space.loads_ahead = true;
  space.threads = threads;
  space.partial_tiles = 132;
  const auto mappings = search::enumerate_mappings(structure, space, *find_device("h100"));
  Schedule schedule = schedule_of_block();
  const auto found = std::ranges::find_if(mappings, [&](const GroupMapping& mapping) {
    return mapping.stages == 2 && derive_group(structure, mapping, schedule, 1);
  });
  ASSERT_NE(found, mappings.end());
  GroupMapping mapping = *found;
  GetParam().change(mapping, schedule);
  const auto refused = derive_group(structure, mapping, schedule, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::constraint);
  EXPECT_THAT(refused.error().message, HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, RefusedLoadsAhead,
    testing::Values(
        Refusal{"three_stages", [](GroupMapping& mapping, Schedule&) { mapping.stages = 3; },
                "3 stages of loads in registers, at most 2"},
        Refusal{"five_stages",
                [](GroupMapping& mapping, Schedule&) {
                  mapping.stages = 5;
                  mapping.shared_stages = true;
                },
                "5 stages of loads in shared memory, at most 4"},
        Refusal{"bulk_copies_to_registers", [](GroupMapping& mapping, Schedule&) { mapping.bulk_stages = true; },
                "bulk copies go to stages in shared memory"},
        Refusal{"more_stages_than_turns",
                [](GroupMapping& mapping, Schedule&) {
                  for (AxisMapping& axis : mapping.axes) {
                    if (axis.at(Level::loop) == 1) continue;
                    axis.at(Level::grid) *= axis.at(Level::loop);
                    axis.at(Level::loop) = 2;
                  }
                  mapping.stages = 3;
                  mapping.shared_stages = true;
                },
                "no loop has loads"},
        Refusal{"a_recurrent_kernel", [](GroupMapping&, Schedule& schedule) { schedule.rows = 8; }, "no next row"},
        Refusal{"no_loop",
                [](GroupMapping& mapping, Schedule&) {
                  for (AxisMapping& axis : mapping.axes) axis.at(Level::grid) *= std::exchange(axis.at(Level::loop), 1);
                },
                "no loop has loads"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::kernel::test
