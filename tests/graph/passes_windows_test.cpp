// Select-and-scatter by the place that each window selects; large windows in parts.
#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"
#include "graph/literal.h"
#include "graph/passes/windows.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::expect_equal_tensors;
using test::expect_rewrites;
using test::expect_same_values;
using test::made;
using test::MakeGraph;
using test::run_pass;
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

/// Square windows over the two middle dimensions of images in NHWC.
Pooling squares(std::string name, DType dtype, ReduceKind select, std::int64_t extent, std::int64_t size,
                std::int64_t stride, std::int64_t low = 0, std::int64_t high = 0) {
  const std::int64_t count = (extent + low + high - size) / stride + 1;
  return {std::move(name),
          dtype,
          {2, extent, extent, 3},
          {2, count, count, 3},
          {select, {1, size, size, 1}, {1, stride, stride, 1}, {0, low, low, 0}, {0, high, high, 0}}};
}

const Pooling poolings[] = {
    images,
    rows("stride 2", DType::f32, ReduceKind::max, 14, 5, 6, 2),
    rows("stride 1", DType::s32, ReduceKind::max, 10, 6, 5, 1),
    rows("the smallest", DType::bf16, ReduceKind::min, 14, 5, 6, 2),
    rows("a rest behind the last window", DType::f64, ReduceKind::min, 15, 5, 6, 2),
    rows("side by side", DType::f32, ReduceKind::max, 30, 6, 5, 5),
    rows("gaps", DType::f32, ReduceKind::max, 30, 4, 5, 7),
    rows("padded in front", DType::f32, ReduceKind::max, 15, 5, 7, 3, 4, 0),
    rows("padded by more than a window", DType::f32, ReduceKind::max, 10, 9, 5, 3, 13, 6),
    rows("cropped", DType::f32, ReduceKind::max, 20, 5, 5, 3, -2, -1),
    rows("one", DType::f32, ReduceKind::max, 9, 1, 9, 1),
    rows("one, padded", DType::f32, ReduceKind::max, 9, 1, 12, 4, 2, 1),
    rows("long", DType::f32, ReduceKind::max, 70, 4, 37, 11),
    rows("long, side by side", DType::f32, ReduceKind::max, 300, 2, 150, 150),
    rows("scattered", DType::s32, ReduceKind::min, 40, 19, 22, 1),
    rows("scattered, padded", DType::f32, ReduceKind::max, 40, 30, 22, 1, 5, 6),
    squares("5×5", DType::f32, ReduceKind::max, 15, 5, 5),
    squares("5×5, stride 2", DType::f32, ReduceKind::max, 15, 5, 2),
    squares("5×5, stride 2, padded", DType::f32, ReduceKind::max, 14, 5, 2, 2, 2),
    squares("5×5, scattered", DType::f32, ReduceKind::min, 9, 5, 1, 2, 2),
    squares("3×3, padded", DType::f32, ReduceKind::max, 9, 3, 2, 1, 1),
    squares("4×4, side by side, padded", DType::s16, ReduceKind::max, 14, 4, 4, 1, 1),
};

TEST(PassesWindows, WindowsSelectOnce) {
  for (const Pooling& pooling : poolings) {
    const Graph before = made(gradient(pooling));
    const Graph after = run_pass(simplify_windows, before, {}, pooling.name);
    EXPECT_FALSE(selects_and_scatters(after)) << pooling.name;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) expect_same_values(before, after, seed, 0, pooling.name);
  }
}

// Among equals the first is selected, NaN before any number, and padding never.
TEST(PassesWindows, EqualsAndSpecialValues) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const double special[] = {nan, inf, -inf, 0.0, -0.0, 1};
  Random random(5);
  for (Pooling pooling : poolings) {
    if (!is_floating(pooling.dtype)) continue;
    for (const ReduceKind select : {ReduceKind::max, ReduceKind::min}) {
      pooling.attributes.select = select;
      const Graph before = made(gradient(pooling)), after = run_pass(simplify_windows, before, {}, pooling.name);
      for (const std::size_t kinds : {1, 2, 3, 6}) {  // all NaN, then infinities too, …
        Tensor x = Tensor::zeros({pooling.dtype, pooling.dims}),
               source = Tensor::zeros({pooling.dtype, pooling.windows});
        for (double& value : x.floats) value = special[(random.below(kinds) + (kinds < 3 ? 1 : 0)) % 6];
        for (std::size_t i = 0; i < source.floats.size(); ++i) source.floats[i] = static_cast<double>(i % 100 + 1);
        const std::vector<Tensor> arguments = {x, source};
        const auto expected = evaluate(before, arguments), actual = evaluate(after, arguments);
        ASSERT_TRUE(expected.ok() && actual.ok());
        expect_equal_tensors((*expected)[0], (*actual)[0], 0, fmt::format("{} {}", pooling.name, to_string(select)));
      }
    }
  }
}

TEST(PassesWindows, OthersStay) {
  expect_rewrites(simplify_windows, {
                                        {"few elements", gradient(rows("", DType::f32, ReduceKind::max, 12, 6, 2, 2))},
                                        {"no windows", gradient(rows("", DType::f32, ReduceKind::max, 4, 0, 5, 2))},
                                    });
}

struct WindowCase {
  std::string name;
  DType dtype;
  Dims dims;
  ReduceWindowAttributes a;
};

MakeGraph reduced(const WindowCase& each) {
  return [=](Builder& b) { return Values{b.add(Op::reduce_window, {b.parameter(each.dtype, each.dims)}, each.a)}; };
}

ReduceWindowAttributes line(ReduceKind kind, std::int64_t size, std::int64_t stride, std::int64_t low = 0,
                            std::int64_t high = 0, std::int64_t base = 1, std::int64_t dilation = 1) {
  return {kind, {1, size}, {1, stride}, {0, low}, {0, high}, {1, base}, {1, dilation}};
}

ReduceWindowAttributes square(ReduceKind kind, std::int64_t size, std::int64_t stride, std::int64_t low = 0,
                              std::int64_t high = 0) {
  return {kind,         {1, size, size, 1}, {1, stride, stride, 1}, {0, low, low, 0}, {0, high, high, 0},
          {1, 1, 1, 1}, {1, 1, 1, 1}};
}

std::int64_t largest_window(const Graph& graph) {
  std::int64_t largest = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::reduce_window)
      largest = std::max(largest, element_count(node.as<ReduceWindowAttributes>().sizes));
  }
  return largest;
}

TEST(PassesWindows, LargeWindowsAreSplit) {
  const WindowCase cases[] = {
      {"side by side", DType::f32, {3, 200}, line(ReduceKind::max, 50, 50)},
      {"side by side, padded", DType::f32, {3, 190}, line(ReduceKind::sum, 50, 50, 4, 6)},
      {"a rest behind them", DType::s32, {3, 223}, line(ReduceKind::sum, 50, 50)},
      {"the whole extent", DType::f32, {3, 50}, line(ReduceKind::max, 50, 1)},
      {"a common divisor", DType::f32, {3, 200}, line(ReduceKind::sum, 48, 12, 3, 4)},
      {"of both dimensions", DType::f32, {2, 20, 20, 3}, square(ReduceKind::max, 10, 2, 1, 1)},
      {"one dimension after the other", DType::f32, {2, 20, 20, 3}, square(ReduceKind::sum, 7, 1, 3, 3)},
      {"of 16 bits", DType::bf16, {2, 20, 20, 3}, square(ReduceKind::sum, 7, 2, 3, 3)},
      {"of products", DType::f64, {2, 9, 9, 1}, square(ReduceKind::product, 7, 1)},
      {"two levels", DType::f32, {3, 200}, line(ReduceKind::max, 49, 1, 20, 28)},
      {"two levels and a rest", DType::f32, {3, 200}, line(ReduceKind::sum, 53, 1, 20, 32)},
      {"a prime, max", DType::s8, {3, 200}, line(ReduceKind::max, 53, 2, 20, 32)},
      {"a prime, xor", DType::u32, {3, 200}, line(ReduceKind::bit_xor, 53, 3, 20, 32)},
      {"three levels", DType::s32, {2, 4000}, line(ReduceKind::sum, 2003, 5, 1000, 1)},
      {"dilated", DType::f32, {3, 200}, line(ReduceKind::sum, 41, 2, 7, 9, 1, 3)},
      {"of a dilated tensor", DType::f32, {3, 60}, line(ReduceKind::max, 41, 2, 7, 9, 3, 2)},
      {"cropped", DType::f32, {3, 200}, line(ReduceKind::sum, 41, 3, -5, -3)},
      {"wider than the tensor", DType::f32, {3, 20}, line(ReduceKind::sum, 61, 1, 40, 44)},
  };
  for (const WindowCase& each : cases) {
    const Graph before = made(reduced(each));
    const Graph after = run_pass(simplify_windows, before, {}, each.name);
    EXPECT_LE(largest_window(after), 32) << each.name;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) expect_same_values(before, after, seed, 1e-12, each.name);
  }
}

TEST(PassesWindows, SmallWindowsStay) {
  expect_rewrites(simplify_windows,
                  {
                      {"5×5", reduced({"", DType::f32, {2, 20, 20, 3}, square(ReduceKind::max, 5, 1, 2, 2)})},
                      {"2×2", reduced({"", DType::f32, {2, 20, 20, 3}, square(ReduceKind::max, 2, 2)})},
                      {"no windows", reduced({"", DType::f32, {2, 20}, line(ReduceKind::max, 50, 1)})},
                  });
}

}  // namespace
}  // namespace stitch::graph
