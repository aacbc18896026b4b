#include "kernel/rewrite/tiled_variance.h"

#include <algorithm>

#include "graph/reference/evaluate.h"
#include "tests/graph/pass_case.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

/// Mean and Σ (x − mean)² of `reduced`, and x normalised by them, as frameworks write it.
Graph standardised(const Dims& dims, const Dims& reduced, DType dtype = DType::f32, std::int64_t divisor = 0) {
  Builder b;
  const Value gain = b.parameter(dtype, {}), x = b.parameter(dtype, dims);
  Dims kept, mapping;
  std::int64_t row = 1;
  for (std::int64_t d = 0; d < std::ssize(dims); ++d) {
    const std::int64_t extent = dims[d];
    if (std::ranges::find(reduced, d) != reduced.end()) {
      row *= extent;
    } else {
      kept.push_back(extent);
      mapping.push_back(d);
    }
  }
  const double share = 1.0 / static_cast<double>(divisor > 0 ? divisor : row);
  const Value sum = b.reduce(ReduceKind::sum, x, reduced);
  const Value mean = b.binary(Op::multiply, sum, b.filled(dtype, kept, share));
  const Value centred = b.binary(Op::subtract, x, b.broadcast(mean, dims, mapping));
  const Value squares = b.reduce(ReduceKind::sum, b.binary(Op::multiply, centred, centred), reduced);
  const Value scale = b.unary(Op::rsqrt, b.binary(Op::multiply, squares, b.filled(dtype, kept, share)));
  const Value normal = b.binary(Op::multiply, centred, b.broadcast(scale, dims, mapping));
  return finished(b, {b.binary(Op::multiply, normal, b.broadcast(gain, dims, {})), squares, mean});
}

struct Case {
  const char* name;
  Dims dims, reduced;
  int sums;  ///< reductions afterwards; 0: left alone
};

TEST(TiledVariance, SplitsRowsThatAreLongerThanATile) {
  const std::vector<Case> cases = {
      {"contiguous", {3, 9000}, {1}, 4},
      {"columns", {2000, 48}, {0}, 4},
      {"channels first", {6, 3, 40, 50}, {0, 2, 3}, 4},
      {"channels last", {8, 20, 30, 16}, {0, 1, 2}, 4},
      {"everything", {96, 128}, {0, 1}, 4},
      {"between two that are kept", {3, 1500, 7}, {1}, 4},
      {"a unit dimension behind", {5000, 4, 1}, {0}, 4},
      {"short", {64, 1024}, {1}, 0},
      {"short columns", {512, 64}, {0}, 0},
      {"a prime", {2, 65537}, {1}, 0},
      {"no good divisor", {2 * 3 * 1009, 16}, {0}, 0},
  };
  for (const Case& c : cases) {
    const Graph before = standardised(c.dims, c.reduced);
    const auto after = tile_variances(before);
    ASSERT_EQ(after.has_value(), c.sums > 0) << c.name;
    if (!after) continue;
    ASSERT_TRUE(graph::verify(*after).ok()) << c.name << ": " << graph::verify(*after).error().message;
    EXPECT_EQ(std::ranges::count_if(after->nodes(), [](const graph::Node& n) { return n.op == Op::reduce; }), c.sums)
        << c.name;
    ASSERT_EQ(after->parameters().size(), 2U);
    EXPECT_EQ(after->node(after->parameters()[1]).type().dims, c.dims) << "the order of the parameters";
    graph::test::expect_same_values(before, *after, 7, 1e-6, c.name);
    EXPECT_FALSE(tile_variances(*after)) << c.name << ": the tiles' own variances are short";
  }
}

TEST(TiledVariance, HoldsForAnyValueMadeOfTheSum) {
  // Divided by one less, or by something else altogether: what is subtracted is not the mean.
  for (const std::int64_t divisor : {8999, 100}) {
    const Graph before = standardised({3, 9000}, {1}, DType::f32, divisor);
    const auto after = tile_variances(before);
    ASSERT_TRUE(after);
    graph::test::expect_same_values(before, *after, 3, 1e-6, fmt::format("divided by {}", divisor));
  }
}

TEST(TiledVariance, LeavesAloneWhatOnePassTakesAnyway) {
  EXPECT_FALSE(tile_variances(softmax(4, 9000)));
  Builder b;
  const Dims dims = {4, 9000};
  const Value x = b.parameter(DType::f32, dims), c = b.parameter(DType::f32, {4});
  const Value apart = b.binary(Op::subtract, x, b.broadcast(c, dims, {0}));
  const Value squares = b.reduce(ReduceKind::sum, b.binary(Op::multiply, apart, apart), {1});
  EXPECT_FALSE(tile_variances(finished(b, {squares, b.reduce(ReduceKind::sum, x, {1})}))) << "c is there beforehand";
  EXPECT_FALSE(tile_variances(standardised({3, 9000}, {1}, DType::bf16))) << "a tile's results would be rounded";
  EXPECT_TRUE(tile_variances(standardised({3, 9000}, {1}, DType::f64)));
}

// What the sum of squares less the square of the sum would lose altogether.
TEST(TiledVariance, IsAccurateFarFromZero) {
  const Dims dims = {1, 16384};
  const Graph before = standardised(dims, {1});
  const auto after = tile_variances(before);
  ASSERT_TRUE(after);
  std::vector<graph::Tensor> arguments = graph::test::random_arguments(before, 5);
  for (double& value : arguments[1].floats) value = static_cast<float>(3000 + value);
  graph::EvaluateOptions rounded;
  rounded.round = true;
  const auto exact = graph::evaluate(before, arguments), tiled = graph::evaluate(*after, arguments, rounded);
  ASSERT_TRUE(exact && tiled);
  EXPECT_NEAR((*tiled)[1].floats[0] / (*exact)[1].floats[0], 1, 1e-4);
}

}  // namespace
}  // namespace stitch::kernel::test
