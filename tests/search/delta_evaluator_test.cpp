#include "search/partition/delta_evaluator.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

constexpr double n = 4 << 16;  ///< bytes of a tensor of the diamond

/// x → a → (b, c) → d; vertices in this order.
Graph diamond() {
  Builder b;
  const Value x = b.parameter(DType::f32, {1 << 16});
  const Value a = b.unary(Op::tanh, x), e = b.unary(Op::exp, a), m = b.unary(Op::negate, a);
  return finished(b, {b.binary(Op::add, e, m)});
}

struct Example {
  std::string name;
  std::function<Graph()> graph;
  std::vector<int> pattern;
  double bytes_saved, launches_saved, phases, bytes_again;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

std::vector<Example> examples() {
  constexpr double rows = 64 * 4, row = 300 * 4, whole = 64 * row;
  const auto soft = [] { return softmax(64, 300); };
  const auto long_soft = [] { return softmax(64, 3000); };
  return {
      {"one", diamond, {1}, 0, 0, 0, 0},
      {"neighbours", diamond, {0, 1}, 4 * n - 3 * n, 1, 0, 0},  // a leaves, since c reads it
      {"siblings_read_once", diamond, {1, 2}, 4 * n - 3 * n, 1, 0, 0},
      {"whole_diamond", diamond, {0, 1, 2, 3}, 9 * n - 2 * n, 3, 0, 0},
      {"unrelated_bytes", diamond, {0, 3}, 0, 1, 0, 0},
      // Vertices: maximum, difference, exp, sum, quotient. Between them go the tensor and its row values.
      {"softmax", soft, {0, 1, 2, 3, 4}, (whole + rows) * 2 + (2 * whole + rows) * 2 + 2 * whole - 2 * whole, 4, 0, 0},
      {"rows_too_long_to_keep",
       long_soft,
       {0, 1, 2, 3, 4},
       (10 * whole + rows) * 2 + (20 * whole + rows) * 2 + 20 * whole - 20 * whole,
       4,
       1,
       10 * whole},
      {"a_reduction_that_only_leaves_costs_no_phase",
       long_soft,
       {2, 3},
       30 * whole + rows - (20 * whole + rows),
       1,
       0,
       0},
      {"a_scan_that_is_used", [] { return scanned(64, 300); }, {0, 1}, 5 * whole - 2 * whole, 1, 1, 0},
  };
}

class DeltaFeatures : public testing::TestWithParam<Example> {};

TEST_P(DeltaFeatures, AreThoseOfAHandCount) {
  const Graph graph = GetParam().graph();
  const VertexGraph vertices(graph);
  const kernel::AxisAnalysis axes(graph);
  DeltaModel model{2, 3, 5, 7, 4096};
  const DeltaEvaluator evaluator(vertices, axes, model);
  VertexSet pattern(vertices.size());
  for (const int v : GetParam().pattern) pattern.insert(v);
  const DeltaEvaluator::Features f = evaluator.features(pattern);
  EXPECT_EQ(f.bytes_saved, GetParam().bytes_saved);
  EXPECT_EQ(f.launches_saved, GetParam().launches_saved);
  EXPECT_EQ(f.phases, GetParam().phases);
  EXPECT_EQ(f.bytes_again, GetParam().bytes_again);
  EXPECT_EQ(f.operators, static_cast<double>(GetParam().pattern.size()));
  EXPECT_EQ(evaluator.gain_us(pattern),
            2 * (f.bytes_saved - f.bytes_again) + 3 * f.launches_saved - 5 * f.phases - 7 * f.operators);
}

INSTANTIATE_TEST_SUITE_P(Patterns, DeltaFeatures, testing::ValuesIn(examples()),
                         [](const auto& each) { return each.param.name; });

TEST(DeltaModel, FollowsFromTheDevice) {
  const DeviceSpec device = *find_device("h100");
  const DeltaModel model = DeltaModel::of(device);
  EXPECT_DOUBLE_EQ(model.us_per_byte * device.copy_bandwidth(), 1.03e6);  // bench/results/delta.md
  EXPECT_GT(model.us_per_launch, 1.2 * device.launch_us);
  EXPECT_EQ(model.us_per_phase, device.grid_barrier_us);
  EXPECT_EQ(model.on_chip_bytes, 8.0 * 227 * 1024);
  EXPECT_EQ(DeltaModel::of(*find_device("a100")).on_chip_bytes, 163.0 * 1024);  // no clusters
}

}  // namespace
}  // namespace stitch::search::test
