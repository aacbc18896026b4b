// Rule tables of loops and conditionals.
#include <gtest/gtest.h>

#include "graph/literal.h"
#include "graph/passes/conditionals.h"
#include "graph/passes/loops/loops.h"
#include "graph/passes/loops/trip_count.h"
#include "graph/simplify.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::expect_rewrites;
using test::made;
using test::MakeGraph;
using Values = std::vector<Value>;

constexpr DType f32 = DType::f32, s32 = DType::s32;

std::shared_ptr<const Graph> region(const MakeGraph& make) { return std::make_shared<const Graph>(made(make)); }

/// while (i DIRECTION limit) over a counter and whatever else is carried.
std::shared_ptr<const Graph> counter_below(std::int64_t limit, const std::vector<TensorType>& others,
                                           Comparison direction = Comparison::lt) {
  return region([&](Builder& b) {
    const Value i = b.parameter(s32, {});
    for (const TensorType& type : others) b.parameter(type.dtype, type.dims);
    return Values{b.compare(direction, i, b.scalar(s32, static_cast<double>(limit)))};
  });
}

Value next(Builder& b, Value i, std::int64_t step = 1) {
  return b.binary(Op::add, i, b.scalar(s32, static_cast<double>(step)));
}

TEST(PassesRegions, TripCounts) {
  struct Row {
    std::int64_t start, step, limit;
    Comparison direction;
    std::optional<std::int64_t> trips;
  };
  for (const Row& row : std::vector<Row>{{0, 1, 10, Comparison::lt, 10},
                                         {0, 3, 10, Comparison::lt, 4},
                                         {0, 3, 9, Comparison::le, 4},
                                         {10, -1, 0, Comparison::gt, 10},
                                         {10, -2, 0, Comparison::ge, 6},
                                         {0, 2, 10, Comparison::ne, 5},
                                         {0, 3, 10, Comparison::ne, std::nullopt},
                                         {5, 1, 5, Comparison::lt, 0},
                                         {0, -1, 5, Comparison::lt, std::nullopt},
                                         {0, 0, 5, Comparison::lt, std::nullopt},
                                         {0, 1, 5, Comparison::eq, std::nullopt}}) {
    const auto body = region([&](Builder& b) { return Values{next(b, b.parameter(s32, {}), row.step)}; });
    const auto condition = counter_below(row.limit, {}, row.direction);
    const auto start = [&](std::size_t) { return std::optional(row.start); };
    EXPECT_EQ(trip_count(*body, *condition, start), row.trips)
        << row.start << " " << row.step << " " << row.limit << " " << to_string(row.direction);
  }
}

TEST(PassesRegions, LoopsThatRunNotOrOnce) {
  const auto loop = [](std::int64_t trips) -> MakeGraph {
    return [=](Builder& b) {
      const Value x = b.parameter(f32, {4});
      const auto body = region([](Builder& r) {
        const Value i = r.parameter(s32, {}), t = r.parameter(f32, {4});
        return Values{next(r, i), r.unary(Op::exp, t)};
      });
      const Value made_loop =
          b.add(Op::loop, {b.scalar(s32, 0), x}, LoopAttributes{-1}, {body, counter_below(trips, {{f32, {4}}})});
      return Values{{made_loop.node, 1}};
    };
  };
  expect_rewrites(simplify_loops,
                  {{"none", loop(0), [](Builder& b) { return Values{b.parameter(f32, {4})}; }},
                   {"once", loop(1), [](Builder& b) { return Values{b.unary(Op::exp, b.parameter(f32, {4}))}; }}});
}

/// The one loop of a graph.
const Node& only_loop(const Graph& graph) {
  const Node* found = nullptr;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::loop) continue;
    EXPECT_EQ(found, nullptr);
    found = &node;
  }
  EXPECT_NE(found, nullptr);
  return *found;
}

Graph simplified(const Graph& before, std::uint64_t seed = 3) {
  Graph graph = before;
  SimplifyOptions options;
  options.verify = true;
  const Result<SimplifyReport> report = simplify(graph, options);
  EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
  EXPECT_TRUE(report.ok() && report->settled);
  test::expect_same_values(before, graph, seed, 2e-6, "simplified");
  return graph;
}

std::vector<std::string> carried(const Graph& graph) {
  std::vector<std::string> types;
  for (const TensorType& type : only_loop(graph).results) types.push_back(to_string(type));
  return types;
}

TEST(PassesRegions, LoopsCarryWhatChangesAndIsNeeded) {
  const Graph before = made([](Builder& b) {
    const Value x = b.parameter(f32, {4}), w = b.parameter(f32, {4}), unused = b.parameter(f32, {7});
    // counter, state, weight (invariant), a second weight (equal), zeros (closed), a second counter, a sum no one reads
    const auto types = std::vector<TensorType>{{f32, {4}}, {f32, {4}}, {f32, {4}}, {f32, {4}}, {s32, {}}, {f32, {7}}};
    const auto body = region([](Builder& r) {
      const Value i = r.parameter(s32, {}), state = r.parameter(f32, {4}), w1 = r.parameter(f32, {4});
      const Value w2 = r.parameter(f32, {4}), zeros = r.parameter(f32, {4}), j = r.parameter(s32, {});
      const Value sum = r.parameter(f32, {7});
      const Value time = r.broadcast(r.convert(r.binary(Op::add, i, j), f32), {4}, {});
      const Value moved = r.binary(Op::multiply, r.binary(Op::add, state, zeros), r.binary(Op::multiply, w1, w2));
      return Values{next(r, i), r.binary(Op::add, moved, time), w1, w2, zeros, next(r, j), r.binary(Op::add, sum, sum)};
    });
    const Value loop = b.add(Op::loop, {b.scalar(s32, 0), x, w, w, b.filled(f32, {4}, 0), b.scalar(s32, 0), unused},
                             LoopAttributes{-1}, {body, counter_below(3, types)});
    return Values{{loop.node, 1}, {loop.node, 2}};
  });
  const Graph after = simplified(before);
  EXPECT_EQ(only_loop(after).as<LoopAttributes>().trip_count, 3);
  // The counter, the state, and the hoisted square of the weight.
  EXPECT_EQ(carried(after), (std::vector<std::string>{"s32[]", "f32[4]", "f32[4]"})) << to_text(after);
  EXPECT_EQ(after.results()[1], (Value{after.parameters()[1], 0})) << "an invariant is what it was before the loop";
  std::int64_t outside = 0;
  for (const Node& node : after.nodes()) outside += node.op == Op::multiply;
  EXPECT_EQ(outside, 1) << "w · w is computed once, around the loop";
}

TEST(PassesRegions, BroadcastsOfInvariantsStayInside) {
  const Graph before = made([](Builder& b) {
    const Value x = b.parameter(f32, {64, 4}), bias = b.parameter(f32, {4});
    const auto body = region([](Builder& r) {
      const Value i = r.parameter(s32, {}), t = r.parameter(f32, {64, 4}), c = r.parameter(f32, {4});
      return Values{next(r, i), r.unary(Op::tanh, r.binary(Op::add, t, r.broadcast(c, {64, 4}, {1}))), c};
    });
    const Value loop = b.add(Op::loop, {b.scalar(s32, 0), x, bias}, LoopAttributes{-1},
                             {body, counter_below(5, {{f32, {64, 4}}, {f32, {4}}})});
    return Values{{loop.node, 1}};
  });
  EXPECT_EQ(carried(simplified(before)), (std::vector<std::string>{"s32[]", "f32[64,4]", "f32[4]"}));
}

TEST(PassesRegions, CountersGiveRangesInsideTheBody) {
  // x[i < 0 ? i + 6 : i] for i in 0..5, as JAX prints it.
  const Graph before = made([](Builder& b) {
    const Value x = b.parameter(f32, {6, 4});
    const auto body = region([](Builder& r) {
      const Value i = r.parameter(s32, {}), rows = r.parameter(f32, {6, 4}), sum = r.parameter(f32, {4});
      const Value negative = r.compare(Comparison::lt, i, r.scalar(s32, 0));
      const Value index = r.select(negative, r.binary(Op::add, i, r.scalar(s32, 6)), i);
      const Value row = r.add(Op::dynamic_slice, {rows, index, r.scalar(s32, 0)}, DynamicSliceAttributes{{1, 4}});
      return Values{next(r, i), rows, r.binary(Op::add, sum, r.reshape(row, {4}))};
    });
    const Value loop = b.add(Op::loop, {b.scalar(s32, 0), x, b.filled(f32, {4}, 0)}, LoopAttributes{-1},
                             {body, counter_below(6, {{f32, {6, 4}}, {f32, {4}}})});
    return Values{{loop.node, 2}};
  });
  const Graph after = simplified(before);
  for (const Node& node : only_loop(after).regions[0]->nodes()) {
    EXPECT_NE(node.op, Op::select) << to_text(after);
    EXPECT_NE(node.op, Op::compare);
  }
}

TEST(PassesRegions, LoopsOfUnknownLengthKeepWhatTheyNeed) {
  const MakeGraph unknown = [](Builder& b) {
    const Value x = b.parameter(f32, {}), limit = b.parameter(f32, {});
    const auto body = region([](Builder& r) {
      const Value t = r.parameter(f32, {}), l = r.parameter(f32, {});
      return Values{r.binary(Op::add, r.unary(Op::abs, t), r.scalar(f32, 1)), l};
    });
    const auto test = region([](Builder& r) {
      const Value t = r.parameter(f32, {}), l = r.parameter(f32, {});
      return Values{r.compare(Comparison::lt, t, l)};
    });
    return Values{b.add(Op::loop, {x, limit}, LoopAttributes{-1}, {body, test})};
  };
  expect_rewrites(simplify_loops, {{"condition on what is carried", unknown}});
}

MakeGraph branches(const std::function<Value(Builder&)>& selector, Op first, Op second) {
  return [=](Builder& b) {
    const Value s = selector(b), x = b.parameter(f32, {4});
    const auto branch = [](Op op) {
      return region([=](Builder& r) { return Values{r.unary(op, r.parameter(f32, {4}))}; });
    };
    return Values{b.add(Op::conditional, {s, x}, {}, {branch(first), branch(second)})};
  };
}

TEST(PassesRegions, Conditionals) {
  const auto straight = [](Op op) -> MakeGraph {
    return [=](Builder& b) { return Values{b.unary(op, b.parameter(f32, {4}))}; };
  };
  const auto scalar = [](DType dtype, double value) { return [=](Builder& b) { return b.scalar(dtype, value); }; };
  const auto unknown = [](Builder& b) { return b.parameter(DType::pred, {}); };
  expect_rewrites(
      simplify_conditionals,
      {
          {"true is the first branch", branches(scalar(DType::pred, 1), Op::exp, Op::sin), straight(Op::exp)},
          {"false is the second", branches(scalar(DType::pred, 0), Op::exp, Op::sin), straight(Op::sin)},
          {"an index", branches(scalar(s32, 0), Op::exp, Op::sin), straight(Op::exp)},
          {"an index out of range is the last", branches(scalar(s32, -4), Op::exp, Op::sin), straight(Op::sin)},
          {"unknown", branches(unknown, Op::exp, Op::sin)},
          {"unknown, equal branches", branches(unknown, Op::exp, Op::exp),
           [](Builder& b) {
             b.parameter(DType::pred, {});
             return Values{b.unary(Op::exp, b.parameter(f32, {4}))};
           }},
          {"unused results and operands, and what is handed through",
           [](Builder& b) {
             const Value s = b.parameter(DType::pred, {}), x = b.parameter(f32, {4}), y = b.parameter(f32, {4});
             const auto branch = [](Op op) {
               return region([=](Builder& r) {
                 const Value p = r.parameter(f32, {4}), q = r.parameter(f32, {4});
                 return Values{r.unary(op, p), r.unary(op, q), q};
               });
             };
             const Value made_conditional = b.add(Op::conditional, {s, x, y}, {}, {branch(Op::exp), branch(Op::sin)});
             return Values{made_conditional, {made_conditional.node, 2}};
           },
           [](Builder& b) {
             const Value s = b.parameter(DType::pred, {}), x = b.parameter(f32, {4}), y = b.parameter(f32, {4});
             const auto branch = [](Op op) {
               return region([=](Builder& r) { return Values{r.unary(op, r.parameter(f32, {4}))}; });
             };
             return Values{b.add(Op::conditional, {s, x}, {}, {branch(Op::exp), branch(Op::sin)}), y};
           }},
      });
}

}  // namespace
}  // namespace stitch::graph
