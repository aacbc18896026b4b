#include "kernel/rewrite/tiled_scan.h"

#include <algorithm>

#include "tests/graph/pass_case.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

struct Line {
  std::string name;
  Dims dims;
  std::int64_t dimension = 0;
  std::int64_t tile = 0;  ///< 0: it is left alone
  DType dtype = DType::f32;
  ReduceKind kind = ReduceKind::sum;
  double tolerance = 1e-5;
};

/// The scan of |x|, and the greatest of them, which stays as it is.
Graph scan_of(const Line& line, bool reverse, bool exclusive) {
  Builder b;
  const Value x = b.parameter(line.dtype, line.dims);
  const Value terms = line.dtype == DType::pred ? x : b.unary(Op::abs, x);
  const Value scan = b.add(Op::scan, {terms}, graph::ScanAttributes{line.kind, line.dimension, reverse, exclusive});
  return finished(b, {b.reduce(line.dtype == DType::pred ? ReduceKind::bit_or : ReduceKind::max, terms, {0}), scan});
}

/// Elements of the dimension that the scans of a graph are along, of the one with most elements.
std::int64_t tile_of(const Graph& graph) {
  const graph::Node* largest = nullptr;
  for (const graph::Node& node : graph.nodes()) {
    if (node.op == Op::scan && (largest == nullptr || node.type().elements() > largest->type().elements()))
      largest = &node;
  }
  return largest == nullptr ? 0 : largest->type().dims[largest->as<graph::ScanAttributes>().dimension];
}

std::ptrdiff_t scans(const Graph& graph) {
  return std::ranges::count_if(graph.nodes(), [](const graph::Node& node) { return node.op == Op::scan; });
}

TEST(TiledScan, ComputesTheSame) {
  const Line lines[] = {
      {"rows", {2, 16384}, 1, 1024},
      {"one row", {65536}, 0, 1024},
      {"a row that has no power of two in it", {50257}, 0, 1733},
      {"a vocabulary", {128256}, 0, 768},
      {"columns", {1024, 3}, 0, 128},
      {"the middle one", {2, 4096, 5}, 1, 128},
      {"an extent of one behind it", {3, 16384, 1}, 1, 1024},
      {"f64", {16384}, 0, 1024, DType::f64},
      {"bf16", {16384}, 0, 1024, DType::bf16, ReduceKind::sum, 0.02},
      {"s32, which wraps", {16384}, 0, 1024, DType::s32},
      {"s64", {2048, 8}, 0, 128, DType::s64},
      {"greatest", {16384}, 0, 1024, DType::f32, ReduceKind::max},
      {"greatest of bf16", {16384}, 0, 1024, DType::bf16, ReduceKind::max},
      {"least", {16384}, 0, 1024, DType::s32, ReduceKind::min},
      {"products", {1024, 2}, 0, 128, DType::f32, ReduceKind::product},
      {"any so far", {16384}, 0, 1024, DType::pred, ReduceKind::bit_or},
  };
  for (const Line& line : lines) {
    for (const auto& [reverse, exclusive] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
      const std::string what =
          fmt::format("{}{}{}", line.name, reverse ? ", reverse" : "", exclusive ? ", exclusive" : "");
      const Graph before = scan_of(line, reverse, exclusive);
      const auto after = tile_scans(before);
      ASSERT_TRUE(after) << what;
      ASSERT_TRUE(graph::verify(*after).ok()) << what << ": " << graph::verify(*after).error().message;
      EXPECT_EQ(tile_of(*after), line.tile) << what;
      EXPECT_EQ(scans(*after), 2) << what;
      ASSERT_EQ(after->results().size(), 2U) << what;
      graph::test::expect_same_values(before, *after, 7, line.tolerance, what);
      EXPECT_FALSE(tile_scans(*after)) << what << ": nothing is left to tile";
    }
  }
}

TEST(TiledScan, LeavesAloneWhatItIsNot) {
  const Line lines[] = {
      {"a row that a block walks in a few turns", {4, 8000}, 1},
      {"few rows of columns", {500, 64}, 0},
      {"a prime", {131071}, 0},
      {"twice a prime", {2 * 65537}, 0},
      {"nothing", {0, 16384}, 0},
      {"one element", {1, 1}, 1},
  };
  for (const Line& line : lines) EXPECT_FALSE(tile_scans(scan_of(line, false, false))) << line.name;
  EXPECT_FALSE(tile_scans(layer_norm(4, 16384)));
}

// What a tile begins with is not rounded to the narrow type on its way.
TEST(TiledScan, KeepsTheTotalsOfNarrowFloatsWide) {
  const auto after = tile_scans(scan_of({.name = "bf16", .dims = {16384}, .dtype = DType::bf16}, false, false));
  ASSERT_TRUE(after);
  for (const graph::Node& node : after->nodes()) {
    const bool sum = node.op == Op::reduce && node.as<graph::ReduceAttributes>().kind == ReduceKind::sum;
    if (sum || (node.op == Op::scan && node.as<graph::ScanAttributes>().exclusive)) {
      EXPECT_EQ(node.type().dtype, DType::f32);
    }
  }
}

TEST(TiledScan, TakesSeveralScansOfAKernel) {
  Builder b;
  const Dims dims = {4, 16384};
  const Value x = b.parameter(DType::f32, dims), y = b.parameter(DType::f32, {16, 100});
  const Value sums = b.add(Op::scan, {x}, graph::ScanAttributes{ReduceKind::sum, 1, false, false});
  const Value greatest = b.add(Op::scan, {sums}, graph::ScanAttributes{ReduceKind::max, 1, true, false});
  const Value left = b.add(Op::scan, {y}, graph::ScanAttributes{ReduceKind::sum, 1, false, false});
  const Graph before = finished(b, {b.binary(Op::subtract, greatest, sums), left});
  const auto after = tile_scans(before);
  ASSERT_TRUE(after);
  EXPECT_EQ(scans(*after), 5);
  graph::test::expect_same_values(before, *after, 3, 1e-5, "two of three");
}

}  // namespace
}  // namespace stitch::kernel::test
