// Which loads a mapping with two stages makes a turn ahead, and what that costs.
#include "kernel/program/loads_ahead.h"

#include <gmock/gmock.h>

#include <functional>

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
    testing::Values(Refusal{"three_stages", [](GroupMapping& mapping, Schedule&) { mapping.stages = 3; },
                            "3 stages of loads in registers, at most 2"},
                    Refusal{"a_recurrent_kernel", [](GroupMapping&, Schedule& schedule) { schedule.rows = 8; },
                            "no next row"},
                    Refusal{"no_loop",
                            [](GroupMapping& mapping, Schedule&) {
                              for (AxisMapping& axis : mapping.axes)
                                axis.at(Level::grid) *= std::exchange(axis.at(Level::loop), 1);
                            },
                            "no loop has loads"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::kernel::test
