#include "profiler/verify/axis_boxes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"

namespace stitch::profiler {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Interval;
using graph::Value;
using testing::ElementsAre;

/// Sums of an operand over some dimensions; nothing else tells its dimensions apart.
struct Reduction {
  Reduction(const Dims& dims, const Dims& along) : Reduction(dims, along, dims) {}
  /// The operand, with `view` for its dimensions in memory, is the parameter's reshape.
  Reduction(const Dims& dims, const Dims& along, const Dims& view) {
    Builder b;
    const Value x = b.parameter(DType::f32, view);
    operand = view == dims ? x : b.reshape(x, dims);
    graph = *b.finish({b.reduce(graph::ReduceKind::sum, operand, along)});
  }
  Graph graph;
  Value operand;
};

/// Boxes of the axis that stands first in a dimension.
std::vector<std::string> boxes(const Reduction& reduction, std::size_t dimension, const std::vector<Interval>& ranges,
                               std::size_t most = 100) {
  const kernel::AxisAnalysis analysis(reduction.graph);
  const int axis = analysis.of(reduction.operand, dimension).at(0);
  const auto found = boxes_of_axis(reduction.graph, analysis, reduction.operand, axis, ranges, most);
  if (!found) return {"none"};
  std::vector<std::string> texts;
  for (const graph::Box& box : *found) texts.push_back(to_string(box));
  return texts;
}

TEST(AxisBoxes, OfADimensionOfItsOwn) {
  const Reduction rows({8, 5}, {0});
  EXPECT_THAT(boxes(rows, 0, {{0, 2}, {4, 5}, {7, 8}}), ElementsAre("[0:2,0:5]", "[4:5,0:5]", "[7:8,0:5]"));
}

// The 4,096 rows of [32,128,30522] are one axis: any set of them is boxes, whole runs of 128 or not.
TEST(AxisBoxes, OfDimensionsThatShareIt) {
  const Reduction rows({32, 128, 30522}, {0, 1});
  EXPECT_THAT(boxes(rows, 0, {{0, 256}}), ElementsAre("[0:2,0:128,0:30522]"));
  EXPECT_THAT(boxes(rows, 0, {{0, 1}, {33, 34}, {127, 129}}),
              ElementsAre("[0:1,0:1,0:30522]", "[0:1,33:34,0:30522]", "[0:1,127:128,0:30522]", "[1:2,0:1,0:30522]"));
  EXPECT_THAT(boxes(rows, 0, {{100, 300}}),
              ElementsAre("[0:1,100:128,0:30522]", "[1:2,0:128,0:30522]", "[2:3,0:44,0:30522]"));
}

TEST(AxisBoxes, OfDimensionsBehindOthersAndBetweenThem) {
  const Reduction columns({4, 3, 1, 2}, {1, 3});
  EXPECT_THAT(boxes(columns, 1, {{1, 4}}), ElementsAre("[0:4,0:1,0:1,1:2]", "[0:4,1:2,0:1,0:2]"));
  const Reduction middle({4, 3, 2, 5}, {1, 2});
  EXPECT_THAT(boxes(middle, 1, {{1, 2}, {4, 6}}), ElementsAre("[0:4,0:1,1:2,0:5]", "[0:4,2:3,0:2,0:5]"));
}

// A sum over everything beside one over the columns: the rows are two axes of one dimension, or one of two.
TEST(AxisBoxes, OfAPartOfADimension) {
  Builder b;
  const Value x = b.parameter(DType::f32, {12, 5});
  const Value parts = b.reduce(graph::ReduceKind::sum, b.reshape(x, {3, 4, 5}), {0});
  const Graph graph = *b.finish({parts, b.reduce(graph::ReduceKind::sum, x, {0})});
  const kernel::AxisAnalysis analysis(graph);
  ASSERT_EQ(analysis.of(x, 0).size(), 2U);
  const auto of_axis = [&](int axis, std::vector<Interval> ranges) {
    std::vector<std::string> texts;
    const auto found = boxes_of_axis(graph, analysis, x, analysis.of(x, 0)[axis], ranges, 100);
    for (const graph::Box& box : found.value()) texts.push_back(to_string(box));
    return texts;
  };
  EXPECT_THAT(of_axis(0, {{1, 2}}), ElementsAre("[4:8,0:5]"));
  EXPECT_THAT(of_axis(1, {{1, 3}}), ElementsAre("[1:3,0:5]", "[5:7,0:5]", "[9:11,0:5]"));
}

TEST(AxisBoxes, NoneWhereTheyAreTooManyOrTheAxisIsElsewhere) {
  const Reduction rows({32, 128, 30522}, {0, 1});
  std::vector<Interval> ranges;
  for (std::int64_t row = 0; row < 4096; row += 8) ranges.push_back({row, row + 1});
  EXPECT_EQ(boxes(rows, 0, ranges, 512).size(), 512U);
  EXPECT_THAT(boxes(rows, 0, ranges, 511), ElementsAre("none"));
  const kernel::AxisAnalysis analysis(rows.graph);
  const Value sums = rows.graph.results()[0];
  const int axis = analysis.of(rows.operand, 0).at(0);
  EXPECT_FALSE(boxes_of_axis(rows.graph, analysis, sums, axis, std::vector{Interval{0, 1}}, 100));
}

TEST(AxisBoxes, ElementsOfTheDigitsThatRun) {
  using kernel::Level;
  struct Case {
    std::int64_t inside, loop, grid, extent;
    bool interleaved;
    std::vector<bool> run;
    std::vector<Interval> expected;
  };
  const Case cases[] = {
      {4, 1, 3, 12, false, {true, false, true}, {{0, 4}, {8, 12}}},
      {4, 1, 3, 12, false, {true, true, false}, {{0, 8}}},
      {4, 1, 3, 10, false, {false, false, true}, {{8, 10}}},
      {2, 2, 3, 12, false, {false, true, false}, {{4, 8}}},
      // By turns: each tile has a part of every turn.
      {1, 3, 4, 12, true, {true, false, false, false}, {{0, 1}, {4, 5}, {8, 9}}},
      {1, 3, 4, 12, true, {true, false, false, true}, {{0, 1}, {3, 5}, {7, 9}, {11, 12}}},
      {2, 2, 4, 13, true, {false, false, true, false}, {{4, 6}, {12, 13}}},
      {2, 2, 4, 12, true, {false, false, true, false}, {{4, 6}}},
  };
  for (const Case& one : cases) {
    kernel::AxisMapping mapping;
    mapping.at(Level::reg) = one.inside;
    mapping.at(Level::loop) = one.loop;
    mapping.at(Level::grid) = one.grid;
    mapping.interleaved = one.interleaved;
    EXPECT_EQ(elements_of_digits(mapping, one.extent, one.run), one.expected) << &one - cases;
  }
}

}  // namespace
}  // namespace stitch::profiler
