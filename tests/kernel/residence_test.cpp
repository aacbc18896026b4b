#include "kernel/program/residence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "kernel/loop/step_builder.h"
#include "kernel/program/group_deriver.h"
#include "kernel/program/program_builder.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/mapping_space.h"
#include "tests/kernel/recurrent_graphs.h"

namespace stitch::kernel::test {
namespace {

using Place = LoadPlaces::Place;

/// A kernel of the first mappings that can be had for the groups of a graph: of one tile each, if `step` is given.
KernelProgram first_kernel(const Graph& graph, Schedule schedule, const std::shared_ptr<const RecurrentStep>& step) {
  StructureOptions options;
  if (step != nullptr) {
    schedule.rows = step->rows;
    options.stored_first = step->stored_first;
    options.lasting_inputs = step->lasting_inputs();
  }
  search::MappingSpaceOptions space;
  space.threads = schedule.threads;
  space.one_tile = step != nullptr;
  const auto structure = derive_structure(graph, AxisAnalysis(graph), options);
  EXPECT_TRUE(structure) << structure.error().message;
  std::vector<std::vector<GroupProgram>> phases;
  for (const PhaseStructure& phase : structure->phases) {
    auto& groups = phases.emplace_back();
    auto& mappings = schedule.phases.emplace_back();
    for (const GroupStructure& group : phase.groups) {
      for (const GroupMapping& mapping : search::enumerate_mappings(group, space, *find_device("h100"))) {
        auto derived = derive_group(group, mapping, schedule, 1);
        if (!derived) continue;
        groups.push_back(std::move(*derived));
        mappings.push_back(mapping);
        break;
      }
    }
    EXPECT_EQ(groups.size(), phase.groups.size());
  }
  schedule.syncs.assign(phases.size() - 1, Sync::barrier);
  KernelProgram kernel = join_groups(*structure, schedule, std::move(phases));
  if (step != nullptr) make_recurrent(kernel, step);
  return kernel;
}

KernelProgram recurrent_kernel(const Graph& graph, std::int64_t rows) {
  const auto step = recurrent_step(graph, rows);
  EXPECT_TRUE(step) << step.error().message;
  Schedule schedule;
  schedule.threads = 64;
  return first_kernel((*step)->graph, schedule, *step);
}

template <class Look>
void for_each_load(const KernelProgram& kernel, double l1_bytes, Look look) {
  const Residence residence(kernel);
  for (const PhaseProgram& phase : kernel.phases) {
    for (const GroupProgram& group : phase.groups) {
      const LoadPlaces places(residence, group, l1_bytes);
      for (ItemId id = 0; id < std::ssize(group.structure.program->items()); ++id) {
        const Item& item = group.structure.program->at(id);
        if (item.kind == Item::Kind::load) look(group, item, id, places);
      }
    }
  }
}

TEST(Residence, OfAKernelWithoutTurnsIsDeviceMemory) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 256});
  const Graph graph =
      finished(b, {b.binary(Op::subtract, x, b.broadcast(b.reduce(ReduceKind::max, x, {1}), {64, 256}, {0}))});
  Schedule schedule;
  schedule.threads = 128;
  KernelProgram kernel = first_kernel(graph, schedule, nullptr);
  kernel.schedule.cluster = 2;
  const Residence residence(kernel);
  EXPECT_FALSE(residence.takes_turns());
  EXPECT_FALSE(residence.hands_on_in_block());
  EXPECT_EQ(residence.turns(), 1);
  EXPECT_EQ(residence.parts(), 1);
  for (const auto kind : {Buffer::Kind::input, Buffer::Kind::output, Buffer::Kind::scratch, Buffer::Kind::table}) {
    EXPECT_FALSE(residence.is_resident({kind, 0}));
    EXPECT_FALSE(residence.changes({kind, 0}));
    EXPECT_FALSE(residence.is_sequence({kind, 0}));
    EXPECT_FALSE(residence.is_stored_by_one(kernel.phases[0].groups[0], {kind, 0}));
  }
  int loads = 0;
  for_each_load(kernel, 1e9, [&](const GroupProgram&, const Item&, ItemId id, const LoadPlaces& places) {
    EXPECT_EQ(places.of(id), Place::device);
    EXPECT_FALSE(places.is_lasting(id));
    EXPECT_EQ(places.turns_ahead(id), 0);
    ++loads;
  });
  EXPECT_GT(loads, 0);
}

TEST(Residence, KeepsWhatTurnsHandOnInTheBlock) {
  const KernelProgram kernel = recurrent_kernel(gru({.turns = 7, .rows = 12, .width = 8}), 3);
  const RecurrentStep& step = *kernel.recurrent;
  const Residence residence(kernel);
  EXPECT_TRUE(residence.takes_turns());
  EXPECT_TRUE(residence.hands_on_in_block());
  EXPECT_EQ(residence.turns(), 7);
  EXPECT_EQ(residence.parts(), 4);
  EXPECT_TRUE(residence.is_resident({Buffer::Kind::scratch, 0}));
  EXPECT_FALSE(residence.is_resident({Buffer::Kind::table, 0}));
  std::map<RecurrentStep::Source::Kind, int> seen;
  for (int i = 0; i < std::ssize(step.sources); ++i) {
    const auto kind = step.sources[i].kind;
    const bool state = kind == RecurrentStep::Source::Kind::state;
    EXPECT_EQ(residence.is_resident({Buffer::Kind::input, i}), state || kind == RecurrentStep::Source::Kind::first_row);
    EXPECT_EQ(residence.changes({Buffer::Kind::input, i}), state);
    EXPECT_EQ(residence.is_sequence({Buffer::Kind::input, i}), step.is_sequence(i));
    ++seen[kind];
  }
  EXPECT_GT(seen[RecurrentStep::Source::Kind::state], 0);
  EXPECT_GT(seen[RecurrentStep::Source::Kind::input], 0);
  for (int i = 0; i < std::ssize(step.targets); ++i)
    EXPECT_EQ(residence.is_resident({Buffer::Kind::output, i}), step.targets[i].is_state);
}

TEST(Residence, OfLoadsFollowsWhatTurnsChange) {
  const KernelProgram kernel = recurrent_kernel(gru({.turns = 7, .rows = 12, .width = 8}), 3);
  const Residence residence(kernel);
  std::map<Place, int> seen;
  for_each_load(kernel, 1e9, [&](const GroupProgram& group, const Item& item, ItemId id, const LoadPlaces& places) {
    const Place place = places.of(id);
    ++seen[place];
    EXPECT_EQ(place == Place::shared, residence.is_resident(item.buffer));
    EXPECT_EQ(place == Place::registers, std::ranges::count(group.hoisted, id) > 0);
    EXPECT_EQ(place == Place::l2, residence.is_sequence(item.buffer)) << "all that lasts has room in L1";
    EXPECT_EQ(places.turns_ahead(id), residence.is_sequence(item.buffer) ? RecurrentStep::turns_ahead : 0);
    EXPECT_EQ(places.is_lasting(id), place == Place::registers || place == Place::l1);
  });
  EXPECT_GT(seen[Place::shared], 0);
  EXPECT_GT(seen[Place::l2], 0);
  EXPECT_GT(seen[Place::registers] + seen[Place::l1], 0);
}

TEST(Residence, WhatL1HasNoRoomForComesFromL2) {
  KernelProgram kernel = recurrent_kernel(gru({.turns = 7, .rows = 12, .width = 8}), 3);
  const auto from_l1 = [&](double l1_bytes) {
    int count = 0;
    for_each_load(kernel, l1_bytes, [&](const GroupProgram&, const Item&, ItemId id, const LoadPlaces& places) {
      count += places.of(id) == Place::l1 ? 1 : 0;
      EXPECT_TRUE(!places.is_lasting(id) || places.turns_ahead(id) == 0);
    });
    return count;
  };
  for (PhaseProgram& phase : kernel.phases) {
    for (GroupProgram& group : phase.groups) group.hoisted.clear();
  }
  EXPECT_GT(from_l1(1e9), 0);
  EXPECT_EQ(from_l1(0), 0);
  kernel.schedule.cluster = 2;  // whose barriers invalidate L1
  EXPECT_EQ(from_l1(1e9), 0);
}

TEST(Residence, OneBlockOfAClusterStoresWhatAllCompute) {
  KernelProgram kernel = recurrent_kernel(gru({.turns = 7, .rows = 12, .width = 8}), 3);
  const GroupProgram& group = kernel.phases[0].groups[0];
  ASSERT_FALSE(group.shares_cluster());
  int in_memory = -1;
  for (int i = 0; i < std::ssize(kernel.recurrent->targets); ++i) {
    if (!kernel.recurrent->targets[i].is_state) in_memory = i;
  }
  ASSERT_GE(in_memory, 0);
  EXPECT_FALSE(Residence(kernel).is_stored_by_one(group, {Buffer::Kind::output, in_memory}));
  kernel.schedule.cluster = 2;
  const Residence residence(kernel);
  EXPECT_EQ(residence.copies(group), 1);
  EXPECT_TRUE(residence.is_stored_by_one(group, {Buffer::Kind::output, in_memory}));
  EXPECT_FALSE(residence.is_stored_by_one(group, {Buffer::Kind::scratch, 0}));
}

}  // namespace
}  // namespace stitch::kernel::test
