#include "kernel/rewrite/sorted_updates.h"

#include <algorithm>

#include "kernel/index/sorted_indices.h"
#include "tests/graph/pass_case.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::ScatterAttributes;

struct Scattering {
  std::string name;
  Dims operand, indices, updates;
  ScatterAttributes attributes;
  std::int64_t line = 256;
  std::int64_t sorted = 256;  ///< the length of its lines
  DType dtype = DType::f32, index = DType::s32;
};

/// Windows behind the others, along the operand's dimensions behind the first `places`.
ScatterAttributes rows_by(std::int64_t places, const Dims& windows, std::int64_t vector,
                          ReduceKind combiner = ReduceKind::sum) {
  ScatterAttributes a;
  a.update_window_dims = windows;
  for (std::int64_t d = 0; d < places; ++d) {
    a.inserted_window_dims.push_back(d);
    a.scatter_dims_to_operand_dims.push_back(d);
  }
  a.index_vector_dim = vector;
  a.combiner = combiner;
  return a;
}

Graph scatter_of(const Scattering& each) {
  Builder b;
  const Value operand = b.parameter(each.dtype, each.operand), updates = b.parameter(each.dtype, each.updates);
  // From -9 on, so that some are outside.
  const Value at = b.parameter(each.index, each.indices);
  const Value last = b.filled(each.index, each.indices, static_cast<double>(each.operand[0] + 2));
  const Value some = b.binary(Op::remainder, at, last);
  return finished(b, {b.add(Op::scatter, {operand, some, updates}, each.attributes)});
}

NodeId scatter_in(const Graph& graph) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op == Op::scatter) return id;
  }
  return -1;
}

ScatterAttributes turned() {
  ScatterAttributes a = rows_by(2, {1}, 1);
  a.scatter_dims_to_operand_dims = {1, 0};
  return a;
}

TEST(SortedUpdates, GiveTheSame) {
  const Scattering cases[] = {
      {"rows", {40, 6}, {1000, 1}, {1000, 6}, rows_by(1, {1}, 1)},
      {"lines that come out even", {40, 6}, {1024, 1}, {1024, 6}, rows_by(1, {1}, 1)},
      {"one line", {40, 6}, {1000, 1}, {1000, 6}, rows_by(1, {1}, 1), 8192, 1024},
      {"rows of one element", {40}, {300, 1}, {300}, rows_by(1, {}, 1)},
      {"no vector", {40, 3}, {300}, {300, 3}, rows_by(1, {1}, 1)},
      {"a batch of sequences", {40, 6}, {4, 100, 1}, {4, 100, 6}, rows_by(1, {2}, 2)},
      {"rows of two dimensions", {9, 2, 3}, {300, 1}, {300, 2, 3}, rows_by(1, {1, 2}, 1)},
      {"places of two dimensions", {9, 7, 3}, {300, 2}, {300, 3}, rows_by(2, {1}, 1)},
      {"places of two dimensions in turn", {9, 7, 3}, {300, 2}, {300, 3}, turned()},
      {"elements", {9, 7}, {20, 30, 2}, {20, 30}, rows_by(2, {}, 2)},
      {"s64 indices", {40, 6}, {300, 1}, {300, 6}, rows_by(1, {1}, 1), 256, 256, DType::f32, DType::s64},
      {"u32 indices", {40, 6}, {300, 1}, {300, 6}, rows_by(1, {1}, 1), 256, 256, DType::f32, DType::u32},
      {"bf16", {40, 6}, {300, 1}, {300, 6}, rows_by(1, {1}, 1), 256, 256, DType::bf16},
      {"the last one", {40, 6}, {300, 1}, {300, 6}, rows_by(1, {1}, 1, ReduceKind::replace)},
      {"products of integers", {40}, {300, 1}, {300}, rows_by(1, {}, 1, ReduceKind::product), 256, 256, DType::s32},
  };
  for (const Scattering& each : cases) {
    const Graph before = scatter_of(each);
    const auto after = sort_updates(before, each.line);
    ASSERT_TRUE(after) << each.name;
    ASSERT_TRUE(graph::verify(*after).ok()) << each.name << ": " << graph::verify(*after).error().message;
    EXPECT_EQ(sorted_line(*after, scatter_in(*after)), each.sorted) << each.name;
    graph::test::expect_same_values(before, *after, 5, 0, each.name);
    EXPECT_FALSE(sort_updates(*after, each.line)) << each.name << ": they are sorted";
  }
}

TEST(SortedUpdates, AreOfManyWholeRowsOnly) {
  ScatterAttributes behind = rows_by(1, {0}, 1), batched = rows_by(1, {1}, 1);
  behind.inserted_window_dims = behind.scatter_dims_to_operand_dims = {1};
  batched.inserted_window_dims = batched.scatter_dims_to_operand_dims = {1};
  batched.input_batching_dims = batched.scatter_indices_batching_dims = {0};
  batched.index_vector_dim = 2;
  batched.update_window_dims = {};
  const Scattering cases[] = {
      {"few", {40, 6}, {100, 1}, {100, 6}, rows_by(1, {1}, 1)},
      {"none", {40, 6}, {0, 1}, {0, 6}, rows_by(1, {1}, 1)},
      {"no elements", {40, 0}, {300, 1}, {300, 0}, rows_by(1, {1}, 1)},
      {"parts of rows", {40, 6}, {300, 1}, {300, 4}, rows_by(1, {1}, 1)},
      {"columns", {6, 40}, {300, 1}, {6, 300}, behind},
      {"batches", {5, 40}, {5, 300, 1}, {5, 300}, batched},
      {"bytes", {40, 6}, {300, 1}, {300, 6}, rows_by(1, {1}, 1), 256, 0, DType::f32, DType::u8},
  };
  for (const Scattering& each : cases) {
    EXPECT_FALSE(sort_updates(scatter_of(each), each.line)) << each.name;
    EXPECT_TRUE(sorted_lines_of(scatter_of(each)).empty()) << each.name;
  }
  EXPECT_FALSE(sort_updates(layer_norm(4, 16384), 256));
}

TEST(SortedUpdates, AreTriedInLongLinesAndInThoseOfAWarp) {
  const auto lines = [](std::int64_t updates) {
    return sorted_lines_of(scatter_of({"", {40, 6}, {updates, 1}, {updates, 6}, rows_by(1, {1}, 1)}));
  };
  using Lines = std::vector<std::int64_t>;
  EXPECT_EQ(lines(200), Lines{256});
  EXPECT_EQ(lines(4096), (Lines{4096, 256}));
  EXPECT_EQ(lines(65536), (Lines{8192, 2048}));
  EXPECT_EQ(lines(1'000'000), Lines{8192});
}

// Ascending along the last dimension, whole, and as the indices themselves.
TEST(SortedIndices, AreThoseThatASortHasPutInOrder) {
  struct Row {
    std::string name;
    std::int64_t dimension = 1;
    bool descending = false;
    std::int64_t count = 512, line = 0;
    bool moved = false;
    DType dtype = DType::s32;
  };
  const Row rows[] = {
      {"lines", 1, false, 512, 512},
      {"s64", 1, false, 512, 512, false, DType::s64},
      {"descending", 1, true},
      {"columns", 0, false, 4},
      {"the first ones", 1, false, 100},
      {"what is computed of them", 1, false, 512, 0, true},
      {"floats in order, converted", 1, false, 512, 0, false, DType::f32},
  };
  for (const Row& row : rows) {
    Builder b;
    const Value keys = b.parameter(row.dtype, {4, 512}), table = b.parameter(DType::f32, {100, 3});
    Value at = b.add(Op::sort, {keys}, graph::SortAttributes{row.dimension, row.descending, row.count});
    if (row.moved) at = b.unary(Op::negate, at);
    if (row.dtype == DType::f32) at = b.convert(at, DType::s32);
    const std::int64_t count = row.dimension == 1 ? 4 * row.count : 4 * 512;
    const Value updates = b.parameter(DType::f32, {count, 3});
    const Graph graph =
        finished(b, {b.add(Op::scatter, {table, b.reshape(at, {count, 1}), updates}, rows_by(1, {1}, 1))});
    EXPECT_EQ(sorted_line(graph, scatter_in(graph)), row.line) << row.name;
  }
}

// As many as a line has for a place, but no fewer than a few and no more than registers are worth.
TEST(SortedIndices, HaveSoManyUpdatesUnderWay) {
  const auto in_flight = [](std::int64_t places, std::int64_t line, std::int64_t elements = 1) {
    const auto sorted = sort_updates(scatter_of({"", {places, 6}, {4096, 1}, {4096, 6}, rows_by(1, {1}, 1)}), line);
    return updates_in_flight(*sorted, scatter_in(*sorted), elements);
  };
  EXPECT_EQ(in_flight(1'000'000, 4096), 4);
  EXPECT_EQ(in_flight(400, 4096), 8);
  EXPECT_EQ(in_flight(400, 256), 4);
  EXPECT_EQ(in_flight(1, 4096), 16);
  EXPECT_EQ(in_flight(1, 4096, 8), 2);
  EXPECT_EQ(in_flight(400, 4096, 24), 1);
}

}  // namespace
}  // namespace stitch::kernel::test
