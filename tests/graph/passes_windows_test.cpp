// Select-and-scatter by the place that each window selects.
#include <gtest/gtest.h>

#include <limits>

#include "graph/literal.h"
#include "graph/passes/windows.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using testing::expect_equal_tensors;
using testing::expect_rewrites;
using testing::expect_same_values;
using testing::made;
using testing::MakeGraph;
using testing::run_pass;
using Values = std::vector<Value>;

struct Pooling {
  std::string name;
  DType dtype = DType::f32;
  Dims dims;     ///< of x
  Dims windows;  ///< how many there are
  SelectAndScatterAttributes attributes;
};

MakeGraph gradient(const Pooling& pooling) {
  return [=](Builder& b) {
    const Value x = b.parameter(pooling.dtype, pooling.dims), source = b.parameter(pooling.dtype, pooling.windows);
    return Values{b.add(Op::select_and_scatter, {x, source}, pooling.attributes)};
  };
}

Pooling rows(std::string name, DType dtype, ReduceKind select, std::int64_t extent, std::int64_t count,
             std::int64_t size, std::int64_t stride, std::int64_t low = 0, std::int64_t high = 0) {
  return {std::move(name), dtype, {3, extent}, {3, count}, {select, {1, size}, {1, stride}, {0, low}, {0, high}}};
}

const Pooling images = {"3×3 of images in NHWC",
                        DType::f32,
                        {2, 9, 9, 4},
                        {2, 4, 4, 4},
                        {ReduceKind::max, {1, 3, 3, 1}, {1, 2, 2, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}}};

bool selects_and_scatters(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return node.op == Op::select_and_scatter; });
}

TEST(PassesWindows, OverlappingWindowsSelectOnce) {
  const Pooling cases[] = {
      images,
      rows("stride 2", DType::f32, ReduceKind::max, 11, 5, 3, 2),
      rows("stride 1", DType::s32, ReduceKind::max, 8, 6, 3, 1),
      rows("the smallest", DType::bf16, ReduceKind::min, 11, 5, 3, 2),
      rows("a rest behind the last window", DType::f64, ReduceKind::min, 12, 5, 3, 2),
  };
  for (const Pooling& pooling : cases) {
    const Graph before = made(gradient(pooling));
    const Graph after = run_pass(simplify_windows, before, {}, pooling.name);
    EXPECT_FALSE(selects_and_scatters(after)) << pooling.name;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) expect_same_values(before, after, seed, 0, pooling.name);
  }
}

// Among equals the first is selected, and NaN before any number.
TEST(PassesWindows, EqualsAndSpecialValues) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const ReduceKind select : {ReduceKind::max, ReduceKind::min}) {
    const Pooling pooling = rows("special values", DType::f32, select, 11, 5, 3, 2);
    const Graph before = made(gradient(pooling)), after = run_pass(simplify_windows, before, {}, pooling.name);
    Tensor x = Tensor::zeros({DType::f32, pooling.dims}), source = Tensor::zeros({DType::f32, pooling.windows});
    x.floats = {
        1,    1,    1,    0,   1,    1,    0,   2,   2,    2, 0,     // equals
        nan,  1,    nan,  2,   nan,  nan,  3,   1,   nan,  0, 1,     // NaN
        -inf, -inf, -inf, inf, -inf, -inf, inf, inf, -0.0, 0, -0.0,  // infinities, zeros
    };
    for (std::size_t i = 0; i < source.floats.size(); ++i) source.floats[i] = static_cast<double>(i + 1);
    const std::vector<Tensor> arguments = {x, source};
    const auto expected = evaluate(before, arguments), actual = evaluate(after, arguments);
    ASSERT_TRUE(expected.ok() && actual.ok());
    expect_equal_tensors((*expected)[0], (*actual)[0], 0, std::string(to_string(select)));
  }
}

TEST(PassesWindows, OthersStay) {
  expect_rewrites(simplify_windows, {
                                        {"side by side", gradient(rows("", DType::f32, ReduceKind::max, 12, 6, 2, 2))},
                                        {"padded", gradient(rows("", DType::f32, ReduceKind::max, 10, 5, 3, 2, 1, 0))},
                                        {"too large", gradient(rows("", DType::f32, ReduceKind::max, 100, 18, 65, 2))},
                                    });
}

}  // namespace
}  // namespace stitch::graph
