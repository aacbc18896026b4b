// Convolutions that are written out, beside the reference's evaluation of the operator.
#include "graph/passes/convolutions.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "graph/simplify.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph::test {
namespace {

struct Windows {
  std::string name;
  std::int64_t images = 2, features = 3, results = 3;
  Dims extents = {5, 6}, window = {3, 3};
  Dims strides = {1, 1}, low = {1, 1}, high = {1, 1}, input_dilation = {1, 1}, kernel_dilation = {1, 1};
  std::int64_t groups = 3;
  bool features_last = false, reversed = false;
  DType dtype = DType::f32, result = DType::f32;
};
void PrintTo(const Windows& each, std::ostream* out) { *out << each.name; }

Graph graph_of(const Windows& w) {
  const auto rank = std::ssize(w.window);
  ConvolutionAttributes a;
  a.strides = w.strides;
  a.low = w.low;
  a.high = w.high;
  a.input_dilation = w.input_dilation;
  a.kernel_dilation = w.kernel_dilation;
  a.window_reversal.assign(rank, w.reversed);
  a.feature_groups = w.groups;
  a.result = w.result;
  // The result has its features at the other end, so that its order is not the input's.
  a.input_feature = w.features_last ? rank + 1 : 1;
  a.output_feature = w.features_last ? 1 : rank + 1;
  for (std::int64_t s = 0; s < rank; ++s) {
    a.input_spatial.push_back(w.features_last ? s + 1 : s + 2);
    a.output_spatial.push_back(w.features_last ? s + 2 : s + 1);
    a.kernel_spatial.push_back(s + 2);
  }
  Dims input = w.extents, kernel = w.window;
  input.insert(w.features_last ? input.end() : input.begin(), w.features);
  input.insert(input.begin(), w.images);
  kernel.insert(kernel.begin(), {w.results, w.features / w.groups});
  return made([&](Builder& b) {
    const Value x = b.parameter(w.dtype, input), weights = b.parameter(w.dtype, kernel);
    return std::vector<Value>{b.add(Op::convolution, {x, weights}, a)};
  });
}

bool has_convolution(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::convolution) return true;
  }
  return false;
}

class DepthwiseConvolutions : public ::testing::TestWithParam<Windows> {};

TEST_P(DepthwiseConvolutions, AreSumsOfSlices) {
  const Graph before = graph_of(GetParam());
  const Graph after = run_pass(simplify_convolutions, before, {}, GetParam().name);
  EXPECT_FALSE(has_convolution(after));
  const double relative = GetParam().result == DType::f32 ? 2e-6 : 2e-2;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) expect_same_values(before, after, seed, relative, GetParam().name);
  Graph whole = before;
  const auto simplified = simplify(whole);
  ASSERT_TRUE(simplified) << simplified.error().message;
  EXPECT_FALSE(has_convolution(whole));
  expect_same_values(before, whole, 3, relative, GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(
    Of, DepthwiseConvolutions,
    ::testing::Values(
        Windows{.name = "images"}, Windows{.name = "features_last", .features_last = true},
        Windows{.name = "five_by_five", .window = {5, 5}, .low = {2, 2}, .high = {2, 2}},
        Windows{.name = "strided", .strides = {2, 2}, .low = {0, 1}, .high = {1, 1}},
        Windows{.name = "without_padding", .low = {0, 0}, .high = {0, 0}},
        Windows{.name = "dilated", .low = {2, 2}, .high = {2, 2}, .kernel_dilation = {2, 2}},
        Windows{.name = "with_holes", .low = {2, 1}, .high = {1, 2}, .input_dilation = {2, 2}, .reversed = true},
        Windows{.name = "sequence",
                .extents = {9},
                .window = {4},
                .strides = {1},
                .low = {3},
                .high = {0},
                .input_dilation = {1},
                .kernel_dilation = {1}},
        Windows{.name = "long_sequence",
                .extents = {80},
                .window = {64},
                .strides = {1},
                .low = {63},
                .high = {0},
                .input_dilation = {1},
                .kernel_dilation = {1}},
        Windows{.name = "in_half_precision", .dtype = DType::f16, .result = DType::f16}),
    [](const auto& each) { return each.param.name; });

class OtherConvolutions : public ::testing::TestWithParam<Windows> {};

TEST_P(OtherConvolutions, Stay) {
  const Graph before = graph_of(GetParam());
  EXPECT_TRUE(has_convolution(run_pass(simplify_convolutions, before, {}, GetParam().name)));
}

INSTANTIATE_TEST_SUITE_P(
    Of, OtherConvolutions,
    ::testing::Values(
        Windows{.name = "all_features", .groups = 1}, Windows{.name = "of_one_feature", .features = 1, .groups = 1},
        Windows{.name = "two_results_a_feature", .results = 6}, Windows{.name = "two_features_a_group", .features = 6},
        Windows{.name = "large_window", .extents = {16, 16}, .window = {13, 5}},
        Windows{.name = "cropped", .low = {-1, 0}},
        Windows{.name = "nearly_all_padding", .strides = {1 << 20, 1 << 20}, .low = {1 << 20, 1 << 20}, .high = {0, 0}},
        Windows{.name = "whole_numbers", .dtype = DType::s8, .result = DType::s32}),
    [](const auto& each) { return each.param.name; });

/// As large as what a network may send.
TEST(DepthwiseConvolutions, AreNotWrittenOutWithoutEnd) {
  const auto chain = [](int length) {
    return made([&](Builder& b) {
      ConvolutionAttributes a;
      a.input_spatial = a.output_spatial = a.kernel_spatial = {2, 3};
      a.strides = a.input_dilation = a.kernel_dilation = {1, 1};
      a.low = a.high = {2, 2};
      a.feature_groups = 4;
      Value x = b.parameter(DType::f32, {1, 4, 8, 8});
      for (int i = 0; i < length; ++i) x = b.add(Op::convolution, {x, b.parameter(DType::f32, {4, 1, 5, 5})}, a);
      return std::vector<Value>{x};
    });
  };
  EXPECT_FALSE(has_convolution(run_pass(simplify_convolutions, chain(40), {}, "as many as large models have")));
  EXPECT_TRUE(has_convolution(run_pass(simplify_convolutions, chain(200), {}, "more")));
}

}  // namespace
}  // namespace stitch::graph::test
