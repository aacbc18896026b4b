#include "graph/simplify.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "graph/literal.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::made;
using test::MakeGraph;
using Values = std::vector<Value>;

constexpr DType f32 = DType::f32, s32 = DType::s32;
constexpr ReduceKind sum = ReduceKind::sum;

SimplifyReport simplify_checked(Graph& graph, const std::string& what, SimplifyOptions options = {}) {
  options.verify = true;
  Result<SimplifyReport> report = simplify(graph, options);
  EXPECT_TRUE(report.ok()) << what << ": " << (report.ok() ? "" : report.error().message);
  return report.ok() ? std::move(*report) : SimplifyReport{};
}

/// The way JAX prints keepdims broadcasting: [rows] → [rows, 1] → [rows, columns].
Value jax_keepdims(Builder& b, Value x, const Dims& dims) {
  const Value kept = b.reshape(x, {dims[0], 1});
  const Value stretched = b.broadcast(kept, {dims[0], 1}, {0, 1});
  return b.broadcast(b.reshape(stretched, {dims[0]}), dims, {0});
}

Value jax_row(Builder& b, Value x, const Dims& dims) {
  const Value stretched = b.broadcast(b.reshape(x, {1, dims[1]}), {1, dims[1]}, {0, 1});
  return b.broadcast(b.reshape(stretched, {dims[1]}), dims, {1});
}

const Dims shape = {6, 8};

/// Layer norm and its backward pass, as JAX prints them before optimisation.
Values jax_layer_norm(Builder& b) {
  const Value x = b.parameter(f32, shape), g = b.parameter(f32, {8}), c = b.parameter(f32, {8});
  const Value dy = b.parameter(f32, shape);
  const auto mul = [&](Value p, Value q) { return b.binary(Op::multiply, p, q); };
  const auto n = [&] { return b.filled(f32, {6, 1}, 8); };
  const auto kept = [&](Value v) { return b.reshape(v, {6, 1}); };
  const auto wide = [&](Value v) { return jax_keepdims(b, v, shape); };
  const Value mean = b.binary(Op::divide, kept(b.reduce(sum, x, {1})), n());
  const Value d1 = b.binary(Op::subtract, x, wide(mean)), d2 = b.binary(Op::subtract, x, wide(mean));
  const Value variance = b.binary(Op::divide, kept(b.reduce(sum, mul(d2, d2), {1})), n());
  const Value shifted = b.binary(Op::add, variance, b.filled(f32, {6, 1}, 1e-5));
  const Value r = b.unary(Op::rsqrt, shifted);
  const Value xhat = mul(d1, wide(r));
  const Value y = b.binary(Op::add, mul(xhat, jax_row(b, g, shape)), jax_row(b, c, shape));
  const Value dxhat = mul(dy, jax_row(b, g, shape));
  const Value direct = mul(dxhat, wide(r));
  const Value dr = kept(b.reduce(sum, mul(d1, dxhat), {1}));
  const Value dvar = mul(dr, mul(b.binary(Op::divide, r, shifted), b.filled(f32, {6, 1}, -0.5)));
  const Value spread = b.broadcast(b.reduce(sum, b.binary(Op::divide, dvar, n()), {1}), shape, {0});
  const Value through_variance = mul(spread, mul(d2, b.filled(f32, shape, 2)));
  const Value both = b.binary(Op::add, kept(b.reduce(sum, b.unary(Op::negate, direct), {1})),
                              kept(b.reduce(sum, b.unary(Op::negate, through_variance), {1})));
  const Value dmean = b.broadcast(b.reduce(sum, b.binary(Op::divide, both, n()), {1}), shape, {0});
  const Value dx = b.binary(Op::add, b.binary(Op::add, direct, through_variance), dmean);
  const auto column_sum = [&](Value v) { return b.reduce(sum, b.reshape(b.reduce(sum, v, {0}), {1, 8}), {0}); };
  return {y, dx, column_sum(mul(xhat, dy)), column_sum(dy)};
}

/// What a person writes: two row sums forward, two backward, two column sums.
Values written_layer_norm(Builder& b) {
  const Value x = b.parameter(f32, shape), g = b.parameter(f32, {8}), c = b.parameter(f32, {8});
  const Value dy = b.parameter(f32, shape);
  const auto mul = [&](Value p, Value q) { return b.binary(Op::multiply, p, q); };
  const auto rows = [&](double value) { return b.filled(f32, {6}, value); };
  const auto wide = [&](Value v) { return b.broadcast(v, shape, {0}); };
  const Value mean = mul(b.reduce(sum, x, {1}), rows(1.0 / 8));
  const Value d = b.binary(Op::subtract, x, wide(mean));
  const Value shifted = b.binary(Op::add, mul(b.reduce(sum, mul(d, d), {1}), rows(1.0 / 8)), rows(1e-5));
  const Value r = b.unary(Op::rsqrt, shifted);
  const Value xhat = mul(d, wide(r));
  const Value scale = b.broadcast(g, shape, {1});
  const Value y = b.binary(Op::add, mul(xhat, scale), b.broadcast(c, shape, {1}));
  const Value dxhat = mul(dy, scale);
  const Value dvar = mul(b.reduce(sum, mul(d, dxhat), {1}), mul(b.binary(Op::divide, r, shifted), rows(-0.5)));
  const Value dmean = mul(mul(b.reduce(sum, dxhat, {1}), r), rows(-1.0 / 8));
  const Value dx =
      b.binary(Op::add, b.binary(Op::add, mul(dxhat, wide(r)), mul(d, wide(mul(dvar, rows(2.0 / 8))))), wide(dmean));
  return {y, dx, b.reduce(sum, mul(xhat, dy), {0}), b.reduce(sum, dy, {0})};
}

TEST(Simplify, LayerNormBackwardIsWhatAPersonWrites) {
  const Graph before = made(jax_layer_norm);
  Graph graph = before;
  const SimplifyReport report = simplify_checked(graph, "layer norm");
  EXPECT_TRUE(report.settled);
  const Graph expected = test::tidy(made(written_layer_norm));
  EXPECT_EQ(region_key(graph), region_key(expected)) << to_text(graph) << to_text(expected);
  test::expect_same_values(before, graph, 5, 1e-5, "layer norm");
}

/// Cross entropy of logits and labels with its gradient, as JAX prints it.
Values jax_cross_entropy(Builder& b) {
  const Dims dims = {4, 32};
  const Value z = b.parameter(f32, dims), label = b.parameter(s32, {4});
  const auto filled = [&](Dims d, double v) { return b.filled(f32, std::move(d), v); };
  const Value top =
      b.binary(Op::maximum, b.reduce(ReduceKind::max, z, {1}), filled({4}, -std::numeric_limits<double>::infinity()));
  const Value shifted = b.binary(Op::subtract, z, jax_keepdims(b, top, dims));
  const Value e = b.unary(Op::exp, shifted);
  const Value total = b.reshape(b.reduce(sum, e, {1}), {4, 1});
  const Value logs = b.binary(Op::subtract, shifted, jax_keepdims(b, b.unary(Op::log, total), dims));
  const Value column = b.reshape(label, {4, 1});
  const Value wrapped = b.select(b.compare(Comparison::lt, column, b.filled(s32, {4, 1}, 0)),
                                 b.binary(Op::add, column, b.filled(s32, {4, 1}, 32)), column);
  const Value index = b.reshape(wrapped, {4, 1, 1});
  const Value inside = b.reduce(ReduceKind::bit_and,
                                b.binary(Op::bit_and, b.compare(Comparison::ge, index, b.filled(s32, {4, 1, 1}, 0)),
                                         b.compare(Comparison::le, index, b.filled(s32, {4, 1, 1}, 31))),
                                {2});
  const GatherAttributes along{{}, {1}, {1}, {0}, {0}, 2, {1, 1}};
  const Value taken = b.select(inside, b.add(Op::gather, {logs, index}, along), filled({4, 1}, std::nan("")));
  const Value loss =
      b.binary(Op::divide, b.reduce(sum, b.unary(Op::negate, b.reshape(taken, {4})), {0}), b.scalar(f32, 4));
  const ScatterAttributes put{{}, {1}, {1}, {0}, {0}, 2, sum, false};
  const Value d = b.add(Op::scatter, {filled(dims, 0), index, filled({4, 1}, -0.25)}, put);
  const Value row = b.binary(Op::divide, b.reshape(b.reduce(sum, b.unary(Op::negate, d), {1}), {4, 1}), total);
  const Value spread = b.broadcast(b.reduce(sum, row, {1}), dims, {0});
  return {loss, b.binary(Op::add, d, b.binary(Op::multiply, spread, e))};
}

TEST(Simplify, CrossEntropyNeedsOneMaximumAndOneSum) {
  const Graph before = made(jax_cross_entropy);
  Graph graph = before;
  simplify_checked(graph, "cross entropy");
  std::map<Op, int> wide;
  for (const Node& node : graph.nodes()) {
    EXPECT_NE(node.op, Op::scatter);
    EXPECT_NE(node.op, Op::reshape);
    if (node.op == Op::reduce || node.op == Op::gather) {
      wide[node.op] += graph.type(node.operands[0]).elements() == 128 ? 1 : 0;
    }
    if (node.op == Op::gather) {
      EXPECT_EQ(graph.node(node.operands[0].node).op, Op::parameter) << "taken from the logits themselves";
    }
  }
  EXPECT_EQ(wide[Op::reduce], 2) << to_text(graph);
  test::expect_same_values(before, graph, 9, 1e-5, "cross entropy");
}

test::RandomGraphOptions everything(std::uint64_t seed) {
  test::RandomGraphOptions options;
  options.seed = seed;
  options.operators = 28;
  options.arg_reduce = options.scan = options.reduce_window = options.scatter = options.dot = 1;
  options.reshape = options.broadcast = options.slice = 4;
  switch (seed % 4) {
    case 0: break;
    case 1: options.dtypes = {DType::f32, DType::s32, DType::pred}; break;
    case 2: options.dtypes = {DType::f64, DType::u32, DType::s8}; break;
    default: options.dtypes = {DType::f32, DType::f64, DType::u64, DType::s16};
  }
  return options;
}

TEST(Simplify, RandomGraphsKeepTheirValues) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const Graph before = test::random_graph(everything(seed));
    Graph graph = before;
    const SimplifyReport report = simplify_checked(graph, fmt::format("seed {}", seed));
    EXPECT_TRUE(report.settled) << "seed " << seed;
    EXPECT_LE(operator_count(graph), operator_count(before) * 3 / 2) << "seed " << seed;
    test::expect_same_values(before, graph, seed, 1e-5, fmt::format("seed {}\n{}", seed, to_text(before)));
    if (HasFailure()) return;
  }
}

TEST(Simplify, StrictlyRandomGraphsKeepTheirValues) {
  SimplifyOptions options;
  options.reassociate = false;
  for (std::uint64_t seed = 1001; seed <= 1100; ++seed) {
    const Graph before = test::random_graph(everything(seed));
    Graph graph = before;
    EXPECT_TRUE(simplify_checked(graph, fmt::format("seed {}", seed), options).settled) << "seed " << seed;
    test::expect_same_values(before, graph, seed, 1e-6, fmt::format("seed {}", seed));
    if (HasFailure()) return;
  }
}

TEST(Simplify, EachPassAloneKeepsValues) {
  for (const SimplificationPass& pass : simplification_passes()) {
    for (std::uint64_t seed = 2001; seed <= 2040; ++seed) {
      const Graph before = test::random_graph(everything(seed));
      const std::string what = fmt::format("{} seed {}", pass.name, seed);
      const Graph graph = test::run_pass(pass.run, before, {}, what);
      test::expect_same_values(before, graph, seed, 1e-5, what);
      if (HasFailure()) return;
    }
  }
}

TEST(Simplify, IsIdempotent) {
  for (std::uint64_t seed = 3001; seed <= 3100; ++seed) {
    Graph graph = test::random_graph(everything(seed));
    simplify_checked(graph, "first");
    const Hash128 once = region_key(graph);
    const SimplifyReport again = simplify_checked(graph, "again");
    EXPECT_EQ(region_key(graph), once) << "seed " << seed;
    EXPECT_EQ(again.rounds, 1);
    for (const PassReport& pass : again.passes) EXPECT_EQ(pass.changes, 0) << pass.name << " seed " << seed;
  }
}

/// drop_unit_dimensions and the passes that look through reshapes agree on one form: a reshape that takes the extents
/// of 1 out right behind the parameter, and one that puts them back right before the result.
TEST(Simplify, ExtentsOfOneSettle) {
  const Dims dims = {1, 4, 1, 6};
  const std::vector<std::pair<std::string, MakeGraph>> rows = {
      {"reduction",
       [&](Builder& b) {
         return Values{b.reduce(sum, b.parameter(f32, dims), {0, 3})};
       }},
      {"slice",
       [&](Builder& b) {
         return Values{b.slice(b.parameter(f32, dims), {0, 1, 0, 2}, {1, 3, 1, 5})};
       }},
      {"merged, then reduced",
       [&](Builder& b) {
         return Values{b.reduce(sum, b.reshape(b.parameter(f32, dims), {24, 1}), {0})};
       }},
      {"split, then sliced",
       [&](Builder& b) {
         return Values{b.slice(b.reshape(b.parameter(f32, {1, 24}), dims), {0, 1, 0, 0}, {1, 3, 1, 6})};
       }},
      {"decided test",
       [&](Builder& b) {
         return Values{b.compare(Comparison::ge, b.parameter(DType::u32, dims), b.filled(DType::u32, dims, 0))};
       }},
      {"empty slice",
       [&](Builder& b) {
         return Values{b.slice(b.parameter(f32, dims), {0, 2, 0, 0}, {0, 2, 1, 6})};
       }},
      {"padded", [&](Builder& b) {
         const Value padded = b.add(Op::pad, {b.parameter(f32, dims), b.scalar(f32, 0)},
                                    PadAttributes{{0, 0, 2, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}});
         return Values{b.slice(b.reduce(sum, padded, {3}), {0, 0, 1}, {1, 4, 3})};
       }}};
  for (const auto& [name, make] : rows) {
    const Graph before = made(make);
    Graph graph = before;
    const SimplifyReport report = simplify_checked(graph, name);
    EXPECT_TRUE(report.settled) << name;
    EXPECT_LE(report.rounds, 3) << name;
    test::expect_same_values(before, graph, 3, 1e-6, name);
  }
}

TEST(Simplify, CopiesSimplifyToEqualGraphs) {
  // Two layers that differ in names alone are one fragment afterwards.
  Graph a = made(jax_layer_norm), c = made([](Builder&b) {
                                    b.at("other names", 7);
                                    return jax_layer_norm(b);
                                  });
  simplify_checked(a, "a");
  simplify_checked(c, "c");
  EXPECT_EQ(canonicalise(a)->key, canonicalise(c)->key);
}

TEST(Simplify, PassesCanBeLeftOut) {
  Graph with = made(jax_layer_norm), without = with;
  SimplifyOptions options;
  options.without = {"reductions", "unit-dimensions"};
  const SimplifyReport report = simplify_checked(without, "without", options);
  simplify_checked(with, "with");
  EXPECT_LT(operator_count(with), operator_count(without));
  for (const PassReport& pass : report.passes) {
    const bool left_out = pass.name == "reductions" || pass.name == "unit-dimensions";
    EXPECT_EQ(pass.runs == 0, left_out) << pass.name;
  }
}

TEST(Simplify, UnknownPassesAreRefused) {
  Graph graph = made(jax_layer_norm);
  const Hash128 before = region_key(graph);
  SimplifyOptions options;
  options.without = {"reduction"};
  const Result<SimplifyReport> report = simplify(graph, options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().kind, ErrorKind::invalid_argument);
  EXPECT_EQ(report.error().message, "there is no simplification pass 'reduction'");
  EXPECT_EQ(region_key(graph), before);
}

TEST(Simplify, ReportsWhatItDid) {
  Graph graph = made(jax_layer_norm);
  const SimplifyReport report = simplify_checked(graph, "layer norm");
  EXPECT_EQ(report.nodes_after, graph.size());
  EXPECT_GT(report.nodes_before, report.nodes_after);
  std::int64_t removed = 0;
  for (const PassReport& pass : report.passes) removed += pass.nodes_removed;
  EXPECT_EQ(removed, report.nodes_before - report.nodes_after);
}

TEST(Simplify, PassNamesAreUniqueAndDescribed) {
  std::set<std::string_view> names;
  for (const SimplificationPass& pass : simplification_passes()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_FALSE(pass.summary.empty());
  }
}

TEST(Simplify, DocumentationListsEveryPassInOrder) {
  std::ifstream page(STITCH_SOURCE_DIR "/docs/passes.md");
  std::vector<std::string> listed, expected;
  for (std::string line; std::getline(page, line) && line != "## Normal forms";) {
    if (line.starts_with("| `")) listed.push_back(line.substr(3, line.find('`', 3) - 3));
  }
  for (const SimplificationPass& pass : simplification_passes()) expected.emplace_back(pass.name);
  EXPECT_EQ(listed, expected);
}

TEST(Simplify, ParametersAndResultsStay) {
  const Graph before = made([](Builder& b) {
    const Value x = b.parameter(f32, {4}, "x");
    b.parameter(f32, {2}, "unused");
    const Value y = b.binary(Op::multiply, x, b.filled(f32, {4}, 1));
    return Values{y, x, y, b.filled(f32, {3}, 2)};
  });
  Graph graph = before;
  simplify_checked(graph, "interface");
  ASSERT_EQ(graph.parameters().size(), 2U);
  EXPECT_EQ(graph.node(graph.parameters()[1]).name, "unused");
  ASSERT_EQ(graph.results().size(), 4U);
  EXPECT_EQ(graph.results()[0], (Value{graph.parameters()[0], 0}));
  EXPECT_EQ(graph.results()[2], graph.results()[1]);
}

TEST(Simplify, AStopLeavesTheGraphAsItIs) {
  const Graph before = made([](Builder& b) {
    const Value x = b.parameter(f32, {4}, "x");
    return Values{b.unary(Op::negate, b.unary(Op::negate, x))};
  });
  Graph graph = before;
  std::stop_source stop;
  stop.request_stop();
  const auto report = simplify(graph, {.stop = stop.get_token()});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(graph.size(), before.size());
}

}  // namespace
}  // namespace stitch::graph
