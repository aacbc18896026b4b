// Convolutions written as Winograd has them, beside the reference's evaluation of the operator.
#include "graph/calls/winograd.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/random.h"
#include "graph/f32_products.h"
#include "graph/simplify.h"
#include "graph/verify.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph::test {
namespace {

struct Windows {
  std::string name;
  std::int64_t images = 2, features = 3, results = 5;
  Dims extents = {9, 11}, window = {3, 3};
  Dims strides = {1, 1}, low = {1, 1}, high = {1, 1}, input_dilation = {1, 1}, kernel_dilation = {1, 1};
  std::int64_t groups = 1, batch_groups = 1;
  /// Which dimension of the tensors each is: images (results of the filter), features, spatial ones.
  Dims input = {0, 3, 1, 2}, filter = {3, 2, 0, 1}, output = {0, 3, 1, 2};
  std::vector<bool> reversed = {false, false};
  DType dtype = DType::f64;
};
void PrintTo(const Windows& each, std::ostream* out) { *out << each.name; }

Graph graph_of(const Windows& w) {
  ConvolutionAttributes a;
  const auto places = [](const Dims& order, std::int64_t& first, std::int64_t& second, Dims& spatial) {
    first = order[0];
    second = order[1];
    spatial.assign(order.begin() + 2, order.end());
  };
  places(w.input, a.input_batch, a.input_feature, a.input_spatial);
  places(w.filter, a.kernel_output_feature, a.kernel_input_feature, a.kernel_spatial);
  places(w.output, a.output_batch, a.output_feature, a.output_spatial);
  a.strides = w.strides;
  a.low = w.low;
  a.high = w.high;
  a.input_dilation = w.input_dilation;
  a.kernel_dilation = w.kernel_dilation;
  a.window_reversal = w.reversed;
  a.feature_groups = w.groups;
  a.batch_groups = w.batch_groups;
  a.result = w.dtype;
  const auto dims = [](const Dims& order, std::int64_t first, std::int64_t second, const Dims& spatial) {
    Dims made(order.size());
    made[order[0]] = first;
    made[order[1]] = second;
    for (std::size_t s = 0; s < spatial.size(); ++s) made[order[s + 2]] = spatial[s];
    return made;
  };
  return made([&](Builder& b) {
    const Value x = b.parameter(w.dtype, dims(w.input, w.images, w.features, w.extents));
    const Value filter = b.parameter(w.dtype, dims(w.filter, w.results, w.features / w.groups, w.window));
    return std::vector<Value>{b.add(Op::convolution, {x, filter}, a)};
  });
}

Graph written(const Graph& graph, std::int64_t tile) {
  const NodeId root = graph.results()[0].node;
  auto made = with_winograd(graph, {{root, tile}});
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  if (!made) return {};
  EXPECT_TRUE(remove_dead_code(*made, {}));
  const Status sound = verify(*made);
  EXPECT_TRUE(sound) << (sound ? "" : sound.error().message);
  return *std::move(made);
}

bool has_convolution(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return node.op == Op::convolution; });
}

/// Of 1, or of the result where that is more: of f64, by terms a hundred times as large.
constexpr double exact = 1e-12;
const Dims nchw = {0, 1, 2, 3}, oihw = {0, 1, 2, 3};

class WinogradForms : public ::testing::TestWithParam<Windows> {};

/// In f64, whose factors are exact to 2^-53, both ways give the same numbers.
TEST_P(WinogradForms, AreTheConvolution) {
  const Graph before = graph_of(GetParam());
  ASSERT_TRUE(has_winograd_form(before, before.node(before.results()[0].node)));
  for (const std::int64_t tile : winograd_tiles) {
    const std::string what = fmt::format("{}, tiles of {}", GetParam().name, tile);
    Graph after = written(before, tile);
    EXPECT_FALSE(has_convolution(after)) << what;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) expect_same_values(before, after, seed, exact, what);
    const auto simplified = simplify(after, {.verify = true});
    ASSERT_TRUE(simplified) << what << ": " << simplified.error().message;
    EXPECT_TRUE(simplified->settled) << what;
    expect_same_values(before, after, 3, exact, what + ", simplified");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, WinogradForms,
    ::testing::Values(
        Windows{.name = "features_last"}, Windows{.name = "features_first", .input = nchw, .output = nchw},
        Windows{.name = "filters_first", .filter = oihw},
        Windows{.name = "pytorch", .input = nchw, .filter = oihw, .output = nchw},
        Windows{.name = "from_first_to_last", .input = nchw}, Windows{.name = "from_last_to_first", .output = nchw},
        Windows{.name = "images_innermost", .input = {3, 2, 0, 1}, .output = {2, 3, 1, 0}},
        Windows{.name = "whole_tiles", .extents = {8, 12}},
        Windows{.name = "without_padding", .low = {0, 0}, .high = {0, 0}},
        Windows{.name = "uneven_padding", .low = {0, 2}, .high = {5, 1}},
        Windows{.name = "cropped", .low = {-1, 1}, .high = {1, -2}},
        Windows{.name = "cropped_on_all_sides", .low = {-2, -1}, .high = {-3, -2}},
        Windows{.name = "reversed", .reversed = {true, true}},
        Windows{.name = "reversed_along_one", .input = nchw, .reversed = {false, true}},
        Windows{.name = "gradient_by_the_data", .filter = {2, 3, 0, 1}, .reversed = {true, true}},
        Windows{.name = "one_image", .images = 1}, Windows{.name = "one_feature", .features = 1},
        Windows{.name = "one_result", .results = 1},
        Windows{.name = "one_of_all", .images = 1, .features = 1, .results = 1, .input = nchw, .output = nchw},
        Windows{.name = "one_position", .extents = {1, 1}},
        Windows{.name = "one_row", .extents = {3, 17}, .low = {0, 0}, .high = {0, 0}},
        Windows{.name = "one_tile", .extents = {2, 2}}),
    [](const auto& each) { return each.param.name; });

class OtherForms : public ::testing::TestWithParam<Windows> {};

TEST_P(OtherForms, AreRefused) {
  const Graph graph = graph_of(GetParam());
  EXPECT_FALSE(has_winograd_form(graph, graph.node(graph.results()[0].node)));
  const auto made = with_winograd(graph, {{graph.results()[0].node, 4}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Of, OtherForms,
                         ::testing::Values(Windows{.name = "five_by_five", .window = {5, 5}},
                                           Windows{.name = "three_by_one", .window = {3, 1}},
                                           Windows{.name = "strided", .strides = {1, 2}},
                                           Windows{.name = "dilated", .kernel_dilation = {2, 1}},
                                           Windows{.name = "with_holes", .input_dilation = {1, 2}},
                                           Windows{.name = "groups", .results = 6, .groups = 3},
                                           Windows{.name = "groups_of_images", .results = 6, .batch_groups = 2},
                                           Windows{.name = "half_precision", .dtype = DType::f16},
                                           Windows{.name = "no_image", .images = 0},
                                           Windows{.name = "no_feature", .features = 0}),
                         [](const auto& each) { return each.param.name; });

TEST(Winograd, HasTilesOfTwoAndFourAlone) {
  const Graph graph = graph_of({});
  const auto made = with_winograd(graph, {{graph.results()[0].node, 3}});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("no transforms for tiles of 3 × 3"), std::string::npos) << made.error().message;
}

/// The product is what multiplies: (tile + 2)² places of tiles, which are as many as cover the result.
TEST(Winograd, StepsHaveTheProductBetweenThem) {
  const Graph graph =
      graph_of({.name = "", .images = 2, .features = 16, .results = 24, .extents = {13, 6}, .dtype = DType::f32});
  const Node& node = graph.node(graph.results()[0].node);
  const auto steps = winograd_steps(graph, node, 4);
  ASSERT_TRUE(steps) << steps.error().message;
  const Graph& product = steps->product;
  EXPECT_EQ(product.type({product.parameters()[0], 0}).dims, (Dims{36, 2 * 4 * 2, 16}));
  EXPECT_EQ(product.type({product.parameters()[1], 0}).dims, (Dims{36, 16, 24}));
  EXPECT_EQ(product.type(product.results()[0]).dims, (Dims{36, 2 * 4 * 2, 24}));
  EXPECT_EQ(steps->result.type(steps->result.results()[0]).dims, node.type().dims);
}

/// What is around a convolution stays; a filter that is a constant is one after the transform, too.
TEST(Winograd, LeavesTheRestOfAGraphAlone) {
  Graph graph = made([&](Builder& b) {
    ConvolutionAttributes a;
    a.input_spatial = a.output_spatial = a.kernel_spatial = {2, 3};
    a.strides = a.low = a.high = a.input_dilation = a.kernel_dilation = {1, 1};
    const Value x = b.parameter(DType::f32, {2, 4, 7, 7});
    const Value filter = b.filled(DType::f32, {3, 4, 3, 3}, 0.25);
    const Value y = b.add(Op::convolution, {b.unary(Op::tanh, x), filter}, a);
    const Value twice = b.add(Op::convolution, {y, b.parameter(DType::f32, {3, 3, 3, 3})}, a);
    return std::vector<Value>{y, b.unary(Op::exp, twice)};
  });
  const NodeId first = graph.results()[0].node;
  auto after = with_winograd(graph, {{first, 4}});
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->parameters().size(), graph.parameters().size());
  EXPECT_TRUE(has_convolution(*after)) << "the second one";
  ASSERT_TRUE(simplify(*after, {.verify = true}));
  const auto of_filter = [](const Node& node) { return node.op == Op::constant && node.type().elements() > 1; };
  EXPECT_LE(std::ranges::count_if(after->nodes(), of_filter), 1) << "transformed, and folded";
  expect_same_values(graph, *after, 1, 1e-5, "a constant filter");
}

/// What f32 loses operator by operator is within the reference's bounds of the written graph, beside the convolution
/// itself: twice, since its factors of a sixth are rounded, too. The bounds are what is said of the errors: of the
/// largest elements those of a direct sum with tiles of 2, some ten times that with tiles of 4; and not for nothing.
TEST(Winograd, LosesWhatItsBoundsSay) {
  const Graph graph = graph_of({.name = "", .features = 24, .results = 8, .dtype = DType::f32});
  const std::vector<Tensor> arguments = random_arguments(graph, 11);
  EvaluateOptions bounded, rounded;
  bounded.bounds = true;
  rounded.round = true;
  const auto direct = evaluate(graph, arguments, bounded);
  ASSERT_TRUE(direct) << direct.error().message;
  const Tensor& exact = (*direct)[0];
  double most_direct = 0;
  for (std::size_t i = 0; i < exact.floats.size(); ++i) most_direct = std::max(most_direct, exact.bound(i));
  for (const auto& [tile, least, most] : {std::tuple{2, 0.1, 10.0}, {4, 1.0, 100.0}}) {
    const Graph after = written(graph, tile);
    const auto bounds = evaluate(after, arguments, bounded), made = evaluate(after, arguments, rounded);
    ASSERT_TRUE(bounds && made);
    double most_bound = 0, most_error = 0;
    for (std::size_t i = 0; i < exact.floats.size(); ++i) {
      const double error = std::fabs((*made)[0].floats[i] - exact.floats[i]);
      EXPECT_LE(error, 2 * (*bounds)[0].bound(i)) << tile << ", element " << i;
      most_bound = std::max(most_bound, (*bounds)[0].bound(i));
      most_error = std::max(most_error, error);
    }
    RecordProperty(fmt::format("tile_{}_bound_over_direct", tile), fmt::format("{:.1f}", most_bound / most_direct));
    EXPECT_GT(most_bound, least * most_direct) << tile;
    EXPECT_LT(most_bound, most * most_direct) << tile;
    EXPECT_GT(most_error, most_bound / 1000) << tile;
  }
}

/// Random convolutions, whichever have the form.
TEST(Winograd, IsRightForRandomOnes) {
  Random random(7);
  const auto below = [&](int most) { return static_cast<std::int64_t>(random.below(most)); };
  const auto shuffled = [&] {
    Dims order = {0, 1, 2, 3};
    for (std::size_t i = 4; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    return order;
  };
  for (int i = 0; i < 60; ++i) {
    Windows w{.name = fmt::format("random {}", i)};
    w.images = 1 + below(3);
    w.features = 1 + below(5);
    w.results = 1 + below(5);
    w.extents = {1 + below(12), 1 + below(12)};
    for (int s : {0, 1}) {
      w.low[s] = below(5) - 1;
      w.high[s] = std::max(below(5) - 1, 3 - w.extents[s] - w.low[s]);
    }
    w.input = shuffled();
    w.filter = shuffled();
    w.output = shuffled();
    w.reversed = {random.below(2) == 0, random.below(2) == 0};
    const Graph before = graph_of(w);
    for (const std::int64_t tile : winograd_tiles)
      expect_same_values(before, written(before, tile), i, exact, fmt::format("{}, tiles of {}", w.name, tile));
  }
}

}  // namespace
}  // namespace stitch::graph::test
