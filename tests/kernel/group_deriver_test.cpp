#include "kernel/program/group_deriver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "kernel/loop/recurrent_step.h"
#include "kernel/loop/step_builder.h"
#include "kernel/structure/structure.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/mapping_space.h"
#include "tests/kernel/recurrent_graphs.h"

namespace stitch::kernel::test {
namespace {

/// All that was decided about a group, as text.
std::string described(const Result<GroupProgram>& derived) {
  if (!derived) return "refused: " + derived.error().message;
  const GroupProgram& group = *derived;
  std::string text = fmt::format("{} threads, {} tiles, {} exchange, {} held, {} registers, loops {:x} {:x} {:x}\n",
                                 group.threads, group.tiles, group.exchange_bytes, group.held_bytes, group.registers,
                                 group.outer_loops.bits(), group.inner_loops.bits(), group.varying.bits());
  for (const Access& access : group.accesses) text += fmt::format("{}{} ", access.width, access.uniform ? "u" : "");
  for (const auto& stores : group.stores) {
    for (const Access& access : stores) text += fmt::format("{}{} ", access.width, access.uniform ? "u" : "");
  }
  for (const HeldItem& held : group.held)
    text += fmt::format("\nheld {} {}-{} {} {}", held.item, held.from, held.until, to_string(held.place),
                        held.shared_offset);
  text += "\nhoisted";
  for (const ItemId item : group.hoisted) text += fmt::format(" {}", item);
  for (const Sweep& sweep : group.sweeps) {
    text += "\nsweep";
    for (const ItemId item : sweep.uniform) text += fmt::format(" u{}", item);
    for (const ItemId item : sweep.body) text += fmt::format(" {}", item);
    for (const ItemId item : sweep.early) text += fmt::format(" e{}", item);
    for (const ItemId item : sweep.copied) text += fmt::format(" c{}", item);
    for (const int anchor : sweep.anchors) text += fmt::format(" a{}", anchor);
  }
  for (const ReductionPlan& plan : group.reductions)
    text += fmt::format("\nreduction {} {} {} {}", plan.anchor, plan.exchange, plan.cluster, plan.partials);
  return text;
}

struct Example {
  const char* name;
  std::function<Graph()> graph;
};

class GroupContexts : public testing::TestWithParam<Example> {};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

// What mappings share is worked out once: whatever came before, a mapping gives what it gives alone.
TEST_P(GroupContexts, ShareWithoutTellingMappingsApart) {
  const Graph graph = GetParam().graph();
  const AxisAnalysis analysis(graph);
  int compared = 0, legal = 0;
  std::vector<std::set<int>> choices(1);  // which axes a tile holds: none, those of one reduction
  for (NodeId id = 0; id < graph.size(); ++id) {
    const std::vector<int> reduced = analysis.reduced(id);
    if (!reduced.empty()) choices.emplace_back(reduced.begin(), reduced.end());
  }
  for (const std::set<int>& tile_axes : choices) {
    const auto structure = derive_structure(graph, analysis, {tile_axes, {}});
    ASSERT_TRUE(structure) << structure.error().message;
    for (const GroupStructure& group : structure->phases.at(0).groups) {
      search::MappingSpaceOptions space;
      space.threads = 256;
      space.partial_tiles = 132;
      Schedule schedule;
      schedule.threads = 256;
      const std::vector<GroupMapping> mappings = search::enumerate_mappings(group, space, *find_device("h100"));
      GroupDeriver context(group);
      for (std::size_t i = 0; i < mappings.size(); i += 1 + mappings.size() / 40) {
        Result<GroupProgram> shared = context.derive(mappings[i], schedule, 1);
        EXPECT_EQ(described(shared), described(derive_group(group, mappings[i], schedule, 1)));
        ++compared;
        legal += shared ? 1 : 0;
        if (shared) context.give_back(std::move(*shared));
      }
    }
  }
  EXPECT_GT(compared, 10);
  EXPECT_GT(legal, 5);
}

INSTANTIATE_TEST_SUITE_P(Graphs, GroupContexts,
                         testing::Values(Example{"softmax", [] { return softmax(64, 300); }},
                                         Example{"norm", [] { return layer_norm(512, 768); }},
                                         Example{"norm_backward", [] { return layer_norm_backward(256, 512); }},
                                         Example{"sums", [] { return row_and_column_sums(512, 1024); }}),
                         [](const auto& each) { return each.param.name; });

/// Calls `look` with every group that a mapping of the first phase's gives.
void for_each_group(const Graph& graph, StructureOptions options, const search::MappingSpaceOptions& space,
                    const Schedule& schedule, const std::function<void(const GroupProgram&)>& look) {
  const AxisAnalysis analysis(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const std::vector<int> reduced = analysis.reduced(id);
    options.tile_axes.insert(reduced.begin(), reduced.end());
  }
  const auto structure = derive_structure(graph, analysis, options);
  ASSERT_TRUE(structure) << structure.error().message;
  for (const GroupStructure& group : structure->phases.at(0).groups) {
    for (const GroupMapping& mapping : search::enumerate_mappings(group, space, *find_device("h100"))) {
      if (const auto derived = derive_group(group, mapping, schedule, 1)) look(*derived);
    }
  }
}

TEST(LastingLoads, OfARecurrentKernelAreMadeOnceWhereRegistersHoldThem) {
  const auto step = recurrent_step(gru({.turns = 100, .rows = 8, .width = 36}), 2);
  ASSERT_TRUE(step) << step.error().message;
  search::MappingSpaceOptions space;
  space.threads = 128;
  space.one_tile = true;
  Schedule schedule;
  schedule.threads = 128;
  schedule.rows = 2;
  StructureOptions options;
  options.stored_first = (*step)->stored_first;
  for_each_group((*step)->graph, options, space, schedule,
                 [](const GroupProgram& group) { EXPECT_TRUE(group.hoisted.empty()); });
  options.lasting_inputs = (*step)->lasting_inputs();
  int whole = 0, looped = 0;
  for_each_group((*step)->graph, options, space, schedule, [&](const GroupProgram& group) {
    EXPECT_LE(group.hoisted_registers, 255 - 80);
    EXPECT_LE(group.hoisted_registers, group.registers);
    for (const ItemId id : group.hoisted) {
      const Item& item = group.structure.program->at(id);
      EXPECT_EQ(item.kind, Item::Kind::load);
      EXPECT_EQ((*step)->sources[item.buffer.number].kind, RecurrentStep::Source::Kind::input);
      EXPECT_FALSE((*step)->is_sequence(item.buffer.number)) << "where it is depends on the turn";
      for (std::size_t a = 0; a < group.extents.size(); ++a)
        EXPECT_TRUE(!item.axes.contains(a) || group.extent(a, Level::loop) == 1);
      for (const Sweep& sweep : group.sweeps) EXPECT_EQ(std::ranges::count(sweep.body, id), 0);
    }
    (group.hoisted.size() >= 3 ? whole : looped) += 1;  // the three gates' weights
  });
  EXPECT_GT(whole, 0);
  EXPECT_GT(looped, 0);
}

TEST(CopiedLoads, AreThoseOfLoopsThatLaterSweepsFindInSharedMemory) {
  search::MappingSpaceOptions space;
  Schedule schedule;
  int copied = 0;
  const auto look = [&](const GroupProgram& group) {
    for (std::size_t sweep = 0; sweep < group.sweeps.size(); ++sweep) {
      for (const ItemId id : group.sweeps[sweep].copied) {
        ++copied;
        EXPECT_EQ(std::ranges::count(group.sweeps[sweep].early, id), 1);
        const auto held = std::ranges::find(group.held, id, &HeldItem::item);
        ASSERT_NE(held, group.held.end());
        EXPECT_EQ(held->place, Hold::shared);
        EXPECT_EQ(held->from, static_cast<int>(sweep));
        const int bytes = group.accesses[id].width * graph::byte_size(group.structure.program->at(id).dtype);
        EXPECT_TRUE(bytes == 4 || bytes == 8 || bytes == 16);
      }
    }
  };
  for_each_group(softmax(64, 16384), {}, space, schedule, look);
  EXPECT_GT(copied, 0);
  const int of_whole_words = std::exchange(copied, 0);
  // A row's end within a vector has to be looked at element by element, unless rows are shifted.
  for_each_group(softmax(64, 16382), {}, space, schedule, [&](const GroupProgram& group) {
    look(group);
    if (group.shift) return;
    for (const Sweep& sweep : group.sweeps) {
      for (const ItemId id : sweep.copied) EXPECT_LE(group.accesses[id].width, 2);
    }
  });
  EXPECT_LE(copied, of_whole_words);
  // So has the end of a single row, though it is aligned.
  for (const std::int64_t columns : {16384, 16383, 16382, 16381}) {
    for_each_group(softmax(1, columns), {}, space, schedule, [&](const GroupProgram& group) {
      look(group);
      const std::int64_t run = group.mapping.vector_axis >= 0 ? group.vector_extent() : 1;
      if (group.shift || columns % run == 0) return;
      for (const Sweep& sweep : group.sweeps) EXPECT_TRUE(sweep.copied.empty()) << columns << " by " << run;
    });
  }
  // The blocks of a recurrent kernel read their states in shared memory.
  copied = 0;
  schedule.rows = 1;
  for_each_group(softmax(64, 16384), {}, space, schedule, look);
  EXPECT_EQ(copied, 0);
}

}  // namespace
}  // namespace stitch::kernel::test
