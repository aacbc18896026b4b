// Scatters whose updates are sorted by where they go, on the emulated device.

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "graph/builder.h"
#include "kernel/rewrite/sorted_updates.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

enum class Where : std::uint8_t { anywhere, one_place, once, nowhere };

/// What a warp looks for: the updates of one row or of several, of one element, or of one or several for each lane.
enum class Way : std::uint8_t { row_by_warp, rows_by_warp, element_by_warp, elements_by_lane, several_by_lane };

struct Sorted {
  std::string name;
  std::int64_t rows, count, columns, line;
  DType dtype = DType::f32;
  ReduceKind combiner = ReduceKind::sum;
  Where where = Where::anywhere;

  [[nodiscard]] std::vector<Way> ways() const {
    if (columns == 1) {
      std::vector<Way> all = {Way::element_by_warp, Way::elements_by_lane};
      if (rows > 64) all.push_back(Way::several_by_lane);
      return all;
    }
    return rows >= 128 ? std::vector{Way::row_by_warp, Way::rows_by_warp} : std::vector{Way::row_by_warp};
  }
};
void PrintTo(const Sorted& each, std::ostream* out) { *out << each.name; }

graph::ScatterAttributes row_scatter(ReduceKind combiner, std::int64_t places = 1, bool windows = true) {
  graph::ScatterAttributes a;
  if (windows) a.update_window_dims = {1};
  for (std::int64_t d = 0; d < places; ++d) {
    a.inserted_window_dims.push_back(d);
    a.scatter_dims_to_operand_dims.push_back(d);
  }
  a.index_vector_dim = 1;
  a.combiner = combiner;
  return a;
}

Graph scatter_of(const Sorted& each) {
  Builder b;
  const Value table = b.parameter(each.dtype, {each.rows, each.columns}), at = b.parameter(DType::s32, {each.count, 1});
  const Value updates = b.parameter(each.dtype, {each.count, each.columns});
  return std::move(*b.finish({b.add(Op::scatter, {table, at, updates}, row_scatter(each.combiner))}));
}

/// Numbers of all sizes, so that sums show the order of their terms.
Bytes uneven(DType dtype, std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = std::ldexp(random.uniform() - 0.5, static_cast<int>(random.below(12)));
  return bytes_of(dtype, values);
}

Bytes places_of(const Sorted& each) {
  Random random(3);
  std::vector<double> values(each.count);
  for (std::int64_t i = 0; i < each.count; ++i) {
    switch (each.where) {
      case Where::anywhere: values[i] = static_cast<double>(random.below(each.rows + 4)) - 2; break;  // some outside
      case Where::one_place: values[i] = static_cast<double>(each.rows / 2); break;
      case Where::once: values[i] = static_cast<double>(i * 7 % each.rows); break;
      case Where::nowhere: values[i] = static_cast<double>(i % 2 == 0 ? -1 - i : each.rows + i); break;
    }
  }
  return bytes_of(DType::s32, values);
}

std::vector<Bytes> inputs_of(const Sorted& each) {
  return {uneven(each.dtype, each.rows * each.columns, 1), places_of(each),
          uneven(each.dtype, each.count * each.columns, 2)};
}

/// Two phases, of which the second searches so.
Wish searches(Way way) {
  return [way](const kernel::KernelProgram& p) {
    if (p.phases.size() != 2) return false;
    const kernel::GroupProgram& group = p.phases[1].groups[0];
    const kernel::Anchor& anchor = group.structure.anchors[0];
    std::int64_t lanes = 1, registers = 1, beside = 1;
    for (const int a : group.structure.program->at(anchor.items[1]).axes - anchor.reduced) {
      lanes *= group.extent(a, kernel::Level::lane);
      registers *= group.extent(a, kernel::Level::reg);
    }
    for (const int a : anchor.reduced) beside *= group.extent(a, kernel::Level::lane);
    switch (way) {
      case Way::row_by_warp: return lanes == 1 && registers == 1 && beside == 1;
      case Way::rows_by_warp: return lanes == 1 && registers > 1;
      case Way::element_by_warp: return beside == 32;
      case Way::elements_by_lane: return lanes == 32 && registers == 1;
      case Way::several_by_lane: return lanes == 32 && registers > 1;
    }
    return false;
  };
}

/// Of each group more than the mapping that has most blocks.
const search::StitchOptions every_mapping{.keep = 100'000, .wide = true, .combinations = 100};

class SortedUpdatesEmulated : public testing::TestWithParam<Sorted> {};

// To the bit what they are where every element tests every update, in whatever order blocks start.
TEST_P(SortedUpdatesEmulated, AreCombinedInTheirOrder) {
  const Sorted& each = GetParam();
  Graph graph = scatter_of(each);
  graph.constraints.deterministic = true;
  const auto sorted = kernel::sort_updates(graph, each.line);
  ASSERT_TRUE(sorted);
  const std::vector<Bytes> inputs = inputs_of(each);
  const Bytes wanted = run(make_case(graph), inputs).results[0];
  for (const Way way : each.ways()) {
    SCOPED_TRACE(static_cast<int>(way));
    const KernelCase found = make_case(*sorted, searches(way), every_mapping);
    expect_right(found, inputs, graph);
    for (std::uint64_t seed = 1; seed <= 3; ++seed)
      EXPECT_EQ(run(found, inputs, {.host_threads = 1, .shuffle_seed = seed}).results[0], wanted) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, SortedUpdatesEmulated,
    testing::Values(Sorted{"rows", 700, 3000, 24, 256}, Sorted{"few_rows", 5, 3000, 24, 256},
                    Sorted{"many_rows", 9000, 300, 4, 256}, Sorted{"long_rows", 70, 400, 300, 512},
                    Sorted{"more_lines_than_lanes", 300, 9000, 8, 256}, Sorted{"one_line", 300, 1024, 24, 8192},
                    Sorted{"single_elements", 700, 3000, 1, 1024}, Sorted{"few_single_elements", 5, 3000, 1, 256},
                    Sorted{"single_elements_of_f64", 700, 1000, 1, 1024, DType::f64},
                    Sorted{"bf16", 300, 1000, 24, 256, DType::bf16}, Sorted{"f16", 300, 1000, 1, 256, DType::f16},
                    Sorted{"f64", 300, 1000, 6, 256, DType::f64}, Sorted{"s32", 300, 1000, 6, 256, DType::s32},
                    Sorted{"the_last", 300, 1000, 6, 256, DType::f32, ReduceKind::replace},
                    Sorted{"products", 300, 400, 6, 256, DType::f32, ReduceKind::product},
                    Sorted{"maxima", 300, 1000, 1, 256, DType::f32, ReduceKind::max},
                    Sorted{"all_to_one_row", 300, 1000, 24, 256, DType::f32, ReduceKind::sum, Where::one_place},
                    Sorted{"all_to_one_element", 300, 1000, 1, 256, DType::f32, ReduceKind::sum, Where::one_place},
                    Sorted{"each_once", 1000, 1000, 24, 256, DType::f32, ReduceKind::sum, Where::once},
                    Sorted{"none_inside", 300, 1000, 24, 256, DType::f32, ReduceKind::sum, Where::nowhere},
                    Sorted{"no_element_inside", 300, 1000, 1, 256, DType::f32, ReduceKind::sum, Where::nowhere}),
    [](const auto& row) { return row.param.name; });

/// What a graph gives with its updates sorted is what it gives without, whatever blocks do first.
void expect_sorted_is_right(const Graph& graph, const std::vector<Bytes>& inputs, std::size_t phases) {
  const auto sorted = kernel::sort_updates(graph, 256);
  ASSERT_TRUE(sorted);
  const KernelCase each = make_case(*sorted, [&](const kernel::KernelProgram& p) { return p.phases.size() == phases; });
  expect_right(each, inputs, graph);
}

// Sums of segments whose numbers are in no order.
TEST(SortedUpdateKernelsEmulated, SumSegments) {
  Builder b;
  const Value x = b.parameter(DType::f32, {2000}), segments = b.parameter(DType::s32, {2000, 1});
  const Graph graph = std::move(*b.finish(
      {b.add(Op::scatter, {b.filled(DType::f32, {50}, 0), segments, x}, row_scatter(ReduceKind::sum, 1, false))}));
  expect_sorted_is_right(graph, {uneven(DType::f32, 2000, 1), places_of({"", 50, 2000, 1, 256})}, 2);
}

// A warp's lanes agree on their places without what sm_80 has for it.
TEST(SortedUpdateKernelsEmulated, RunOnATuringGpu) {
  const Sorted each{"", 70, 900, 1, 256};
  const Graph graph = scatter_of(each);
  const auto sorted = kernel::sort_updates(graph, each.line);
  ASSERT_TRUE(sorted);
  for (const Way way : {Way::elements_by_lane, Way::several_by_lane}) {
    KernelCase found = make_case(*sorted, searches(way), every_mapping);
    EXPECT_NE(found.kernel.source.find("lowest_of_warp"), std::string::npos) << found.kernel.source;
    found.architecture = "sm_75";
    expect_right(found, inputs_of(each), graph);
  }
}

// An embedding's gradient: what is scattered is computed where it is found, and what comes of it is used.
TEST(SortedUpdateKernelsEmulated, ComputeWhatTheyScatter) {
  Builder b;
  const Value dy = b.parameter(DType::bf16, {8, 64, 40}), tokens = b.parameter(DType::s32, {8, 64, 1});
  const Value scale = b.parameter(DType::f32, {8, 64});
  const Value updates = b.binary(Op::multiply, b.convert(dy, DType::f32), b.broadcast(scale, {8, 64, 40}, {0, 1}));
  graph::ScatterAttributes a = row_scatter(ReduceKind::sum);
  a.update_window_dims = {2};
  a.index_vector_dim = 2;
  const Value sum = b.add(Op::scatter, {b.filled(DType::f32, {90, 40}, 0), tokens, updates}, a);
  const Graph graph = std::move(*b.finish({b.unary(Op::tanh, sum)}));
  expect_sorted_is_right(
      graph, {uneven(DType::bf16, 512 * 40, 1), places_of({"", 90, 512, 1, 256}), uneven(DType::f32, 512, 2)}, 3);
}

// Places by two indices: the rows of places that the runs are combined for go back to their dimensions in a phase of
// their own.
TEST(SortedUpdateKernelsEmulated, NumberPlacesOfSeveralDimensions) {
  for (const DType index : {DType::s32, DType::s64}) {
    Builder b;
    const Value table = b.parameter(DType::f32, {30, 20, 3}), at = b.parameter(index, {700, 2});
    const Value updates = b.parameter(DType::f32, {700, 3});
    const Graph graph =
        std::move(*b.finish({b.add(Op::scatter, {table, at, updates}, row_scatter(ReduceKind::sum, 2))}));
    Random random(9);
    std::vector<double> places(1400);
    for (double& place : places) place = static_cast<double>(random.below(34)) - 2;
    expect_sorted_is_right(graph, {uneven(DType::f32, 1800, 1), bytes_of(index, places), uneven(DType::f32, 2100, 2)},
                           3);
  }
}

// A single place is a thread's work.
TEST(SortedUpdateKernelsEmulated, GoToASinglePlace) {
  Builder b;
  const Value table = b.parameter(DType::f32, {1}), at = b.parameter(DType::s32, {300, 1});
  const Value x = b.parameter(DType::f32, {300});
  const Graph graph =
      std::move(*b.finish({b.add(Op::scatter, {table, at, x}, row_scatter(ReduceKind::sum, 1, false))}));
  expect_sorted_is_right(graph, {uneven(DType::f32, 1, 1), places_of({"", 1, 300, 1, 256}), uneven(DType::f32, 300, 2)},
                         2);
}

// Indices that a model sorts itself, from below the first place to behind the last, for parts of rows.
TEST(SortedUpdateKernelsEmulated, MayBeSortedByTheGraph) {
  for (const DType index : {DType::s32, DType::s64}) {
    Builder b;
    const Value table = b.parameter(DType::f32, {60, 50}), keys = b.parameter(index, {4, 200});
    const Value x = b.parameter(DType::f32, {800, 40});
    const Value order = b.add(Op::sort, {keys}, graph::SortAttributes{1, false, 200});
    const Value sum = b.add(Op::scatter, {table, b.reshape(order, {800, 1}), x}, row_scatter(ReduceKind::sum));
    const KernelCase each = make_case(b.finish({sum}));
    EXPECT_NE(each.kernel.source.find("found in sorted lines of 200"), std::string::npos) << each.kernel.source;
    Random random(5);
    std::vector<double> places(800);
    for (double& place : places) place = static_cast<double>(random.below(80)) - 10;
    expect_right(each, {uneven(DType::f32, 3000, 1), bytes_of(index, places), uneven(DType::f32, 32000, 2)});
  }
}

}  // namespace
}  // namespace stitch::codegen::test
