// Which results of a program may lie where its parameters do.
#include "api/program_in_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch::api {
namespace {

using graph::DType;
using graph::TensorType;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Storage = ProgramValue::Storage;

const TensorType tensor_type{DType::f32, {128}};
constexpr int w = 0, g = 1, between = 2, y = 3, z = 4;

FragmentStep fragment(int index = 0) { return FragmentStep{index}; }

/// Parameters w and g, a value in the arena, results y and z; fragment 0 allows its first result over its first
/// parameter, fragment 1 nothing.
Program with_steps(std::vector<ProgramStep> steps) {
  Program program;
  program.parameters = {{"w", tensor_type, {}, {}}, {"g", tensor_type, {}, {}}};
  program.results = {{"y", tensor_type, {}, {}}, {"z", tensor_type, {}, {}}};
  program.fragments.resize(3);
  program.fragments[0].plan.emplace().in_place = {{0, 0}};
  program.fragments[1].plan.emplace();
  ProgramRegion region;
  region.values = {{tensor_type, "w", Storage::parameter, 0},
                   {tensor_type, "g", Storage::parameter, 1},
                   {tensor_type, "", Storage::arena, 0},
                   {tensor_type, "y", Storage::result, 0},
                   {tensor_type, "z", Storage::result, 1}};
  region.parameters = {w, g};
  region.results = {y, z};
  region.steps = std::move(steps);
  program.regions = {region};
  return program;
}

TEST(ProgramInPlace, AsTheFragmentAllowsThatReadsAndWrites) {
  EXPECT_THAT(in_place_of(with_steps({{"", {w, g}, {y, z}, 0, fragment()}})), UnorderedElementsAre(InPlace{0, 0}));
  EXPECT_THAT(in_place_of(with_steps({{"", {g, w}, {z, y}, 0, fragment()}})), UnorderedElementsAre(InPlace{1, 1}));
  EXPECT_THAT(in_place_of(with_steps({{"", {w, g}, {y, z}, 0, fragment(1)}})), IsEmpty());
  EXPECT_THAT(in_place_of(with_steps({{"", {w, g}, {y, z}, 0, fragment(2)}})), IsEmpty());  // without a plan
  EXPECT_THAT(in_place_of(with_steps({{"", {w, w, g}, {y, z}, 0, fragment()}})), IsEmpty());
}

TEST(ProgramInPlace, WhoReadsComesBeforeWhoWrites) {
  EXPECT_THAT(in_place_of(with_steps({{"", {w, g}, {between}, 0, fragment(1)},
                                      {"", {between}, {y}, 0, LibraryStep{}},
                                      {"", {g}, {z}, 0, fragment(1)}})),
              UnorderedElementsAre(InPlace{0, 0}, InPlace{0, 1}));
  EXPECT_THAT(in_place_of(with_steps({{"", {g}, {y}, 0, fragment(1)}, {"", {w, y}, {z}, 0, fragment()}})),
              UnorderedElementsAre(InPlace{0, 1}, InPlace{1, 1}));
}

/// Though its last reader allows it.
TEST(ProgramInPlace, FirstWritesCount) {
  EXPECT_THAT(in_place_of(with_steps({{"", {g}, {y, z}, 0, fragment(1)}, {"", {w, y}, {y}, 0, fragment()}})),
              IsEmpty());
}

/// A parameter that is read behind it must not lie there.
TEST(ProgramInPlace, WhatLiesInAResultsMemoryIsWrittenThereToo) {
  Program program = with_steps(
      {{"", {g}, {between}, 0, fragment(1)}, {"", {w, between}, {z}, 0, fragment(1)}, {"", {z}, {y}, 0, fragment(1)}});
  EXPECT_THAT(in_place_of(program), UnorderedElementsAre(InPlace{0, 0}, InPlace{1, 0}, InPlace{1, 1}));
  program.regions[0].values[between] = {tensor_type, "", Storage::lent, 0, 0};
  EXPECT_THAT(in_place_of(program), UnorderedElementsAre(InPlace{1, 1}));
}

TEST(ProgramInPlace, AParameterThatNobodyReads) {
  EXPECT_THAT(in_place_of(with_steps({{"", {g}, {y, z}, 0, LibraryStep{}}})),
              UnorderedElementsAre(InPlace{0, 0}, InPlace{0, 1}));
}

TEST(ProgramInPlace, ALoopsMemoryIsWrittenFromItsBeginning) {
  const LoopStep loop{3, 1, -1, {z}, -1};
  EXPECT_THAT(in_place_of(with_steps({{"", {g}, {y}, 0, loop}, {"", {w}, {z}, 0, fragment()}})), IsEmpty());
}

TEST(ProgramInPlace, WhatTheProgramHandsOnOrUpdatesStays) {
  Program handed_on = with_steps({{"", {w}, {y}, 0, fragment()}});
  handed_on.regions[0].results[1] = w;
  EXPECT_THAT(in_place_of(handed_on), UnorderedElementsAre(InPlace{1, 0}));
  Program updated = with_steps({{"", {g, w}, {w}, 0, fragment(1)}, {"", {g}, {y, z}, 0, fragment(1)}});
  EXPECT_THAT(in_place_of(updated), IsEmpty());
}

TEST(ProgramInPlace, TypesAreEqual) {
  Program program = with_steps({{"", {w, g}, {y, z}, 0, fragment()}});
  program.results[0].type = program.regions[0].values[y].type = {DType::f32, {64, 2}};
  EXPECT_THAT(in_place_of(program), IsEmpty());
}

}  // namespace
}  // namespace stitch::api
