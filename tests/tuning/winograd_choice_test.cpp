// Which convolutions are written as Winograd has them, and that programs with them are right.
#include "tuning/programs/winograd_choice.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/calls/winograd.h"
#include "graph/simplify.h"
#include "graph/subgraph.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/programs/model_program.h"

namespace stitch::tuning {
namespace {

using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Value;

constexpr graph::Constraints winograd{.winograd = true};

struct Layer {
  std::int64_t images = 8, side = 32, features = 320, results = 320;
  DType dtype = DType::f32;
  bool features_last = true;
  std::int64_t edge = 3;
  int layers = 1;
};

/// Convolutions one after another, with a ReLU behind each.
Graph net(const Layer& l, graph::Constraints constraints = winograd) {
  graph::ConvolutionAttributes a;
  a.input_spatial = a.output_spatial = l.features_last ? graph::Dims{1, 2} : graph::Dims{2, 3};
  a.input_feature = a.output_feature = l.features_last ? 3 : 1;
  a.kernel_spatial = {0, 1};
  a.kernel_input_feature = 2;
  a.kernel_output_feature = 3;
  a.strides = a.input_dilation = a.kernel_dilation = {1, 1};
  a.low = a.high = {l.edge / 2, l.edge / 2};
  a.result = l.dtype;
  graph::Builder b;
  graph::Dims dims = {l.images, l.side, l.side - 1};
  dims.insert(l.features_last ? dims.end() : dims.begin() + 1, l.features);
  Value x = b.parameter(l.dtype, dims);
  for (int i = 0; i < l.layers; ++i) {
    const Value filter = b.parameter(l.dtype, {l.edge, l.edge, i == 0 ? l.features : l.results, l.results});
    const Value y = b.add(Op::convolution, {x, filter}, a);
    x = b.binary(Op::maximum, y, b.filled(l.dtype, b.dims(y), 0));
  }
  Graph graph = *b.finish({x});
  graph.constraints = constraints;
  EXPECT_TRUE(graph::simplify(graph));
  return graph;
}

int convolutions_of(const Graph& graph) {
  return static_cast<int>(
      std::ranges::count_if(graph.nodes(), [](const auto& node) { return node.op == Op::convolution; }));
}

class WinogradChoice : public testing::Test {
 protected:
  /// How many of the convolutions are written so; -1: an error.
  int written(Graph graph, ProductsBy by = ProductsBy::ours) {
    const auto tuner = tuner_for(shared_device(), by, false);
    if (!tuner) return -1;
    const int before = convolutions_of(graph);
    const auto count = write_winograd(graph, **tuner);
    EXPECT_TRUE(count) << (count ? "" : count.error().message);
    if (!count) return -1;
    EXPECT_EQ(convolutions_of(graph), before - *count);
    return *count;
  }
};

TEST_F(WinogradChoice, TakesWhatIsPredictedToBeFaster) {
  EXPECT_EQ(written(net({})), 1);
  EXPECT_EQ(written(net({.features_last = false})), 1);
  EXPECT_EQ(written(net({.layers = 3})), 3);
  EXPECT_EQ(written(net({.images = 1, .side = 8, .features = 64, .results = 64})), 0) << "launches alone take longer";
  EXPECT_EQ(written(net({.images = 64, .side = 64, .features = 3, .results = 64})), 0) << "transforms alone do";
  EXPECT_EQ(written(net({.dtype = DType::f16})), 0) << "tensor cores multiply it";
  EXPECT_EQ(written(net({.edge = 5})), 0);
}

TEST_F(WinogradChoice, LeavesAloneWhatIsNotGranted) {
  EXPECT_EQ(written(net({}, {})), 0);
  EXPECT_EQ(written(net({}, winograd | graph::Constraints{.tf32 = true})), 0);
  EXPECT_EQ(written(net({}, winograd | graph::Constraints{.tf32x3 = true})), 0);
  EXPECT_EQ(written(net({}, winograd | graph::Constraints{.bf16x3 = true})), 0);
  EXPECT_EQ(written(net({}, winograd | graph::Constraints{.batch_invariant = true})), 0);
  EXPECT_EQ(written(net({}, winograd | graph::Constraints{.eager_precision = true})), 0);
  EXPECT_EQ(written(net({}, winograd | graph::Constraints{.deterministic = true})), 1);
  EXPECT_EQ(written(net({}), ProductsBy::library), 0);
  EXPECT_EQ(written(net({}), ProductsBy::faster), 1);
}

TEST_F(WinogradChoice, ThePriceIsThatOfItsSteps) {
  const auto tuner = tuner_for(shared_device(), ProductsBy::ours, false);
  ASSERT_TRUE(tuner);
  const Graph graph = net({});
  const auto found = std::ranges::find(graph.nodes(), Op::convolution, &graph::Node::op);
  ASSERT_NE(found, graph.nodes().end());
  const auto id = static_cast<graph::NodeId>(found - graph.nodes().begin());
  const Result<Graph> alone = graph::subgraph(graph, found->operands, {{id, 0}});
  ASSERT_TRUE(alone);
  const auto price = winograd_price(*alone, false, **tuner), folded = winograd_price(*alone, true, **tuner);
  ASSERT_TRUE(price && folded);
  EXPECT_EQ(price->tile, 4) << "2.25 multiplications a feature instead of 4";
  EXPECT_TRUE(price->is_faster());
  EXPECT_GT(price->filter_us, 0);
  EXPECT_EQ(folded->filter_us, 0);
  EXPECT_LT(folded->winograd_us(), price->winograd_us());
  const auto steps = graph::winograd_steps(graph, *found, 4);
  ASSERT_TRUE(steps);
  EXPECT_DOUBLE_EQ(price->product_us, (*tuner)->product_price(steps->product)->ours_us);
  EXPECT_GT(price->uncertainty_us, 0.1 * price->direct_us);
}

/// Small ones, written by hand since no prediction would: every step has a plan that is right on the emulated device,
/// and so has what is between two of them: a result's transform, a ReLU, and an input's.
TEST(WinogradProgramEmulated, HasRightPlansForAllSteps) {
  const auto tuner = tuner_for(shared_device(), ProductsBy::ours);
  ASSERT_TRUE(tuner) << tuner.error().message;
  for (const bool last : {true, false}) {
    for (const std::int64_t tile : graph::winograd_tiles) {
      SCOPED_TRACE(fmt::format("features {}, tiles of {}", last ? "last" : "first", tile));
      const int layers = last && tile == 2 ? 2 : 1;
      const Graph direct =
          net({.images = 2, .side = 9, .features = 12, .results = 16, .features_last = last, .layers = layers});
      std::map<graph::NodeId, std::int64_t> tiles;
      for (graph::NodeId id = 0; id < direct.size(); ++id) {
        if (direct.node(id).op == Op::convolution) tiles.emplace(id, tile);
      }
      ASSERT_EQ(std::ssize(tiles), layers);
      import::Imported model;
      auto made = graph::with_winograd(direct, tiles);
      ASSERT_TRUE(made) << made.error().message;
      model.graph = *std::move(made);
      const auto program = make_program(model, **tuner, {.name = "net", .tunes = true});
      ASSERT_TRUE(program) << program.error().message;
      EXPECT_TRUE(program->calls.empty());
      EXPECT_EQ(std::ssize(program->fragments), 2 * layers + 1) << "products, and what is before, between and behind";
      for (const api::ProgramFragment& fragment : program->fragments) {
        ASSERT_TRUE(fragment.plan) << fragment.why_none;
        EXPECT_GT(fragment.plan->verified_share, 0);
      }
    }
  }
}

}  // namespace
}  // namespace stitch::tuning
