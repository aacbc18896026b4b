#include "kernel/program/state_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "kernel/loop/step_builder.h"
#include "kernel/program/group_deriver.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/mapping_space.h"
#include "search/schedule/structure_choice.h"
#include "tests/kernel/recurrent_graphs.h"

namespace stitch::kernel::test {
namespace {

/// The groups of a turn of `rows` rows a block.
std::vector<GroupStructure> groups_of(const Graph& graph, std::int64_t rows) {
  const auto step = recurrent_step(graph, rows);
  EXPECT_TRUE(step) << step.error().message;
  StructureOptions options;
  options.stored_first = (*step)->stored_first;
  options.lasting_inputs = (*step)->lasting_inputs();
  // Every reduction ends in its tile.
  const AxisAnalysis analysis((*step)->graph);
  options.tile_axes = search::reduced_axes((*step)->graph, analysis);
  static std::vector<std::shared_ptr<const RecurrentStep>> alive;  // programs refer to their graphs
  alive.push_back(*step);
  auto structure = derive_structure((*step)->graph, analysis, options);
  EXPECT_TRUE(structure) << structure.error().message;
  std::vector<GroupStructure> groups;
  for (PhaseStructure& phase : structure->phases) {
    for (GroupStructure& group : phase.groups) groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<StateProducts> products_of(const Graph& graph, std::int64_t rows) {
  for (const GroupStructure& group : groups_of(graph, rows)) {
    if (auto found = find_state_products(group); !found.empty()) return found;
  }
  return {};
}

RecurrentShape f16(std::int64_t width) { return {.turns = 3, .rows = 16, .width = width, .dtype = DType::f16}; }

TEST(StateProducts, GatesShareTheState) {
  const auto products = products_of(gru(f16(64)), 8);
  ASSERT_EQ(products.size(), 1U);
  EXPECT_EQ(products[0].parts.size(), 3U);
  EXPECT_EQ(products[0].depth, 64);
  EXPECT_EQ(products[0].pitch, 64);
  EXPECT_EQ(products_of(lstm(f16(64)), 8)[0].parts.size(), 4U);
}

TEST(StateProducts, PartsOfAConcatenationAreProductsOfTheirOwn) {
  std::size_t products = 0;
  for (const GroupStructure& group : groups_of(cell_backward(f16(64)), 8))
    products += find_state_products(group).size();
  EXPECT_EQ(products, 2U);
}

TEST(StateProducts, OnlyOfNarrowFloats) {
  EXPECT_TRUE(products_of(gru({.turns = 3, .rows = 16, .width = 64}), 8).empty());
}

TEST(StateProducts, NotWhereRowsMustNotDependOnTheBatch) {
  Graph graph = gru(f16(64));
  graph.constraints.batch_invariant = true;
  EXPECT_TRUE(products_of(graph, 8).empty());
}

/// What a block of so many threads does of a group's first mapping for tensor cores.
std::optional<GroupProgram> derived(const GroupStructure& group, std::int64_t rows, int threads, int cluster = 1) {
  search::MappingSpaceOptions space;
  space.threads = threads;
  space.cluster = cluster;
  space.one_tile = true;
  Schedule schedule;
  schedule.threads = threads;
  schedule.cluster = cluster;
  schedule.rows = rows;
  for (const GroupMapping& mapping : search::enumerate_mappings(group, space, *find_device("h100"))) {
    if (!mapping.tensor_cores) continue;
    auto program = derive_group(group, mapping, schedule, 1);
    if (program) return std::move(*program);
  }
  return std::nullopt;
}

std::optional<GroupProgram> derived(const Graph& graph, std::int64_t rows, int threads, int cluster = 1) {
  for (const GroupStructure& group : groups_of(graph, rows)) {
    if (!find_state_products(group).empty()) return derived(group, rows, threads, cluster);
  }
  return std::nullopt;
}

TEST(StateProducts, WarpsShareColumnsAndDepth) {
  // An LSTM of 256 units in clusters of eight: 32 columns of each of 4 gates in a block.
  const auto program = derived(lstm(f16(256)), 16, 256, 8);
  ASSERT_TRUE(program);
  const StateProducts& product = program->products[0];
  EXPECT_EQ(product.columns, 32);
  EXPECT_EQ(product.depth, 256);
  // All weights are with some warp, and none of eight warps idles.
  EXPECT_GE(product.column_warps * product.tiles * StateProducts::tile_columns, 4 * 32);
  EXPECT_GE(product.depth_warps * product.chunks * StateProducts::chunk, 256);
  EXPECT_EQ(product.warps(), 8);
  EXPECT_TRUE(product.in_registers);
  EXPECT_EQ(product.fragment_registers() * 32 * product.warps() * 4, 256 * 128 * 2);
  EXPECT_GE(program->hoisted_registers, product.fragment_registers());
  EXPECT_GE(program->held_bytes, product.sum_bytes());
}

TEST(StateProducts, WeightsGoToSharedMemoryWhereRegistersDoNotReach) {
  const auto program = derived(gru(f16(256)), 8, 128);
  ASSERT_TRUE(program);
  EXPECT_FALSE(program->products[0].in_registers);
  EXPECT_GE(program->products[0].fragment_bytes(), 256 * 768 * 2);
}

TEST(StateProducts, FewRowsAreRefused) { EXPECT_FALSE(derived(gru(f16(64)), 4, 128)); }

TEST(StateProducts, NothingOfThemIsInASweep) {
  const auto program = derived(gru(f16(64)), 8, 128);
  ASSERT_TRUE(program);
  const std::vector<bool> needed = needed_beside(program->products, program->structure);
  for (const Sweep& sweep : program->sweeps) {
    for (const ItemId id : sweep.body) EXPECT_TRUE(needed[static_cast<std::size_t>(id)]);
    for (const ItemId id : sweep.uniform) EXPECT_TRUE(needed[static_cast<std::size_t>(id)]);
  }
  EXPECT_FALSE(needed[static_cast<std::size_t>(program->products[0].state)]);
}

TEST(StateProducts, LanesReadRowsOfDifferentBanks) {
  StateProducts product;
  for (const auto& [pitch, apart] : {std::pair{32, 1}, {64, 0}, {96, 1}, {128, 0}, {80, 2}, {72, 4}, {40, 4}}) {
    product.pitch = pitch;
    EXPECT_EQ(product.paired_rows(), apart) << pitch;
  }
}

}  // namespace
}  // namespace stitch::kernel::test
