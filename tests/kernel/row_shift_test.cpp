#include "kernel/structure/row_shift.h"
#include "kernel/program/group_deriver.h"
#include "kernel/structure/structure_builder.h"

#include <gtest/gtest.h>

#include "search/schedule/mapping_space.h"
#include "search/schedule/vector_choice.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

class MisalignmentTest : public testing::Test {
 protected:
  Index address(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t constant) {
    IndexPool& pool = program_.pool();
    const std::array<std::int64_t, 3> strides = {i, j, k};
    return pool.offset(pool.linear(program_.axes().variables, strides), constant);
  }
  [[nodiscard]] Index variable(std::size_t axis) const { return program_.axes().variables[axis]; }

  const Graph graph_ = softmax(2, 3);
  ScalarProgram program_{graph_, {0, 1, 2}, {50, 60, 70}};
};

TEST_F(MisalignmentTest, IsWhatIsLeftWithoutTheAxis) {
  const auto rest = misalignment(program_, address(4200, 70, 1, 11), 2, 8);
  ASSERT_TRUE(rest);
  EXPECT_EQ(*rest, (Misalignment{3, {{6, variable(1)}}}));
  EXPECT_FALSE(rest->none());
  EXPECT_EQ(modulo(*rest, 4), (Misalignment{3, {{2, variable(1)}}}));
  EXPECT_EQ(modulo(*rest, 2), (Misalignment{1, {}}));
}

TEST_F(MisalignmentTest, MultiplesAreAligned) {
  const auto rest = misalignment(program_, address(-800, 16, 1, 24), 2, 8);
  ASSERT_TRUE(rest);
  EXPECT_TRUE(rest->none());
}

TEST_F(MisalignmentTest, OfNegativeCoefficientsToo) {
  EXPECT_EQ(misalignment(program_, address(0, -3, 1, -1), 2, 8), (Misalignment{7, {{5, variable(1)}}}));
}

TEST_F(MisalignmentTest, NothingForWhatIsNotContiguous) {
  EXPECT_FALSE(misalignment(program_, address(1, 50, 2, 0), 2, 8));
  EXPECT_FALSE(misalignment(program_, address(1, 50, 0, 0), 2, 8));
  IndexPool& pool = program_.pool();
  EXPECT_FALSE(misalignment(program_, pool.add(variable(2), pool.divide(variable(2), 7)), 2, 8));
  EXPECT_FALSE(misalignment(program_, pool.constant(5), 2, 8));
}

// ---- groups -------------------------------------------------------------------------------------------------------

GroupStructure group_of(const Graph& graph, const std::set<int>& tile_axes) {
  auto structure = derive_structure(graph, AxisAnalysis(graph), {tile_axes, {}});
  if (!structure) {
    throw std::runtime_error(structure.error().message);
  }
  return std::move(structure->phases.at(0).groups.at(0));
}

TEST(RowShift, OddRowsOfASoftmax) {
  const GroupStructure group = group_of(softmax(64, 301), {1});
  const auto shift = row_shift(group, 1, 4);
  ASSERT_TRUE(shift);
  EXPECT_EQ(shift->constant, 0);
  ASSERT_EQ(shift->terms.size(), 1u);
  EXPECT_EQ(shift->terms[0].coefficient, 1);
  EXPECT_EQ(shift->terms[0].atom, group.program->axes().variables[0]);
}

TEST(RowShift, NoneForRowsThatAreAligned) { EXPECT_FALSE(row_shift(group_of(softmax(64, 304), {1}), 1, 4)); }

// A thread's sums of columns would be of another column in every row.
TEST(RowShift, NoneWhereRowsAreSummed) {
  EXPECT_FALSE(row_shift(group_of(row_and_column_sums(64, 301), {0, 1}), 1, 4));
  EXPECT_FALSE(row_shift(group_of(layer_norm_backward(64, 301), {1}), 1, 4));
}

TEST(RowShift, NoneForScans) { EXPECT_FALSE(row_shift(group_of(scanned(30, 101), {}), 1, 4)); }

// ---- mappings -----------------------------------------------------------------------------------------------------

TEST(RowShift, MappingsAreOfferedAndCoverTheLongerRow) {
  const auto graph = softmax(4096, 301);  // derived groups refer to it
  const GroupStructure group = group_of(graph, {1});
  EXPECT_EQ(search::choose_vector(group).width, 1);
  EXPECT_EQ(search::choose_vector(group).shifted_width, 4);
  int shifted = 0;
  for (const GroupMapping& mapping : search::enumerate_mappings(group, {}, *find_device("h100"))) {
    if (!mapping.shifted) continue;
    ++shifted;
    const AxisMapping& row = mapping.axes[1];
    EXPECT_EQ(row.at(Level::vector), 4);
    EXPECT_GE(row.step(Level::grid) * row.at(Level::grid), 304);
    EXPECT_TRUE(derive_group(group, mapping, {}, 1));
  }
  EXPECT_GE(shifted, 4);
}

TEST(RowShift, AThreadTakesOneRowAtATime) {
  const GroupStructure group = group_of(softmax(4096, 301), {1});
  GroupMapping mapping;
  mapping.axes.resize(2);
  mapping.vector_axis = 1;
  mapping.shifted = true;
  mapping.axes[0].at(Level::grid) = 2048;
  mapping.axes[1].at(Level::vector) = 4;
  mapping.axes[1].at(Level::lane) = 32;
  mapping.axes[1].at(Level::reg) = 3;
  mapping.axes[0].at(Level::loop) = 2;
  const auto in_turn = derive_group(group, mapping, {}, 1);
  ASSERT_TRUE(in_turn) << in_turn.error().message;
  EXPECT_TRUE(in_turn->shift);
  std::swap(mapping.axes[0].at(Level::loop), mapping.axes[0].at(Level::reg));
  const auto at_once = derive_group(group, mapping, {}, 1);
  ASSERT_FALSE(at_once);
  EXPECT_NE(at_once.error().message.find("several rows of axis 0 at once"), std::string::npos)
      << at_once.error().message;
}

TEST(RowShift, WhatARowBeginsBeforeItsFirstElementIsCovered) {
  const GroupStructure group = group_of(softmax(64, 254), {1});
  GroupMapping mapping;
  mapping.axes.resize(2);
  mapping.vector_axis = 1;
  mapping.shifted = true;
  mapping.axes[0].at(Level::grid) = 64;
  mapping.axes[1].at(Level::vector) = 4;
  mapping.axes[1].at(Level::lane) = 32;
  mapping.axes[1].at(Level::reg) = 2;
  const auto short_of = derive_group(group, mapping, {}, 1);
  ASSERT_FALSE(short_of);
  EXPECT_NE(short_of.error().message.find("extent 257 is covered to 256"), std::string::npos)
      << short_of.error().message;
}

}  // namespace
}  // namespace stitch::kernel::test
