// What simplification must not change: graphs and arguments at the edges of what a rule may assume.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "graph/literal.h"
#include "graph/print.h"
#include "graph/simplify.h"
#include "tests/graph/edge_graph.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::expect_equal_tensors;
using test::made;
using test::MakeGraph;
using Values = std::vector<Value>;
using Integers = std::vector<std::int64_t>;
using Floats = std::vector<double>;

constexpr DType f16 = DType::f16, f32 = DType::f32, s8 = DType::s8, s32 = DType::s32, s64 = DType::s64, u8 = DType::u8,
                u64 = DType::u64;
constexpr std::int64_t two53 = std::int64_t{1} << 53;

Tensor integers(DType dtype, const Integers& values, std::optional<Dims> dims = {}) {
  Tensor tensor = Tensor::zeros({dtype, dims.value_or(Dims{static_cast<std::int64_t>(values.size())})});
  tensor.integers = values;
  return tensor;
}

Tensor floats(DType dtype, const Floats& values) {
  Tensor tensor = Tensor::zeros({dtype, {static_cast<std::int64_t>(values.size())}});
  tensor.floats = values;
  return tensor;
}

Value scalar(Builder& b, DType dtype, std::int64_t value) {
  return b.constant(dense_integers({dtype, {}}, Integers{value}));
}

struct Row {
  std::string name;
  MakeGraph make;
  std::vector<Tensor> arguments;
};

void expect_values_stay(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const Graph graph = made(row.make);
    for (const bool round : {false, true}) {
      EvaluateOptions options;
      options.round = round;
      const auto before = evaluate(graph, row.arguments, options);
      ASSERT_TRUE(before) << row.name << ": " << before.error().message;
      Graph simple = graph;
      SimplifyOptions simplification;
      simplification.verify = true;
      const auto report = simplify(simple, simplification);
      ASSERT_TRUE(report) << row.name << ": " << report.error().message;
      EXPECT_TRUE(report->settled) << row.name;
      const auto after = evaluate(simple, row.arguments, options);
      ASSERT_TRUE(after) << row.name << ": " << after.error().message;
      for (std::size_t i = 0; i < before->size(); ++i) {
        expect_equal_tensors((*before)[i], (*after)[i], 1e-6, fmt::format("{}, result {}", row.name, i));
      }
    }
  }
}

MakeGraph converted(DType from, DType between, DType to) {
  return [=](Builder& b) { return Values{b.convert(b.convert(b.parameter(from, {4}), between), to)}; };
}

TEST(SimplifyValues, Conversions) {
  const auto zero_or_nan = [](Builder& b) {
    const Value x = b.parameter(f32, {3}), zero = b.filled(f32, {3}, 0);
    return Values{b.convert(b.binary(Op::minimum, b.binary(Op::maximum, x, zero), zero), DType::pred),
                  b.convert(b.add(Op::clamp, {zero, x, zero}), DType::pred)};
  };
  const auto through_pred = [](Builder& b) {
    const Value pred = b.add(Op::bitcast_convert, {b.parameter(s8, {3})}, ConvertAttributes{DType::pred});
    return Values{b.add(Op::bitcast_convert, {pred}, ConvertAttributes{s8})};
  };
  expect_values_stay({
      {"s32 to u8 through f64 saturates", converted(s32, DType::f64, u8), {integers(s32, {300, -5, 7, 255})}},
      {"s8 to u8 through f32 saturates", converted(s8, f32, u8), {integers(s8, {-1, -5, 7, 100})}},
      {"u8 to s8 through bf16 saturates", converted(u8, DType::bf16, s8), {integers(u8, {200, 5, 7, 100})}},
      {"u8 to s32 through f32 fits", converted(u8, f32, s32), {integers(u8, {200, 5, 7, 255})}},
      {"NaN is not zero", zero_or_nan, {floats(f32, {std::nan(""), 1, -1})}},
      {"a pred's byte is 0 or 1", through_pred, {integers(s8, {127, 0, -1})}},
  });
}

MakeGraph one_hot(DType dtype, std::int64_t classes) {
  return [=](Builder& b) {
    const Value index = b.parameter(dtype, {3}), value = b.parameter(f32, {3});
    const Value place = b.broadcast(b.iota(dtype, {classes}, 0), {3, classes}, {1});
    const Value hit = b.compare(Comparison::eq, place, b.broadcast(index, {3, classes}, {0}));
    const Value row = b.select(hit, b.broadcast(value, {3, classes}, {0}), b.filled(f32, {3, classes}, 0));
    return Values{b.reduce(ReduceKind::sum, row, {1})};
  };
}

TEST(SimplifyValues, IndicesThatWrap) {
  const std::vector<Tensor> small = {integers(u8, {0, 50, 255}), floats(f32, {1, 2, 3})};
  const auto all_rows = [](Builder& b) {
    const Value x = b.parameter(f32, {300}), index = b.iota(u8, {300}, 0), update = b.parameter(f32, {300});
    return Values{
        b.add(Op::scatter, {x, index, update}, ScatterAttributes{{}, {0}, {0}, {}, {}, 1, ReduceKind::replace, false})};
  };
  expect_values_stay({
      {"as many classes as a byte has values", one_hot(u8, 256), small},
      {"more", one_hot(u8, 300), small},
      {"one fewer", one_hot(u8, 255), small},
      {"as many as are not negative", one_hot(s8, 128), {integers(s8, {0, 50, -1}), small[1]}},
      {"rows behind the last index stay", all_rows, {floats(f32, Floats(300, 0)), floats(f32, Floats(300, 1))}},
  });
}

TEST(SimplifyValues, SlicesOfSlicesAndIotas) {
  const auto twice = [](Dims limits, Dims strides, Dims start, Dims limit, Dims stride) -> MakeGraph {
    return [=](Builder& b) {
      const Value x = b.slice(b.parameter(f32, {10}), {0}, limits, strides);
      return Values{b.slice(x, start, limit, stride)};
    };
  };
  const auto counted = [](DType dtype, std::int64_t from, std::int64_t to) -> MakeGraph {
    return [=](Builder& b) { return Values{b.slice(b.iota(dtype, {400}, 0), {from}, {to})}; };
  };
  const std::vector<Tensor> ten = {floats(f32, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})};
  expect_values_stay({
      {"nothing, behind the last of every third", twice({10}, {3}, {4}, {4}, {1}), ten},
      {"one, by an enormous step", twice({10}, {2}, {1}, {5}, {std::int64_t{1} << 38}), ten},
      {"bf16 counts by twos from 256", counted(DType::bf16, 257, 261), {}},
      {"bf16 below", counted(DType::bf16, 250, 256), {}},
      {"f8e4m3 counts by twos from 16", counted(DType::f8e4m3, 17, 23), {}},
  });
}

TEST(SimplifyValues, IntegersBeyondDoubles) {
  const auto table = [](Builder& b) {
    const Value pair = b.constant(dense_integers({s64, {2}}, Integers{two53, two53 + 1}));
    return Values{b.broadcast(pair, {3, 2}, {1})};
  };
  const auto above = [](Builder& b) {
    const auto spread = [&](std::int64_t value) { return b.broadcast(scalar(b, s64, value), {2}, {}); };
    const Value clamped = b.add(Op::clamp, {spread(0), b.parameter(s64, {2}), spread(two53)});
    return Values{b.compare(Comparison::le, b.binary(Op::add, clamped, spread(1)), spread(two53))};
  };
  const auto shifted = [](Builder& b) {
    const Value x = b.parameter(u8, {2}), by = b.broadcast(scalar(b, u8, 63), {2}, {});
    const Value copies = b.binary(Op::shift_right_arithmetic, x, by);
    return Values{b.compare(Comparison::le, copies, b.broadcast(scalar(b, u8, 64), {2}, {}))};
  };
  const auto masked = [](Builder& b) {
    const Value x = b.parameter(s64, {2}), mask = scalar(b, s64, std::numeric_limits<std::int64_t>::max());
    return Values{b.binary(Op::bit_and, x, b.broadcast(mask, {2}, {}))};
  };
  expect_values_stay({
      {"neighbours that are one double", table, {}},
      {"the end of a range", above, {integers(s64, {two53, 5})}},
      {"copies of the top bit", shifted, {integers(u8, {128, 3})}},
      {"the greatest mask", masked, {integers(s64, {-1, 5})}},
  });
}

TEST(SimplifyValues, SumsAreRoundedOnce) {
  const auto joined = [](Builder& b) {
    const Value x = b.parameter(f16, {2}), y = b.parameter(f16, {2});
    return Values{b.reduce(ReduceKind::sum, b.concatenate({x, y}, 0), {0})};
  };
  const auto into_a_row = [](Builder& b) {
    const Value x = b.parameter(f16, {1}), index = b.parameter(s32, {40}), update = b.parameter(f16, {40});
    return Values{
        b.add(Op::scatter, {x, index, update}, ScatterAttributes{{}, {0}, {0}, {}, {}, 1, ReduceKind::sum, false})};
  };
  const auto no_rows = [](Builder& b) {
    const Value x = b.parameter(f32, {0, 3}), index = b.parameter(s32, {5}), update = b.parameter(f32, {5, 3});
    return Values{
        b.add(Op::scatter, {x, index, update}, ScatterAttributes{{1}, {0}, {0}, {}, {}, 1, ReduceKind::sum, false})};
  };
  const auto many_ones = [](Builder& b) {
    return Values{b.reduce(ReduceKind::sum, b.broadcast(b.parameter(f32, {1}), {1, 4099, 4099}, {0}), {1, 2})};
  };
  constexpr std::int64_t n = std::int64_t{1} << 16;
  const auto not_the_mean = [](Builder& b) {
    const Value x = b.parameter(f32, {n}), sum = b.reduce(ReduceKind::sum, x, {0});
    const Value mean = b.binary(Op::divide, sum, b.scalar(f32, static_cast<double>(n) + 0.03125));
    return Values{b.reduce(ReduceKind::sum, b.binary(Op::subtract, x, b.broadcast(mean, {n}, {})), {0})};
  };
  Tensor nothing = Tensor::zeros({f32, {0, 3}}), updates = Tensor::zeros({f32, {5, 3}});
  expect_values_stay({
      {"parts of a sum may be too large", joined, {floats(f16, {40000, 30000}), floats(f16, {-40000, -20000})}},
      {"and of a scatter's",
       into_a_row,
       {floats(f16, {-40000}), integers(s32, Integers(40, 0)), floats(f16, Floats(40, 2000))}},
      {"into no row", no_rows, {nothing, integers(s32, Integers(5, 0)), updates}},
      {"a count that is no f32", many_ones, {floats(f32, {1})}},
      {"deviations from almost the mean", not_the_mean, {floats(f32, Floats(n, 1024))}},
  });
}

std::shared_ptr<const Graph> region(const MakeGraph& make) { return std::make_shared<const Graph>(made(make)); }

/// for (i = start; i < limit; i += step) trips += i < 100
MakeGraph counting(DType dtype, std::int64_t start, std::int64_t step, std::int64_t limit) {
  return [=](Builder& b) {
    const auto body = region([=](Builder& r) {
      const Value i = r.parameter(dtype, {}), trips = r.parameter(s32, {});
      const Value small = r.compare(Comparison::lt, i, scalar(r, dtype, 100));
      return Values{r.binary(Op::add, i, scalar(r, dtype, step)), r.binary(Op::add, trips, r.convert(small, s32))};
    });
    const auto condition = region([=](Builder& r) {
      const Value i = r.parameter(dtype, {});
      r.parameter(s32, {});
      return Values{r.compare(Comparison::lt, i, scalar(r, dtype, limit))};
    });
    const Value start_trips = b.parameter(s32, {});
    const Value loop = b.add(Op::loop, {scalar(b, dtype, start), start_trips}, LoopAttributes{}, {body, condition});
    return Values{{loop.node, 0}, {loop.node, 1}};
  };
}

TEST(SimplifyValues, CountersThatWrap) {
  const std::vector<Tensor> zero = {integers(s32, {0}, Dims{})};
  expect_values_stay({
      {"u8 past 255", counting(u8, 200, 100, 250), zero},
      {"u8 past 255, by what it was below 100", counting(u8, 100, 100, 250), zero},
      {"s8 past 127", counting(s8, 100, 100, 120), zero},
      {"u64 from the greatest", counting(u64, -1, 2, 1), zero},
      {"u8 that does not", counting(u8, 0, 7, 200), zero},
  });
}

TEST(SimplifyValues, EqualCountersThatNothingNeeds) {
  const auto loop = [](Builder& b) {
    const auto body = region([](Builder& r) {
      Values next;
      for (const int step : {1, 2, 2}) next.push_back(r.binary(Op::add, r.parameter(s32, {}), r.scalar(s32, step)));
      return next;
    });
    const auto condition = region([](Builder& r) {
      const Value i = r.parameter(s32, {});
      r.parameter(s32, {});
      r.parameter(s32, {});
      return Values{r.compare(Comparison::lt, i, r.scalar(s32, 5))};
    });
    const Value zero = b.scalar(s32, 0);
    const Value made = b.add(Op::loop, {zero, zero, zero}, LoopAttributes{}, {body, condition});
    return Values{{made.node, 0}};
  };
  expect_values_stay({{"two counters by two", loop, {}}});
}

TEST(SimplifyValues, CountersBeyondDoubles) {
  constexpr std::int64_t start = (std::int64_t{1} << 60) + 1;
  const auto loop = [](Builder& b) {
    const auto body = region([](Builder& r) {
      const Value i = r.parameter(s64, {}), sum = r.parameter(s64, {2});
      return Values{r.binary(Op::add, i, scalar(r, s64, 1)), r.binary(Op::add, sum, r.broadcast(i, {2}, {}))};
    });
    const auto condition = region([](Builder& r) {
      const Value i = r.parameter(s64, {});
      r.parameter(s64, {2});
      return Values{r.compare(Comparison::lt, i, scalar(r, s64, start + 3))};
    });
    const Value sum = b.parameter(s64, {2});
    const Value made = b.add(Op::loop, {scalar(b, s64, start), sum}, LoopAttributes{3}, {body, condition});
    return Values{{made.node, 0}, {made.node, 1}};
  };
  expect_values_stay({{"each trip's own", loop, {integers(s64, {0, 0})}}});
}

// Two calls of what is not known may differ, wherever they stand.
TEST(SimplifyValues, OpaqueOperatorsInRegionsAreNotMerged) {
  Graph graph = made([](Builder& b) {
    const auto branch = [](bool draws) {
      return region([=](Builder& r) {
        const Value x = r.parameter(s32, {4});
        OpaqueAttributes random;
        random.target = "random";
        random.results = {{s32, {4}}};
        return Values{draws ? r.binary(Op::add, x, r.add(Op::opaque, {}, random)) : x};
      });
    };
    const Value p = b.parameter(DType::pred, {}), x = b.parameter(s32, {4});
    const auto yes = branch(true), no = branch(false);
    const Value one = b.add(Op::conditional, {p, x}, NoAttributes{}, {yes, no});
    const Value other = b.add(Op::conditional, {p, x}, NoAttributes{}, {yes, no});
    return Values{b.binary(Op::subtract, one, other)};
  });
  ASSERT_TRUE(simplify(graph, {}));
  EXPECT_EQ(std::ranges::count(graph.nodes(), Op::conditional, &Node::op), 2);
}

// Integers must come out as they were, bit for bit; floating values between them are rounded on both sides.
TEST(SimplifyValues, RandomGraphsOfExtremes) {
  int shrunk = 0;
  for (std::uint64_t seed = 1; seed <= 8000; ++seed) {
    const Graph graph = test::edge_graph(seed);
    const std::vector<Tensor> arguments = test::edge_arguments(graph, seed);
    EvaluateOptions rounding;
    rounding.round = true;
    const auto before = evaluate(graph, arguments, rounding);
    ASSERT_TRUE(before) << "seed " << seed << ": " << before.error().message;
    Graph simple = graph;
    SimplifyOptions options;
    options.verify = true;
    const auto report = simplify(simple, options);
    ASSERT_TRUE(report) << "seed " << seed << ": " << report.error().message << "\n" << to_text(graph);
    const auto after = evaluate(simple, arguments, rounding);
    ASSERT_TRUE(after) << "seed " << seed << ": " << after.error().message;
    for (std::size_t i = 0; i < before->size(); ++i) {
      ASSERT_EQ((*before)[i].integers, (*after)[i].integers) << "seed " << seed << ", result " << i << "\n"
                                                             << to_text(graph) << to_text(simple);
    }
    shrunk += simple.size() < graph.size() ? 1 : 0;
  }
  EXPECT_GT(shrunk, 4000) << "there is little to simplify";
}

}  // namespace
}  // namespace stitch::graph
