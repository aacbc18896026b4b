#include "kernel/index/searched_updates.h"

#include "kernel/index/sorted_indices.h"
#include "kernel/structure/phase_assignment.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::ScatterAttributes;

struct Updates {
  std::string name;
  Dims operand, indices, updates;
  bool searched = true;      ///< beside atomics
  bool in_order = searched;  ///< where the order of floats is fixed
  Dims window = {1};         ///< dimensions of the updates
  std::int64_t along = 0;    ///< dimension of the operand
  DType index = DType::s32;
  ReduceKind combiner = ReduceKind::sum;
};

Graph scatter_of(const Updates& each) {
  Builder b;
  ScatterAttributes a;
  a.update_window_dims = each.window;
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = {each.along};
  a.index_vector_dim = std::ssize(each.indices) - 1;
  a.combiner = each.combiner;
  const Value operand = b.parameter(DType::f32, each.operand), at = b.parameter(each.index, each.indices);
  return finished(b, {b.add(Op::scatter, {operand, at, b.parameter(DType::f32, each.updates)}, a)});
}

TEST(SearchedUpdates, AreOfWholeLongRows) {
  const Updates cases[] = {
      {"edges of a graph", {3264, 128}, {7168, 1}, {7168, 128}},
      {"experts' rows of tokens", {2048, 1024}, {4096, 1}, {4096, 1024}},
      {"s64 indices", {300, 64}, {1000, 1}, {1000, 64}, true, true, {1}, 0, DType::s64},
      {"a batch of sequences", {300, 64}, {10, 100, 1}, {10, 100, 64}, true, true, {2}},
      {"rows of two dimensions", {300, 4, 16}, {1000, 1}, {1000, 4, 16}, true, true, {1, 2}},
      {"columns", {64, 300}, {1000, 1}, {64, 1000}, true, true, {0}, 1},
      {"maxima", {300, 64}, {1000, 1}, {1000, 64}, true, true, {1}, 0, DType::s32, ReduceKind::max},
      {"short rows", {300, 24}, {1000, 1}, {1000, 24}, false},
      {"elements", {300}, {1000, 1}, {1000}, false, false, {}},
      {"parts of rows", {300, 64}, {1000, 1}, {1000, 40}, false},
      {"few updates", {300, 64}, {64, 1}, {64, 64}, false},
      {"u32 indices", {300, 64}, {1000, 1}, {1000, 64}, false, false, {1}, 0, DType::u32},
      {"a vocabulary", {30522, 768}, {4096, 1}, {4096, 768}, false, true},
      {"more than their numbers count", {1 << 20, 64}, {1LL << 31, 1}, {1LL << 31, 64}, false},
      {"many updates of a place", {64, 128}, {3264, 1}, {3264, 128}, false, true},
  };
  for (const Updates& each : cases) {
    Graph graph = scatter_of(each);
    const NodeId scatter = graph.results()[0].node;
    EXPECT_EQ(searched_by_block(graph, scatter), each.searched) << each.name;
    if (each.searched) {
      EXPECT_FALSE(adds_atomically(graph, scatter)) << each.name;
    }
    graph.constraints.deterministic = true;
    EXPECT_EQ(searched_by_block(graph, scatter), each.in_order) << each.name;
  }
}

TEST(SearchedUpdates, AreStoredInTheTypeThatTheyAreConvertedTo) {
  struct Row {
    std::string name;
    DType to;
    bool both = false, twice = false, stored = true;
  };
  for (const Row& row :
       {Row{"bf16", DType::bf16}, Row{"f16", DType::f16}, Row{"wider", DType::f64, false, false, false},
        Row{"no floats", DType::s8, false, false, false},
        Row{"the sum is a result, too", DType::bf16, true, false, false},
        Row{"two users", DType::bf16, false, true, false}}) {
    Builder b;
    ScatterAttributes a;
    a.update_window_dims = {1};
    a.inserted_window_dims = a.scatter_dims_to_operand_dims = {0};
    a.index_vector_dim = 1;
    const Value sum = b.add(
        Op::scatter,
        {b.filled(DType::f32, {300, 64}, 0), b.parameter(DType::s32, {500, 1}), b.parameter(DType::f32, {500, 64})}, a);
    const Value converted = b.convert(sum, row.to);
    std::vector<Value> results = {converted};
    if (row.both) results.push_back(sum);
    if (row.twice) results.push_back(b.unary(Op::tanh, sum));
    const Graph graph = finished(b, results);
    const Value scattered = graph.node(graph.results()[0].node).operands[0];
    ASSERT_EQ(graph.node(scattered.node).op, Op::scatter) << row.name;
    EXPECT_EQ(stored_of_scatter(graph, scattered.node), row.stored ? graph.results()[0] : scattered) << row.name;
  }
}

// What is in sorted lines is found by binary search.
TEST(SearchedUpdates, AreNotSorted) {
  Builder b;
  ScatterAttributes a;
  a.update_window_dims = {1};
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  const Value order = b.add(Op::sort, {b.parameter(DType::s32, {2, 500})}, graph::SortAttributes{1, false, 500});
  const Value at = b.reshape(order, {1000, 1});
  const Graph graph = finished(
      b, {b.add(Op::scatter, {b.filled(DType::f32, {300, 64}, 0), at, b.parameter(DType::f32, {1000, 64})}, a)});
  const NodeId scatter = graph.results()[0].node;
  EXPECT_EQ(sorted_line(graph, scatter), 500);
  EXPECT_FALSE(searched_by_block(graph, scatter));
}

}  // namespace
}  // namespace stitch::kernel::test
