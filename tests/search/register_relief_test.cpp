// What schedules are with more registers for a thread's turn: that they are what deriving them would give, and which of
// them a kernel has.
#include "search/schedule/register_relief.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "kernel/program/legality.h"
#include "kernel/program/program_builder.h"
#include "kernel/program/schedule_hash.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/ahead_choice.h"
#include "search/schedule/stitch_explorer.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search {
namespace {

using namespace kernel::test;

const DeviceSpec& h100() {
  static const DeviceSpec device = *find_device("h100");
  return device;
}

std::vector<StitchCandidate> candidates(const Graph& graph) {
  auto found = explore_stitches(graph, RoughScorer(), {.keep = 2000, .wide = true, .looks_ahead = 0});
  EXPECT_TRUE(found) << found.error().message;
  return std::move(*found);
}

std::size_t hoisted(const kernel::KernelProgram& program) {
  std::size_t loads = 0;
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups) loads += group.hoisted.size();
  }
  return loads;
}

/// Whether some group's mapping hoists nothing.
bool keeps_nothing(const kernel::KernelProgram& program) {
  return std::ranges::any_of(program.phases, [](const kernel::PhaseProgram& phase) {
    return std::ranges::any_of(phase.groups, [](const kernel::GroupProgram& group) { return !group.mapping.hoists; });
  });
}

std::int64_t blocks_of_sm(const kernel::KernelProgram& program) {
  return (program.blocks + h100().sm_count - 1) / h100().sm_count;
}

int turns_ahead(const kernel::KernelProgram& program) {
  int groups = 0;
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups)
      groups += group.mapping.stages > 1 && !group.mapping.shared_stages ? 1 : 0;
  }
  return groups;
}

/// Kernels of a graph, and the same with as many groups' loads a turn ahead in registers as can be.
std::vector<kernel::KernelProgram> kernels(const Graph& graph) {
  std::vector<kernel::KernelProgram> all;
  for (const StitchCandidate& candidate : candidates(graph)) {
    all.push_back(candidate.program);
    const auto liking = [](const kernel::KernelProgram& program) {
      return std::optional(100.0 - 5 * turns_ahead(program));
    };
    if (auto ahead = with_loads_ahead(candidate.program, 100, liking)) all.push_back(*std::move(ahead));
  }
  return all;
}

TEST(RegisterRelief, GivesUpOneThingOrSeveral) {
  int hoisting = 0, ahead = 0, halves = 0, all_three = 0;
  for (const kernel::KernelProgram& from : kernels(layer_norm_backward(8192, 1024))) {
    std::set<Hash128> schedules = {kernel::schedule_hash(from.schedule)};
    for (const kernel::KernelProgram& relieved : with_register_relief(from, h100())) {
      EXPECT_TRUE(schedules.insert(kernel::schedule_hash(relieved.schedule)).second) << "none of them twice";
      EXPECT_TRUE(kernel::check_legality(relieved, h100()));
      EXPECT_TRUE(hoisted(relieved) == 0 || hoisted(relieved) == hoisted(from));
      EXPECT_TRUE(turns_ahead(relieved) == 0 || turns_ahead(relieved) == turns_ahead(from));
      EXPECT_TRUE(relieved.blocks == from.blocks || blocks_of_sm(relieved) == blocks_of_sm(from) / 2);
      EXPECT_EQ(relieved.phases[0].tiles, from.phases[0].tiles);
      EXPECT_EQ(relieved.partial_count, from.partial_count);
      const bool a = keeps_nothing(relieved), b = turns_ahead(relieved) < turns_ahead(from),
                 c = relieved.blocks < from.blocks;
      EXPECT_TRUE(a || hoisted(relieved) == hoisted(from));
      EXPECT_TRUE(a || b || c);
      EXPECT_TRUE(!c || from.blocks_wait()) << "no other is bounded by how many blocks an SM has";
      hoisting += a ? 1 : 0;
      ahead += b ? 1 : 0;
      halves += c ? 1 : 0;
      all_three += a && b && c ? 1 : 0;
    }
    if (hoisted(from) > 0 || turns_ahead(from) > 0 || (from.blocks_wait() && from.blocks > h100().sm_count)) {
      EXPECT_GT(schedules.size(), 1U);
    }
  }
  EXPECT_GT(hoisting, 5);
  EXPECT_GT(ahead, 5);
  EXPECT_GT(halves, 5);
  EXPECT_GT(all_three, 0);
}

TEST(RegisterRelief, IsTheKernelThatItsScheduleGives) {
  int compared = 0;
  const Graph graph = layer_norm_backward(2048, 1024);
  const kernel::AxisAnalysis analysis(graph);
  for (const StitchCandidate& candidate : candidates(graph)) {
    const auto structure = kernel::derive_structure(graph, analysis, {candidate.schedule.tile_axes, {}});
    ASSERT_TRUE(structure) << structure.error().message;
    for (const kernel::KernelProgram& relieved : with_register_relief(candidate.program, h100())) {
      const auto derived = kernel::derive_program(graph, *structure, relieved.schedule);
      ASSERT_TRUE(derived) << derived.error().message;
      EXPECT_EQ(derived->registers, relieved.registers);
      EXPECT_EQ(derived->shared_bytes, relieved.shared_bytes);
      EXPECT_EQ(derived->retained_bytes(), relieved.retained_bytes());
      EXPECT_EQ(derived->blocks, relieved.blocks);
      EXPECT_EQ(derived->partial_count, relieved.partial_count);
      EXPECT_EQ(hoisted(*derived), hoisted(relieved));
      ++compared;
    }
  }
  EXPECT_GT(compared, 10);
}

TEST(RegisterRelief, IsNoneWhereNothingIsKeptOverTurns) {
  for (const StitchCandidate& candidate : candidates(softmax(64, 128))) {
    const kernel::GroupProgram& group = candidate.program.phases[0].groups[0];
    if (candidate.program.phases.size() > 1 || !group.outer_loops.empty()) continue;
    EXPECT_TRUE(with_register_relief(candidate.program, h100()).empty());
  }
}

}  // namespace
}  // namespace stitch::search
