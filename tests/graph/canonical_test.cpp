#include "graph/canonical.h"

#include <gtest/gtest.h>
#include <functional>
#include <map>
#include <numeric>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/canonical_order.h"
#include "graph/f32_products.h"
#include "graph/literal.h"
#include "graph/verify.h"

namespace stitch::graph {
namespace {

std::size_t at(std::int64_t index) { return index; }

Graph finished(Builder& builder, std::vector<Value> results) {
  Result<Graph> graph = builder.finish(std::move(results));
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return graph.ok() ? std::move(*graph) : Graph{};
}

template <class T>
void shuffle(std::vector<T>& list, Random& random) {
  for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random.below(i)]);
}

/// An isomorphic copy: nodes in another topological order (so parameters too), results reordered, operands of
/// commutative operators swapped, other names.
Graph scrambled(const Graph& graph, std::uint64_t seed) {
  Random random(seed);
  const auto uses = users(graph);
  std::vector<int> missing(at(graph.size()), 0);
  for (const auto& list : uses) {
    for (const NodeId user : list) ++missing[at(user)];
  }
  std::vector<NodeId> ready, position(at(graph.size()));
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (missing[at(id)] == 0) ready.push_back(id);
  }
  Graph copy;
  while (!ready.empty()) {
    std::swap(ready[random.below(ready.size())], ready.back());
    const NodeId id = ready.back();
    ready.pop_back();
    Node node = graph.node(id);
    node.name = fmt::format("n{}", random.below(1000));
    for (Value& operand : node.operands) operand.node = position[at(operand.node)];
    if (is_commutative(node) && random.below(2) == 1) std::swap(node.operands[0], node.operands[1]);
    position[at(id)] = copy.add_unchecked(std::move(node)).node;
    for (const NodeId user : uses[at(id)]) {
      if (--missing[at(user)] == 0) ready.push_back(user);
    }
  }
  std::vector<Value> results(graph.results().begin(), graph.results().end());
  for (Value& value : results) value.node = position[at(value.node)];
  shuffle(results, random);
  copy.set_results(std::move(results));
  return copy;
}

CanonicalForm canonical(const Graph& graph) {
  Result<CanonicalForm> form = canonicalise(graph);
  EXPECT_TRUE(form.ok());
  EXPECT_TRUE(verify(form->graph).ok()) << verify(form->graph).error().message;
  return std::move(*form);
}

/// The orders are what the header says: node by node, the canonical graph is the original.
void expect_orders_lead_back(const Graph& graph, const CanonicalForm& form) {
  ASSERT_EQ(form.node_order.size(), at(graph.size()));
  std::vector<NodeId> position(at(graph.size()), -1);
  for (std::size_t i = 0; i < form.node_order.size(); ++i) {
    ASSERT_EQ(position[at(form.node_order[i])], -1);
    position[at(form.node_order[i])] = i;
  }
  for (NodeId i = 0; i < form.graph.size(); ++i) {
    const Node& now = form.graph.node(i);
    const Node& was = graph.node(form.node_order[at(i)]);
    ASSERT_EQ(now.op, was.op);
    ASSERT_EQ(now.attributes, was.attributes);
    ASSERT_TRUE(now.name.empty());
    std::vector<Value> expected;
    for (const Value& operand : was.operands) expected.push_back({position[at(operand.node)], operand.result});
    if (is_commutative(was)) std::sort(expected.begin(), expected.end());
    ASSERT_EQ(now.operands, expected);
  }
  for (std::size_t i = 0; i < form.parameter_order.size(); ++i) {
    EXPECT_EQ(form.graph.parameters()[i], position[at(graph.parameters()[at(form.parameter_order[i])])]);
  }
  ASSERT_EQ(form.result_order.size(), graph.results().size());
  for (std::size_t i = 0; i < form.result_order.size(); ++i) {
    const Value& was = graph.results()[at(form.result_order[i])];
    EXPECT_EQ(form.graph.results()[i], (Value{position[at(was.node)], was.result}));
  }
}

/// Copies have the same keys, the same canonical graph, and orders that lead back.
void expect_invariant(const Graph& graph, int copies, std::uint64_t seed) {
  const CanonicalForm form = canonical(graph);
  EXPECT_TRUE(form.exact);
  expect_orders_lead_back(graph, form);
  for (int i = 0; i < copies; ++i) {
    const Graph copy = scrambled(graph, seed + static_cast<std::uint64_t>(i));
    ASSERT_TRUE(verify(copy).ok());
    const CanonicalForm other = canonical(copy);
    ASSERT_EQ(other.key, form.key) << "seed " << seed + static_cast<std::uint64_t>(i);
    ASSERT_EQ(other.family_key, form.family_key);
    expect_orders_lead_back(copy, other);
    for (NodeId id = 0; id < form.graph.size(); ++id) {
      ASSERT_EQ(other.graph.node(id).operands, form.graph.node(id).operands);
      ASSERT_EQ(other.graph.node(id).attributes, form.graph.node(id).attributes);
    }
  }
}

/// Element-wise nodes over a few parameters; many accidental symmetries.
Graph random_elementwise(std::uint64_t seed) {
  Random random(seed);
  Builder b;
  std::vector<Value> pool;
  for (std::uint64_t i = 0; i < 2 + random.below(6); ++i) pool.push_back(b.parameter(DType::f32, {4}));
  const auto any = [&] { return pool[random.below(pool.size())]; };
  for (std::uint64_t i = 0; i < 5 + random.below(40); ++i) {
    switch (random.below(5)) {
      case 0: pool.push_back(b.unary(Op::exp, any())); break;
      case 1: pool.push_back(b.binary(Op::subtract, any(), any())); break;
      case 2: pool.push_back(b.select(b.compare(Comparison::eq, any(), any()), any(), any())); break;
      default: pool.push_back(b.binary(random.below(2) == 0 ? Op::add : Op::multiply, any(), any())); break;
    }
  }
  std::vector<Value> results;
  for (std::uint64_t i = 0; i < 1 + random.below(5); ++i) results.push_back(any());
  return finished(b, results);
}

/// One Adam update a tensor, with shared scalars: the highly symmetric graph of an optimizer.
Graph adam(const std::vector<Dims>& shapes) {
  Builder b;
  const Value rate = b.parameter(DType::f32, {}), step = b.parameter(DType::f32, {});
  const Value beta = b.scalar(DType::f32, 0.9), rest = b.scalar(DType::f32, 0.1);
  const Value correction = b.binary(Op::power, beta, step);
  std::vector<Value> results;
  for (const Dims& dims : shapes) {
    const auto wide = [&](Value x) { return b.broadcast(x, dims, {}); };
    const Value p = b.parameter(DType::f32, dims), g = b.parameter(DType::f32, dims);
    const Value m = b.parameter(DType::f32, dims), v = b.parameter(DType::f32, dims);
    const Value m2 = b.binary(Op::add, b.binary(Op::multiply, m, wide(beta)), b.binary(Op::multiply, g, wide(rest)));
    const Value gg = b.binary(Op::multiply, g, g);
    const Value v2 = b.binary(Op::add, b.binary(Op::multiply, v, wide(beta)), b.binary(Op::multiply, gg, wide(rest)));
    const Value update = b.binary(Op::divide, m2, b.unary(Op::sqrt, b.binary(Op::divide, v2, wide(correction))));
    results.insert(results.end(), {b.binary(Op::subtract, p, b.binary(Op::multiply, update, wide(rate))), m2, v2});
  }
  return finished(b, results);
}

using Pairs = std::vector<std::pair<int, int>>;

/// An undirected graph as operators: a parameter per vertex, an addition per edge.
Graph from_edges(int vertices, const Pairs& edges) {
  Builder b;
  std::vector<Value> points, results;
  for (int i = 0; i < vertices; ++i) points.push_back(b.parameter(DType::f32, {8}));
  for (const auto& [x, y] : edges) results.push_back(b.binary(Op::add, points[at(x)], points[at(y)]));
  return finished(b, results);
}

Pairs circulant(int vertices, const std::vector<int>& steps) {
  Pairs edges;
  for (int i = 0; i < vertices; ++i) {
    for (const int step : steps) edges.emplace_back(i, (i + step) % vertices);
  }
  return edges;
}

/// Edges of a 4 × 4 board between cells whose difference (mod 4) satisfies `joined`.
Pairs board(const std::function<bool(int, int)>& joined) {
  Pairs edges;
  for (int a = 0; a < 16; ++a) {
    for (int c = a + 1; c < 16; ++c) {
      if (joined((c / 4 - a / 4 + 4) % 4, (c % 4 - a % 4 + 4) % 4)) edges.emplace_back(a, c);
    }
  }
  return edges;
}

const Pairs petersen = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 0}, {0, 5}, {1, 6}, {2, 7},
                        {3, 8}, {4, 9}, {5, 7}, {7, 9}, {9, 6}, {6, 8}, {8, 5}};
const Pairs prism = {{0, 1}, {1, 2}, {2, 0}, {3, 4}, {4, 5}, {5, 3}, {0, 3}, {1, 4}, {2, 5}};
const Pairs bipartite33 = {{0, 3}, {0, 4}, {0, 5}, {1, 3}, {1, 4}, {1, 5}, {2, 3}, {2, 4}, {2, 5}};

TEST(Canonical, RandomGraphsAreInvariant) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) expect_invariant(random_elementwise(seed), 4, seed * 100);
}

TEST(Canonical, SymmetricGraphsAreInvariant) {
  Pairs complete, grid;
  for (int i = 0; i < 7; ++i) {
    for (int j = 0; j < 7; ++j) complete.emplace_back(i, 7 + j);
  }
  for (int i = 0; i < 36; ++i) {  // 6 × 6 torus
    grid.emplace_back(i, i / 6 * 6 + (i + 1) % 6);
    grid.emplace_back(i, (i + 6) % 36);
  }
  const auto rook = board([](int x, int y) { return x == 0 || y == 0; });
  const auto shrikhande = board([](int x, int y) { return (x == 0 || y == 0 || x == y) && x != 2 && y != 2; });
  for (const auto& [vertices, edges] : std::vector<std::pair<int, Pairs>>{{10, petersen},
                                                                          {6, prism},
                                                                          {6, bipartite33},
                                                                          {14, complete},
                                                                          {36, grid},
                                                                          {16, rook},
                                                                          {16, shrikhande},
                                                                          {12, circulant(12, {1})},
                                                                          {13, circulant(13, {1, 3, 4})},
                                                                          {20, circulant(20, {1, 9})}}) {
    expect_invariant(from_edges(vertices, edges), 6, 77);
  }
}

TEST(Canonical, BalancedTreesAreInvariant) {
  Builder b;
  std::vector<Value> level;
  for (int i = 0; i < 256; ++i) {
    const Value x = b.parameter(DType::f32, {16});
    level.push_back(b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {0}));
  }
  while (level.size() > 1) {
    std::vector<Value> next;
    for (std::size_t i = 0; i < level.size(); i += 2) next.push_back(b.binary(Op::add, level[i], level[i + 1]));
    level = next;
  }
  expect_invariant(finished(b, level), 3, 5);
}

TEST(Canonical, AnOptimizersUpdatesAreInvariant) {
  std::vector<Dims> shapes;
  for (int i = 0; i < 60; ++i) shapes.push_back(i % 3 == 0 ? Dims{768} : Dims{768, 768});
  expect_invariant(adam(shapes), 3, 11);
}

TEST(Canonical, RefinementAloneDoesNotDecide) {
  // Pairs that one-dimensional refinement cannot tell apart.
  const auto rook = board([](int x, int y) { return x == 0 || y == 0; });
  const auto shrikhande = board([](int x, int y) { return (x == 0 || y == 0 || x == y) && x != 2 && y != 2; });
  Pairs triangles = circulant(3, {1});
  for (const auto& [x, y] : circulant(3, {1})) triangles.emplace_back(x + 3, y + 3);
  EXPECT_NE(canonical(from_edges(6, prism)).key, canonical(from_edges(6, bipartite33)).key);
  EXPECT_NE(canonical(from_edges(6, circulant(6, {1}))).key, canonical(from_edges(6, triangles)).key);
  EXPECT_EQ(rook.size(), shrikhande.size());
  EXPECT_NE(canonical(from_edges(16, rook)).key, canonical(from_edges(16, shrikhande)).key);
  EXPECT_NE(canonical(from_edges(10, petersen)).key, canonical(from_edges(10, circulant(10, {1, 5}))).key);
}

/// A graph that has nearly every kind of attribute; `mutant` > 0 changes one thing.
Graph specimen(int mutant) {
  int next = 0;
  const auto changed = [&] { return ++next == mutant; };
  Builder b;
  const Value x = b.parameter(changed() ? DType::f64 : DType::f32, {8, 12});
  const DType dtype = b.dtype(x);
  const Value y = b.parameter(dtype, changed() ? Dims{12, 1, 8} : Dims{12, 8});
  const Value turned = b.transpose(b.reshape(y, {12, 8}), {1, 0});
  const Value sum = b.binary(changed() ? Op::multiply : Op::add, x, turned);
  const Value difference = changed() ? b.binary(Op::subtract, sum, x) : b.binary(Op::subtract, x, sum);
  const Value fill = b.scalar(dtype, changed() ? 0.5 : 0.25);
  const bool pad_other = changed();
  const Value padded = b.pad(difference, fill, {pad_other ? 1 : 0, 1}, {pad_other ? 1 : 2, 1});
  const Value cut = b.slice(padded, {changed() ? 2 : 1, 0}, {7, 14}, {1, changed() ? 3 : 2});
  const Value reduced = b.reduce(changed() ? ReduceKind::max : ReduceKind::sum, cut, {changed() ? 0 : 1});
  const Value flag = b.compare(changed() ? Comparison::lt : Comparison::le, sum, difference);
  const Value narrow = b.convert(sum, changed() ? DType::bf16 : DType::f16);
  const Value iota = b.iota(DType::s32, {12, 12}, changed() ? 0 : 1);
  const Value flipped = b.reverse(sum, {changed() ? 0 : 1});
  DotAttributes dot{{}, {}, {1}, {0}, changed() ? DType::f64 : DType::f32};
  const Value product = b.dot(x, b.convert(b.reshape(y, {12, 8}), dtype), dot);
  const Value scanned = b.add(Op::scan, {sum}, ScanAttributes{ReduceKind::sum, 1, changed(), changed()});
  const Value opaque =
      b.add(Op::opaque, {sum}, OpaqueAttributes{changed() ? "g" : "f", changed() ? "c" : "", {b.type(sum)}});

  Builder body;
  const Value i = body.parameter(DType::s32, {}), t = body.parameter(dtype, {8, 12});
  const Value t2 = body.unary(changed() ? Op::tanh : Op::exp, t);
  const Graph body_graph = finished(body, {body.binary(Op::add, i, body.scalar(DType::s32, 1)), t2});
  Builder condition;
  const Value j = condition.parameter(DType::s32, {});
  condition.parameter(dtype, {8, 12});
  const Graph condition_graph =
      finished(condition, {condition.compare(Comparison::lt, j, condition.scalar(DType::s32, changed() ? 9 : 10))});
  const Value loop = b.add(Op::loop, {b.scalar(DType::s32, 0), sum}, LoopAttributes{changed() ? 9 : 10},
                           {std::make_shared<Graph>(body_graph), std::make_shared<Graph>(condition_graph)});
  std::vector<Value> results = {reduced, flag, narrow, iota, flipped, product, scanned, opaque, {loop.node, 1}};
  if (changed()) results.pop_back();
  if (changed()) results.push_back(reduced);
  EXPECT_LE(mutant, next) << "no such mutant";
  return finished(b, results);
}

TEST(Canonical, EveryChangeChangesTheKey) {
  constexpr int mutants = 24;
  std::map<Hash128, int> seen;
  for (int mutant = 0; mutant <= mutants; ++mutant) {
    const Graph graph = specimen(mutant);
    ASSERT_TRUE(verify(graph).ok());
    const auto [at, fresh] = seen.emplace(canonical(graph).key, mutant);
    EXPECT_TRUE(fresh) << "mutants " << mutant << " and " << at->second << " have one key";
    expect_invariant(graph, 2, static_cast<std::uint64_t>(mutant));
  }
}

TEST(Canonical, EveryRelevantConstraintChangesTheKey) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4, 4}), image = b.parameter(DType::f32, {1, 1, 4, 4});
  ConvolutionAttributes three_by_three;
  three_by_three.input_spatial = three_by_three.kernel_spatial = three_by_three.output_spatial = {2, 3};
  three_by_three.strides = three_by_three.input_dilation = three_by_three.kernel_dilation = {1, 1};
  three_by_three.low = three_by_three.high = {0, 0};
  const Value seen = b.add(Op::convolution, {image, b.parameter(DType::f32, {2, 1, 3, 3})}, three_by_three);
  const Graph free = finished(b, {b.binary(Op::add, b.dot(x, x, {{}, {}, {1}, {0}, DType::f32}), x), seen});
  std::vector<std::string> names;
  Constraints::fields(free.constraints, [&](const char* name, bool) { names.emplace_back(name); });
  ASSERT_GE(names.size(), 2U);
  std::map<Hash128, std::string> keys, families;
  for (std::size_t set = 0; set < std::size_t{1} << names.size(); ++set) {
    Graph graph = free;
    std::size_t bit = 0;
    Constraints::fields(graph.constraints, [&](const char*, bool& asked) { asked = (set >> bit++ & 1) != 0; });
    const CanonicalForm form = canonical(graph);
    const Constraints relevant = relevant_constraints(graph);
    const std::string words = to_string(relevant);
    EXPECT_EQ(keys.emplace(form.key, words).first->second, words);
    EXPECT_EQ(families.emplace(form.family_key, words).first->second, words);
    EXPECT_EQ(form.graph.constraints, relevant);
    EXPECT_EQ(same_form(form.graph, canonical(free).graph), !relevant.any()) << words;
  }
  EXPECT_EQ(keys.size(), 68U)
      << "of the ways to multiply f32 that are granted the fastest is asked for, and Winograd's "
         "is one for f32 as it is, without batch_invariant and eager_precision";
  EXPECT_EQ(families.size(), 68U);
}

Graph norm(std::int64_t rows, std::int64_t columns, double epsilon, std::int64_t axis = 1) {
  Builder b;
  const Value x = b.parameter(DType::f32, {rows, columns});
  const std::int64_t count = axis == 1 ? columns : rows;
  const Value mean = b.broadcast_binary(Op::multiply, b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {axis}),
                                        b.scalar(DType::f32, 1.0 / static_cast<double>(count)));
  const Value scale = b.unary(Op::rsqrt, b.broadcast_binary(Op::add, mean, b.scalar(DType::f32, epsilon)));
  return finished(b, {b.binary(Op::multiply, x, b.broadcast(scale, {rows, columns}, {1 - axis}))});
}

TEST(Canonical, FamilyKeyLeavesExtentsOut) {
  const CanonicalForm small = canonical(norm(64, 768, 1e-5)), large = canonical(norm(4096, 1024, 1e-5));
  EXPECT_NE(small.key, large.key);
  EXPECT_EQ(small.family_key, large.family_key);
  EXPECT_NE(small.family_key, canonical(norm(64, 768, 1e-5, 0)).family_key);
  EXPECT_NE(small.family_key, small.key);
  EXPECT_EQ(canonical(adam({{3}, {4}})).family_key, canonical(adam({{700}, {10}})).family_key);
  EXPECT_NE(canonical(adam({{3}, {4}})).family_key, canonical(adam({{3}, {4}, {5}})).family_key);
  EXPECT_NE(canonical(adam({{3}, {4}})).family_key, canonical(adam({{3}, {4, 4}})).family_key);
}

TEST(Canonical, UnusedParametersAndRepeatedResultsCount) {
  const auto make = [](bool unused, int times) {
    Builder b;
    const Value x = b.parameter(DType::f32, {4});
    if (unused) b.parameter(DType::f32, {4});
    return finished(b, std::vector<Value>(at(times), b.unary(Op::exp, x)));
  };
  const std::vector<Graph> graphs = {make(false, 1), make(true, 1), make(false, 2), make(true, 2)};
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(canonical(graphs[i]).key, canonical(graphs[j]).key);
    expect_invariant(graphs[i], 2, i);
  }
}

TEST(Canonical, RegionsKeepTheirInterface) {
  // Exchanging what the body does with its two carried values is another program.
  const auto make = [](bool swapped) {
    Builder body;
    const Value x = body.parameter(DType::f32, {4}), y = body.parameter(DType::f32, {4});
    const Value e = body.unary(Op::exp, swapped ? y : x), s = body.unary(Op::sin, swapped ? x : y);
    const Graph graph = finished(body, swapped ? std::vector{s, e} : std::vector{e, s});
    Builder condition;
    condition.parameter(DType::f32, {4});
    condition.parameter(DType::f32, {4});
    const Graph test = finished(condition, {condition.scalar(DType::pred, 0)});
    Builder b;
    const Value p = b.parameter(DType::f32, {4});
    const Value loop = b.add(Op::loop, {p, b.unary(Op::cos, p)}, LoopAttributes{3},
                             {std::make_shared<Graph>(graph), std::make_shared<Graph>(test)});
    return finished(b, {loop, {loop.node, 1}});
  };
  EXPECT_NE(canonical(make(false)).key, canonical(make(true)).key);
}

TEST(Canonical, ManyNodesAreNoTrouble) {
  const Graph graph = adam(std::vector<Dims>(600, Dims{768, 768}));  // 10,000 nodes in 600 equal components
  EXPECT_GT(graph.size(), 9000);
  EXPECT_EQ(canonical(graph).key, canonical(scrambled(graph, 1)).key);
}

TEST(Canonical, RefusesNodesOutOfOrder) {
  Graph graph;
  graph.add_unchecked({Op::negate, {{1, 0}}, NoAttributes{}, {{DType::f32, {}}}, {}, "early", 0});
  graph.add_unchecked({Op::parameter, {}, ParameterAttributes{{DType::f32, {}}}, {{DType::f32, {}}}, {}, "x", 0});
  const Result<CanonicalForm> form = canonicalise(graph);
  ASSERT_FALSE(form.ok());
  EXPECT_EQ(form.error().message, "node 0 (negate 'early') uses node 1, which does not come before it");
}

TEST(CanonicalOrder, BudgetIsAnHonestLimit) {
  // The 4 × 4 rook's graph needs individualisation; with no budget the order is valid but says it is not canonical.
  const auto edges = board([](int x, int y) { return x == 0 || y == 0; });
  ColouredGraph graph;
  graph.colours.assign(16, 1);
  for (const auto& [x, y] : edges) {
    const int middle = graph.colours.size();
    graph.colours.push_back(2);
    graph.edges.insert(graph.edges.end(), {{x, middle, 0}, {y, middle, 0}});
  }
  const CanonicalOrder full = canonical_order(graph), cut = canonical_order(graph, 0);
  EXPECT_TRUE(full.exact);
  EXPECT_FALSE(cut.exact);
  for (CanonicalOrder order : {full, cut}) {
    std::sort(order.order.begin(), order.order.end());
    std::vector<int> all(graph.colours.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order.order, all);
  }
}

}  // namespace
}  // namespace stitch::graph
