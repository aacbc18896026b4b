#include "search/group_context.h"

#include <gtest/gtest.h>

#include <functional>

#include "search/mapping_space.h"
#include "search/structure.h"
#include "tests/search/example_graphs.h"

namespace stitch::search::test {
namespace {

/// All that was decided about a group, as text.
std::string described(const Result<GroupProgram>& derived) {
  if (!derived) return "refused: " + derived.error().message;
  const GroupProgram& group = *derived;
  std::string text = fmt::format("{} threads, {} tiles, {} exchange, {} held, {} registers, loops {:x} {:x} {:x}\n",
                                 group.threads, group.tiles, group.exchange_bytes, group.held_bytes, group.registers,
                                 group.outer_loops, group.inner_loops, group.varying);
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
      MappingSpaceOptions space;
      space.threads = 256, space.partial_tiles = 132;
      Schedule schedule;
      schedule.threads = 256;
      const std::vector<GroupMapping> mappings = enumerate_mappings(group, space, *find_device("h100"));
      GroupContext context(group);
      for (std::size_t i = 0; i < mappings.size(); i += 1 + mappings.size() / 40) {
        Result<GroupProgram> shared = context.derive(mappings[i], schedule, 1);
        EXPECT_EQ(described(shared), described(derive_group(group, mappings[i], schedule, 1)));
        ++compared, legal += shared ? 1 : 0;
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

}  // namespace
}  // namespace stitch::search::test
