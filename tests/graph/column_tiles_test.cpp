#include "graph/calls/column_tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/calls/find_calls.h"
#include "graph/calls/row_results.h"
#include "graph/cut.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

const OwnCall all_own = [](const Graph&, bool) { return true; };

/// Logits of a head, and what a test makes of them; labels and a bias are parameters, too.
struct Logits {
  Builder& b;
  Value of, labels, bias;
  [[nodiscard]] const Dims& dims() const { return b.dims(of); }
  [[nodiscard]] Value over(ReduceKind kind, Value x) const { return b.reduce(kind, x, {1}); }
  [[nodiscard]] Value spread(Value row) const { return b.broadcast(row, dims(), {0}); }
  [[nodiscard]] Value exp_sum(Value x, Value base) const {
    return over(ReduceKind::sum, b.unary(Op::exp, b.binary(Op::subtract, x, spread(base))));
  }
  [[nodiscard]] Value rows(double value) const { return b.filled(DType::f32, {dims()[0]}, value); }
  [[nodiscard]] Value picked(Value x) const {
    const Value own = b.compare(Comparison::eq, b.iota(DType::s32, dims(), 1), spread(labels));
    return over(ReduceKind::sum, b.select(own, x, b.filled(DType::f32, dims(), 0)));
  }
  [[nodiscard]] Value biased() const { return b.binary(Op::add, of, b.broadcast(bias, dims(), {1})); }
};

Graph head(std::int64_t columns, const std::function<std::vector<Value>(const Logits&)>& made,
           bool columns_first = false) {
  Builder b;
  const Value x = b.parameter(DType::f32, {5, 3});
  const Value w = b.parameter(DType::f32, columns_first ? Dims{columns, 3} : Dims{3, columns});
  const Value labels = b.parameter(DType::s32, {5}), bias = b.parameter(DType::f32, {columns});
  const Value logits = b.dot(x, w, {{}, {}, {1}, {columns_first ? 1 : 0}, DType::f32});
  return *b.finish(made({b, logits, labels, bias}));
}

/// Of `bias` those columns are −∞ that `hidden` says.
std::vector<Tensor> inputs_of(const Graph& graph, const std::function<bool(std::int64_t)>& hidden) {
  Random random(7);
  std::vector<Tensor> inputs;
  for (const NodeId id : graph.parameters()) {
    const TensorType& type = graph.node(id).type();
    Tensor tensor = Tensor::zeros(type);
    for (std::int64_t i = 0; i < type.elements(); ++i) {
      if (type.dtype == DType::s32) {
        tensor.integers[i] = i * 547 + 40;
      } else {
        const bool is_bias = type.dims.size() == 1;
        tensor.floats[i] = is_bias && hidden(i) ? -infinity : (static_cast<double>(random.below(65)) - 32) / 8;
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

struct HeadCase {
  std::string name;
  std::int64_t columns;
  std::function<std::vector<Value>(const Logits&)> made;
  std::function<bool(std::int64_t)> hidden = [](std::int64_t) { return false; };
  bool columns_first = false;
};
void PrintTo(const HeadCase& each, std::ostream* out) { *out << each.name; }

class ColumnTiles : public testing::TestWithParam<HeadCase> {};

TEST_P(ColumnTiles, MeanTheSame) {
  const HeadCase& c = GetParam();
  const Graph graph = head(c.columns, c.made, c.columns_first);
  const Graph tiled = tile_columns_of_heads(graph, all_own);
  const std::int64_t parts = c.columns % tile_columns == 0 ? 1 : 2;
  std::int64_t dots = 0;
  for (const Node& node : tiled.nodes()) {
    if (node.op != Op::dot) continue;
    ++dots;
    EXPECT_LE(node.type().dims.back(), tile_columns + 1);
  }
  EXPECT_EQ(dots, parts);
  LibraryOptions options;
  options.own = all_own;
  for (const LibraryCall& call : find_library_calls(tiled, options)) {
    EXPECT_TRUE(has_row_results(tiled, call)) << call.description;
    for (const Value result : call.results()) EXPECT_EQ(tiled.type(result).dims.size(), 2U);
  }
  const std::vector<Tensor> inputs = inputs_of(graph, c.hidden);
  const auto want = evaluate(graph, inputs), got = evaluate(tiled, inputs);
  ASSERT_TRUE(want && got);
  ASSERT_EQ(got->size(), want->size());
  for (std::size_t r = 0; r < want->size(); ++r) {
    ASSERT_EQ((*got)[r].type.dims, (*want)[r].type.dims);
    for (std::int64_t i = 0; i < (*want)[r].elements(); ++i) {
      const double a = (*want)[r].at(i), b = (*got)[r].at(i);
      if (std::isfinite(a)) {
        EXPECT_NEAR(b, a, 1e-6 * std::max(1.0, std::abs(a))) << "result " << r << ", row " << i;
      } else {
        EXPECT_TRUE(std::isnan(a) ? std::isnan(b) : a == b) << a << " and " << b;
      }
    }
  }
}

std::vector<Value> cross_entropy(const Logits& l) {
  const Value most = l.over(ReduceKind::max, l.of);
  const Value total = l.b.binary(Op::add, most, l.b.unary(Op::log, l.exp_sum(l.of, most)));
  return {l.b.reduce(ReduceKind::sum, l.b.binary(Op::subtract, total, l.picked(l.of)), {0})};
}
std::vector<Value> statistics(const Logits& l) {
  const Value x = l.biased(), most = l.over(ReduceKind::max, x);
  return {most, l.exp_sum(x, most), l.picked(x)};
}
std::vector<Value> finite_base(const Logits& l) {
  const Value x = l.biased(), most = l.over(ReduceKind::max, x);
  const Value base = l.b.select(l.b.unary(Op::is_finite, most), most, l.rows(0));
  return {most, l.exp_sum(x, base)};
}
std::vector<Value> guarded_base(const Logits& l) {
  const Value x = l.biased(), most = l.over(ReduceKind::max, x);
  const Value empty = l.b.compare(Comparison::eq, most, l.rows(-infinity));
  return {l.exp_sum(x, l.b.select(empty, l.rows(0), most))};
}
std::vector<Value> plain(const Logits& l) {
  const Value squares = l.b.binary(Op::multiply, l.of, l.of);
  return {l.over(ReduceKind::sum, squares), l.over(ReduceKind::min, l.biased())};
}

const auto second_tile = [](std::int64_t column) { return column / tile_columns == 1; };
const auto all_of_them = [](std::int64_t) { return true; };
INSTANTIATE_TEST_SUITE_P(
    Of, ColumnTiles,
    testing::Values(HeadCase{"cross_entropy", 2560, cross_entropy}, HeadCase{"rest", 2400, cross_entropy},
                    HeadCase{"rest_of_one", 2305, statistics},
                    HeadCase{"columns_first", 2400, statistics, second_tile, true},
                    HeadCase{"hidden_tile", 2400, statistics, second_tile},
                    HeadCase{"hidden_rest", 2400, statistics, [](std::int64_t i) { return i >= 2304; }},
                    HeadCase{"all_hidden", 2400, statistics, all_of_them},
                    HeadCase{"finite_base", 2400, finite_base, second_tile},
                    HeadCase{"finite_base_hidden", 2400, finite_base, all_of_them},
                    HeadCase{"guarded", 2560, guarded_base, second_tile},
                    HeadCase{"guarded_hidden", 2560, guarded_base, all_of_them}, HeadCase{"plain", 2400, plain}),
    [](const auto& each) { return each.param.name; });

bool is_tiled(const Graph& graph, const OwnCall& own = all_own) {
  const Graph tiled = tile_columns_of_heads(graph, own);
  return std::ranges::any_of(
      tiled.nodes(), [](const Node& node) { return node.op == Op::dot && node.type().dims.back() <= tile_columns; });
}

TEST(ColumnTilesOfHeads, AreOfHeadsAlone) {
  EXPECT_TRUE(is_tiled(head(2400, cross_entropy)));
  EXPECT_FALSE(is_tiled(head(2048, cross_entropy))) << "a cluster has its rows";
  EXPECT_FALSE(is_tiled(head(2400, [](const Logits& l) {
    return std::vector{l.over(ReduceKind::max, l.of), l.of};
  }))) << "logits are a result";
  EXPECT_FALSE(is_tiled(head(2400, [](const Logits& l) {
    const Value most = l.over(ReduceKind::max, l.of);
    return std::vector{l.b.unary(Op::exp, l.b.binary(Op::subtract, l.of, l.spread(most)))};
  }))) << "so is what is made of them";
  EXPECT_FALSE(is_tiled(head(2400, [](const Logits& l) {
    return std::vector{l.b.reduce(ReduceKind::sum, l.of, {0})};
  }))) << "columns are combined";
  EXPECT_FALSE(is_tiled(head(2400, [](const Logits& l) {
    const Value mean = l.over(ReduceKind::sum, l.of);
    const Value centred = l.b.binary(Op::subtract, l.of, l.spread(mean));
    return std::vector{l.over(ReduceKind::sum, l.b.binary(Op::multiply, centred, centred))};
  }))) << "parts of a variance are not combined";
  EXPECT_FALSE(is_tiled(head(2400, cross_entropy), [](const Graph&, bool) { return false; })) << "by no kernel of ours";
}

TEST(RowResults, AreACallWhereMoreThanRowsFollows) {
  const auto calls = [](const Graph& graph, const OwnCall& own = all_own) {
    LibraryOptions options;
    options.own = own;
    return find_library_calls(graph, options);
  };
  const Graph mean = head(96, cross_entropy);
  ASSERT_EQ(calls(mean).size(), 1U);
  EXPECT_TRUE(has_row_results(mean, calls(mean)[0]));
  EXPECT_EQ(calls(mean)[0].results().size(), 3U) << "the maximum, the sum of exponentials, the label's";
  EXPECT_EQ(calls(mean)[0].operands.size(), 3U) << "both operands, and labels";
  EXPECT_THAT(calls(mean)[0].description, testing::HasSubstr("rows of it combined"));
  const Graph rows = head(96, statistics);
  EXPECT_FALSE(has_row_results(rows, calls(rows)[0])) << "one kernel may have all of it";
  const Graph kept = head(96, [](const Logits& l) {
    std::vector<Value> results = cross_entropy(l);
    results.push_back(l.of);
    return results;
  });
  EXPECT_FALSE(has_row_results(kept, calls(kept)[0])) << "logits are in memory";
  EXPECT_FALSE(has_row_results(mean, calls(mean, [](const Graph&, bool) { return false; })[0]));
}

// The squares of the difference of two products: it is one's, and the other is read by it.
TEST(RowResults, AreOneCalls) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 8}), w = b.parameter(DType::f32, {8, 32});
  const Value y = b.parameter(DType::f32, {64, 8}), v = b.parameter(DType::f32, {8, 32});
  const Value mask = b.parameter(DType::f32, {64});
  const DotAttributes rows_by_columns{{}, {}, {1}, {0}, DType::f32};
  const Value apart = b.binary(Op::subtract, b.dot(x, w, rows_by_columns), b.dot(y, v, rows_by_columns));
  const Value squares = b.reduce(ReduceKind::sum, b.binary(Op::multiply, apart, apart), {1});
  const Graph graph = *b.finish({b.reduce(ReduceKind::sum, b.binary(Op::multiply, squares, mask), {0})});
  LibraryOptions options;
  options.own = all_own;
  const std::vector<LibraryCall> calls = find_library_calls(graph, options);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_NE(has_row_results(graph, calls[0]), has_row_results(graph, calls[1]));
  std::set<NodeId> computed;
  for (const LibraryCall& call : calls) {
    EXPECT_TRUE(computed.insert(call.root).second);
    for (const NodeId id : call.epilogue) EXPECT_TRUE(computed.insert(id).second) << id << " is computed twice";
  }
  CutOptions cutting;
  cutting.library = options;
  EXPECT_EQ(cut(graph, cutting).calls.size(), 2U);
}

}  // namespace
}  // namespace stitch::graph
