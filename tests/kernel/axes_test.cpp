#include "kernel/index/axes.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <set>

#include "tests/graph/random_graph.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

/// "64 300 | 0 1 | 0": the extents of all axes, then the axes of each value.
std::string to_text(const AxisAnalysis& analysis, const std::vector<Value>& values) {
  std::vector<std::string> parts;
  std::vector<std::int64_t> extents;
  for (const Axis& axis : analysis.axes()) extents.push_back(axis.extent);
  std::string text = fmt::format("{}", fmt::join(extents, " "));
  for (const Value value : values) text += fmt::format(" | {}", fmt::join(analysis.of(value), " "));
  return text;
}

struct Example {
  std::string name;
  std::function<std::vector<Value>(Builder&)> values;  ///< the last one is the graph's result
  std::string text;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

Value parameter(Builder& b, const Dims& dims) { return b.parameter(DType::f32, dims); }
Value sum(Builder& b, Value x, const Dims& dimensions) { return b.reduce(ReduceKind::sum, x, dimensions); }

std::vector<Example> examples() {
  return {
      {"element_wise_is_one_axis",
       [](Builder& b) {
         const Value x = parameter(b, {8, 128, 768});
         return std::vector{x, b.unary(Op::tanh, x)};
       },
       "786432 | 0 | 0"},
      {"reshape_regroups",
       [](Builder& b) {
         const Value x = parameter(b, {8, 128, 768}), flat = b.reshape(x, {1024, 768});
         return std::vector{x, flat, sum(b, flat, {1})};
       },
       "1024 768 | 0 1 | 0 1 | 0"},
      {"reshape_splits_and_transpose_reorders",
       [](Builder& b) {
         const Value x = parameter(b, {1024, 768}), heads = b.reshape(x, {8, 128, 12, 64});
         return std::vector{x, heads, b.transpose(heads, {0, 2, 1, 3})};
       },
       "8 128 12 64 | 0 1 2 3 | 0 1 2 3 | 0 2 1 3"},
      {"sums_of_rows_meet_sums_of_columns",
       [](Builder& b) {
         const Value x = parameter(b, {3, 3}), columns = sum(b, x, {0}), rows = sum(b, x, {1});
         return std::vector{x, columns, rows, b.binary(Op::add, columns, rows)};
       },
       "3 3 3 | 0 1 | 1 | 0 | 2"},
      {"unit_dimensions_have_no_axes",
       [](Builder& b) {
         const Value x = parameter(b, {1, 8, 1, 5});
         return std::vector{x, b.reshape(x, {8, 1, 5})};
       },
       "40 | 0 | 0"},
      {"scalars_have_none",
       [](Builder& b) {
         const Value x = parameter(b, {});
         return std::vector{x, b.unary(Op::exp, x)};
       },
       " |  | "},
      {"broadcast_repeats",
       [](Builder& b) {
         const Value bias = parameter(b, {768}), x = parameter(b, {4, 768});
         return std::vector{bias, x, b.binary(Op::add, x, b.broadcast(bias, {4, 768}, {1}))};
       },
       "768 4 | 0 | 1 0 | 1 0"},
      {"broadcast_of_a_unit_dimension",
       [](Builder& b) {
         const Value x = parameter(b, {4, 1}), y = parameter(b, {4, 768});
         return std::vector{x, y, b.broadcast_binary(Op::add, x, y)};
       },
       "4 768 | 0 | 0 1 | 0 1"},
      {"reduce_drops_and_neighbours_merge",
       [](Builder& b) {
         const Value x = parameter(b, {4, 5, 6, 7});
         return std::vector{x, sum(b, x, {1, 2})};
       },
       "4 30 7 | 0 1 2 | 0 2"},
      {"reduce_outer_and_inner",
       [](Builder& b) {
         const Value x = parameter(b, {256, 8, 100});
         return std::vector{x, sum(b, x, {0, 2})};
       },
       "256 8 100 | 0 1 2 | 1"},
      {"two_reductions_keep_axes_apart",
       [](Builder& b) {
         const Value x = parameter(b, {4, 5, 6});
         return std::vector{x, sum(b, x, {2}), sum(b, x, {1, 2})};
       },
       "4 5 6 | 0 1 2 | 0 1 | 0"},
      {"axes_reduced_whole_merge_where_all_agree",
       [](Builder& b) {
         const Value x = parameter(b, {4, 5, 6});
         return std::vector{x, sum(b, x, {0, 1, 2})};
       },
       "120 | 0 | "},
      {"transpose_of_a_rectangle",
       [](Builder& b) {
         const Value x = parameter(b, {5, 7});
         return std::vector{x, b.transpose(x, {1, 0})};
       },
       "5 7 | 0 1 | 1 0"},
      {"rectangle_plus_its_reshaped_transpose",
       [](Builder& b) {
         const Value x = parameter(b, {5, 7}), y = parameter(b, {7, 5});
         return std::vector{x, y, b.binary(Op::add, b.transpose(x, {1, 0}), y)};
       },
       "5 7 | 0 1 | 1 0 | 1 0"},
      {"irregular_reshape_has_its_own",
       [](Builder& b) {
         const Value x = parameter(b, {6, 4}), other = b.reshape(x, {8, 3});
         return std::vector{x, sum(b, x, {1}), other, sum(b, other, {1})};
       },
       "6 4 8 3 | 0 1 | 0 | 2 3 | 2"},
      {"irregular_part_spoils_only_itself",
       [](Builder& b) {
         const Value x = parameter(b, {10, 6, 4});
         return std::vector{x, b.reshape(x, {10, 8, 3})};
       },
       "10 24 24 | 0 1 | 0 2"},
      {"slice",
       [](Builder& b) {
         const Value x = parameter(b, {10, 20});
         return std::vector{x, b.slice(x, {0, 3}, {10, 8})};
       },
       "10 20 5 | 0 1 | 0 2"},
      {"slice_with_a_step",
       [](Builder& b) {
         const Value x = parameter(b, {10, 20});
         return std::vector{x, b.slice(x, {0, 0}, {10, 20}, {2, 1})};
       },
       "10 20 5 | 0 1 | 2 1"},
      {"padding_that_keeps_the_extent_shifts",
       [](Builder& b) {
         const Value x = parameter(b, {10, 20});
         return std::vector{x, b.pad(x, b.scalar(DType::f32, 0), {0, 1}, {0, -1})};
       },
       "10 20 20 | 0 1 | 0 2"},
      {"concatenate",
       [](Builder& b) {
         const Value x = parameter(b, {10, 3}), y = parameter(b, {10, 5});
         return std::vector{x, y, b.concatenate({x, y}, 1)};
       },
       "10 3 5 8 | 0 1 | 0 2 | 0 3"},
      {"reverse",
       [](Builder& b) {
         const Value x = parameter(b, {4, 6});
         return std::vector{x, b.reverse(x, {1})};
       },
       "4 6 6 | 0 1 | 0 2"},
      {"gather",
       [](Builder& b) {
         const Value table = parameter(b, {500, 96}), at = b.parameter(DType::s32, {300, 1});
         return std::vector{table, at, b.add(Op::gather, {table, at}, row_gather(96))};
       },
       "500 96 300 | 0 1 | 2 | 2 1"},
      {"update",
       [](Builder& b) {
         const Value cache = parameter(b, {16, 2048, 64}), token = parameter(b, {16, 1, 64});
         const Value at = b.parameter(DType::s32, {}), zero = b.scalar(DType::s32, 0);
         return std::vector{cache, token,
                            b.add(Op::dynamic_update_slice, {cache, token, zero, at, zero}, graph::UpdateAttributes{})};
       },
       "16 2048 64 | 0 1 2 | 0 2 | 0 1 2"},
      {"scan_keeps_the_shape",
       [](Builder& b) {
         const Value x = parameter(b, {4, 6});
         return std::vector{x, b.add(Op::scan, {x}, graph::ScanAttributes{ReduceKind::sum, 1, false, false})};
       },
       "4 6 | 0 1 | 0 1"},
  };
}

class AxesOf : public testing::TestWithParam<Example> {};

TEST_P(AxesOf, Values) {
  Builder b;
  const std::vector<Value> values = GetParam().values(b);
  const Graph graph = finished(b, {values.begin() + 1, values.end()});
  EXPECT_EQ(to_text(AxisAnalysis(graph), values), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(Graphs, AxesOf, testing::ValuesIn(examples()),
                         [](const auto& each) { return each.param.name; });

TEST(AxisAnalysis, DimensionsNameTheirOwnAxes) {
  Builder b;
  const Value x = parameter(b, {1024, 768}), heads = b.reshape(x, {8, 128, 12, 64});
  const Value turned = b.transpose(heads, {0, 2, 1, 3});
  const Graph graph = finished(b, {turned});
  const AxisAnalysis analysis(graph);
  EXPECT_EQ(analysis.of(x, 0), (std::vector{0, 1}));
  EXPECT_EQ(analysis.of(x, 1), (std::vector{2, 3}));
  EXPECT_EQ(analysis.of(turned, 1), std::vector{2});
  EXPECT_EQ(analysis.of(turned, 2), std::vector{1});
}

TEST(AxisAnalysis, SlabsAreAnAxisOfTheirOwn) {
  Builder b;
  const Value x = parameter(b, {6, 5, 256});
  const Value flat = b.reshape(x, {30, 256}), sums = sum(b, flat, {0});
  const Value scaled = b.binary(Op::multiply, flat, b.broadcast(sums, {30, 256}, {1}));
  const Graph graph = finished(b, {scaled});
  ASSERT_EQ(AxisAnalysis(graph).axes(), (std::vector<Axis>{{30}, {256}}));
  EXPECT_EQ(AxisAnalysis(graph).slab_axis(), -1);
  const AxisAnalysis columns(graph, {x, 2, 8});
  ASSERT_EQ(columns.axes(), (std::vector<Axis>{{30}, {8}, {32}})) << "8 stays, although nothing tells it from 32";
  EXPECT_EQ(columns.slab_axis(), 1);
  for (const Value value : {x, scaled}) EXPECT_EQ(columns.of(value), (std::vector{0, 1, 2}));
  EXPECT_EQ(columns.of(sums), (std::vector{1, 2}));
  const AxisAnalysis rows(graph, {x, 0, 3});
  ASSERT_EQ(rows.axes(), (std::vector<Axis>{{3}, {10}, {256}}));
  EXPECT_EQ(rows.slab_axis(), 0);
  for (const Slabs& none : {Slabs{x, 2, 3}, Slabs{x, 3, 2}, Slabs{x, -1, 2}, Slabs{x, 2, 1}})
    EXPECT_EQ(AxisAnalysis(graph, none).slab_axis(), -1);
}

TEST(AxisAnalysis, ReducedAxesAreThoseOfTheReducedDimensions) {
  Builder b;
  const Value x = parameter(b, {6, 5, 4, 7}), y = b.parameter(DType::f32, {6, 20, 7});
  const Value outer = sum(b, x, {0, 3}), middle = sum(b, y, {1});
  const Value joined = b.binary(Op::add, b.reshape(x, {6, 20, 7}), y);
  const Value top = b.add(Op::arg_reduce, {joined}, graph::ArgReduceAttributes{ReduceKind::max, 2, DType::s32, false});
  const Value scan = b.add(Op::scan, {joined}, graph::ScanAttributes{ReduceKind::sum, 0, false, false});
  const Graph graph = finished(b, {outer, middle, top, scan});
  const AxisAnalysis analysis(graph);  // 6, 5·4 and 7: nothing tells 5 from 4
  ASSERT_EQ(analysis.axes(), (std::vector<Axis>{{6}, {20}, {7}}));
  EXPECT_EQ(analysis.reduced(outer.node), (std::vector{0, 2}));
  EXPECT_EQ(analysis.reduced(middle.node), std::vector{1});
  EXPECT_EQ(analysis.reduced(top.node), std::vector{2});
  EXPECT_EQ(analysis.reduced(scan.node), std::vector{0});
  EXPECT_TRUE(analysis.reduced(joined.node).empty());
}

// Sums of rows meet a scan of sums of columns: the scan has axes of its own, and goes along those.
TEST(AxisAnalysis, AScanGoesAlongTheAxesOfItsResults) {
  Builder b;
  const Value x = parameter(b, {3, 3}), rows = sum(b, x, {1});
  const Value scan = b.add(Op::scan, {sum(b, x, {0})}, graph::ScanAttributes{ReduceKind::sum, 0, false, false});
  const Graph graph = finished(b, {b.binary(Op::add, rows, scan)});
  const AxisAnalysis analysis(graph);
  EXPECT_NE(analysis.of(scan), analysis.of(graph.node(scan.node).operands[0]));
  EXPECT_EQ(analysis.reduced(scan.node), analysis.of(scan));
}

// ---- square iteration spaces --------------------------------------------------------------------------------------

/// No value has one axis in two places: its iteration space would be its diagonal.
void expect_consistent(const Graph& graph) {
  const AxisAnalysis analysis(graph);
  std::set<int> used;
  for (NodeId id = 0; id < graph.size(); ++id) {
    for (std::int32_t r = 0; r < std::ssize(graph.node(id).results); ++r) {
      const std::vector<int> axes = analysis.of(Value{id, r});
      std::int64_t elements = 1;
      for (const int axis : axes) elements *= analysis.axes()[axis].extent;
      EXPECT_EQ(elements, graph.type({id, r}).elements()) << "%" << id;
      EXPECT_EQ(std::set<int>(axes.begin(), axes.end()).size(), axes.size()) << "%" << id;
      used.insert(axes.begin(), axes.end());
    }
  }
  EXPECT_EQ(used.size(), analysis.axes().size());
}

TEST(SquareAxes, MatrixPlusItsTransposeKeepsTwo) {
  Builder b;
  const Value x = parameter(b, {6, 6}), turned = b.transpose(x, {1, 0});
  const Value both = b.binary(Op::add, x, turned);
  const Graph graph = finished(b, {both});
  expect_consistent(graph);
  const AxisAnalysis analysis(graph);
  EXPECT_EQ(analysis.of(both).size(), 2U);
}

TEST(SquareAxes, DistancesBetweenAllPairs) {
  // x[i] - x[j], with row sums: one vector along both dimensions.
  Builder b;
  const Value x = parameter(b, {50});
  const Value difference = b.binary(Op::subtract, b.broadcast(x, {50, 50}, {0}), b.broadcast(x, {50, 50}, {1}));
  const Value rows = sum(b, difference, {1});
  const Graph graph = finished(b, {rows});
  expect_consistent(graph);
  const AxisAnalysis analysis(graph);
  EXPECT_EQ(analysis.of(difference).size(), 2U);
  EXPECT_EQ(analysis.reduced(rows.node), std::vector{analysis.of(difference)[1]});
}

TEST(SquareAxes, CausalMaskOfOneCounter) {
  Builder b;
  const Value x = parameter(b, {4, 50, 50}), counter = b.iota(DType::s32, {50}, 0);
  const Value mask =
      b.compare(graph::Comparison::ge, b.broadcast(counter, {4, 50, 50}, {1}), b.broadcast(counter, {4, 50, 50}, {2}));
  const Value masked = b.select(mask, x, b.filled(DType::f32, {4, 50, 50}, -1e9));
  const Value rows = sum(b, masked, {2});
  const Graph graph = finished(b, {rows});
  expect_consistent(graph);
  const AxisAnalysis analysis(graph);
  EXPECT_EQ(analysis.of(masked), analysis.of(x));
  EXPECT_EQ(analysis.reduced(rows.node), std::vector{analysis.of(x).back()});
}

class RandomAxes : public testing::TestWithParam<int> {};

TEST_P(RandomAxes, CoverEveryValueOnce) {
  graph::test::RandomGraphOptions options;
  options.seed = GetParam();
  options.operators = 40;
  options.scan = options.arg_reduce = options.reduce_window = options.scatter = 1;
  options.most_extent = GetParam() % 2 == 0 ? 3 : 9;  // equal extents make squares
  expect_consistent(graph::test::random_graph(options));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomAxes, testing::Range(1, 41));

}  // namespace
}  // namespace stitch::kernel::test
