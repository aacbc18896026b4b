// What is loaded before the loops around all sweeps, and that a mapping can have it loaded in every turn instead.
#include "kernel/program/hoisting.h"

#include <gmock/gmock.h>

#include "kernel/program/group_deriver.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/mapping_space.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Parameters of the loads among these items, in order.
std::vector<int> inputs_of(const GroupProgram& group, const std::vector<ItemId>& items) {
  std::vector<int> inputs;
  for (const ItemId id : items) {
    const Item& item = group.structure.program->at(id);
    if (item.kind == Item::Kind::load && item.buffer.kind == Buffer::Kind::input) inputs.push_back(item.buffer.number);
  }
  std::ranges::sort(inputs);
  return inputs;
}

bool has(const std::vector<int>& inputs, int input) { return std::ranges::count(inputs, input) > 0; }

// Of a norm's backward the gain is the same for all rows: a thread keeps its columns of it, or asks for them in each
// row's turn, and has their registers for the rest of the turn.
TEST(Hoisting, IsOfWhatIsTheSameForAllRowsWhereTheMappingHoists) {
  constexpr int threads = 256, gain = 2;
  const Graph graph = layer_norm_backward(2048, 1024);
  const auto structure = derive_structure(graph, AxisAnalysis(graph), {{1}, {}});
  ASSERT_TRUE(structure) << structure.error().message;
  const GroupStructure& rows = structure->phases.at(0).groups.at(0);
  search::MappingSpaceOptions space;
  space.threads = threads;
  space.partial_tiles = 132;
  Schedule schedule;
  schedule.threads = threads;
  int hoisting = 0;
  for (GroupMapping mapping : search::enumerate_mappings(rows, space, *find_device("h100"))) {
    EXPECT_TRUE(mapping.hoists);
    const auto hoisted = derive_group(rows, mapping, schedule, 1);
    if (!hoisted || hoisted->hoisted.empty()) continue;
    ++hoisting;
    mapping.hoists = false;
    const auto plain = derive_group(rows, mapping, schedule, 1);
    ASSERT_TRUE(plain) << plain.error().message;
    EXPECT_THAT(inputs_of(*hoisted, hoisted->hoisted), ElementsAre(gain));
    EXPECT_THAT(plain->hoisted, IsEmpty());
    EXPECT_EQ(plain->hoisted_registers, 0);
    EXPECT_EQ(plain->outer_loops, hoisted->outer_loops);
    EXPECT_EQ(plain->tiles, hoisted->tiles);
    int loading = 0;
    for (std::size_t s = 0; s < plain->sweeps.size(); ++s) {
      EXPECT_FALSE(has(inputs_of(*hoisted, hoisted->sweeps[s].body), gain));
      EXPECT_FALSE(has(inputs_of(*hoisted, hoisted->sweeps[s].uniform), gain));
      loading += has(inputs_of(*plain, plain->sweeps[s].body), gain) ? 1 : 0;
    }
    EXPECT_GE(loading, 1);
    EXPECT_LE(plain->registers, hoisted->registers);
  }
  EXPECT_GT(hoisting, 5);
}

}  // namespace
}  // namespace stitch::kernel::test
