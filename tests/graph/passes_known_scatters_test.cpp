#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graph/literal.h"
#include "graph/passes/indexing.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph::test {
namespace {

constexpr DType f32 = DType::f32, s32 = DType::s32;

ConstantAttributes indices_of(const Dims& dims, const std::vector<std::int64_t>& values, DType dtype = s32) {
  return dense_integers({dtype, dims}, values);
}

std::int64_t scatters(const Graph& graph) { return std::ranges::count(graph.nodes(), Op::scatter, &Node::op); }

/// The pass leaves so many scatters, and the graph computes what it did.
void expect_scatters(const MakeGraph& make, std::int64_t left, const std::string& what) {
  const Graph before = tidy(made(make));
  const Graph after = tidy(run_pass(simplify_indexing, before, {}, what));
  EXPECT_EQ(scatters(after), left) << what << "\n" << to_text(after);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) expect_same_values(before, after, seed, 2e-6, what);
}

/// x[indices] ⊕= u of whole rows; x has `extent` rows and eight more, each of which an update hits too.
MakeGraph rows(std::vector<std::int64_t> indices, ReduceKind kind, DType dtype = f32, std::int64_t extent = 9) {
  for (std::int64_t i = 0; i < 8; ++i) indices.push_back(extent + i);
  extent += 8;
  return [=](Builder& b) {
    const Value x = b.parameter(dtype, {extent, 4}), u = b.parameter(dtype, {std::ssize(indices), 4});
    const Value i = b.constant(indices_of({std::ssize(indices)}, indices));
    return std::vector<Value>{b.add(Op::scatter, {x, i, u}, ScatterAttributes{{1}, {0}, {0}, {}, {}, 1, kind, false})};
  };
}

TEST(PassesKnownScatters, RowsBecomeGathers) {
  using enum ReduceKind;
  for (const ReduceKind kind : {sum, product, max, min, replace}) {
    const std::string name(to_string(kind));
    expect_scatters(rows({1, 3}, kind), 0, "a gap, " + name);
    expect_scatters(rows({7, 8, 99, -1}, kind), 0, "out of range, " + name);
    expect_scatters(rows({2, 5, 2, 0, 5}, kind), 0, "two meet, " + name);
    expect_scatters(rows({8, 7, 6, 5, 4, 3, 2, 1, 0}, kind), 0, "everywhere, " + name);
    expect_scatters(rows({2, 5, 2, 0, 5}, kind, DType::s32), 0, "integers, " + name);
  }
}

TEST(PassesKnownScatters, MoreThanTwoMeetOnlyToReplace) {
  expect_scatters(rows({3, 3, 3, 1}, ReduceKind::sum), 1, "three sums");
  expect_scatters(rows({3, 3, 3, 1}, ReduceKind::replace), 0, "the last of three");
}

TEST(PassesKnownScatters, FewRowsOfManyStay) {
  expect_scatters(rows({3}, ReduceKind::sum, f32, 1000), 1, "nine of a thousand rows");
  expect_scatters(rows({3, 9}, ReduceKind::sum, f32, 100), 0, "ten of a hundred rows");
}

/// The gradient of a gather of pairs, x[:, i, j], with the pairs' dimension first, last or between.
TEST(PassesKnownScatters, PairsOfIndices) {
  std::vector<std::int64_t> pairs;
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t j = 0; j < i; ++j) pairs.insert(pairs.end(), {i, j});
  }
  const std::int64_t count = std::ssize(pairs) / 2;
  for (const bool swapped : {false, true}) {
    expect_scatters(
        [&](Builder& b) {
          const Value x = b.parameter(f32, {3, 5, 5}), u = b.parameter(f32, {3, count});
          const Value i = b.constant(indices_of({count, 2}, pairs, DType::s64));
          const Dims order = swapped ? Dims{2, 1} : Dims{1, 2};
          return std::vector<Value>{
              b.add(Op::scatter, {x, i, u}, ScatterAttributes{{0}, {1, 2}, order, {}, {}, 1, ReduceKind::sum, false})};
        },
        0, swapped ? "columns first" : "rows first");
  }
  expect_scatters(
      [&](Builder& b) {  // the vector of indices is the first dimension
        std::vector<std::int64_t> apart;
        for (const std::int64_t k : {0, 1}) {
          for (std::int64_t p = 0; p < count; ++p) apart.push_back(pairs[2 * p + k]);
        }
        const Value x = b.parameter(f32, {5, 6, 5}), u = b.parameter(f32, {count, 6});
        const Value i = b.constant(indices_of({2, count}, apart));
        return std::vector<Value>{
            b.add(Op::scatter, {x, i, u}, ScatterAttributes{{1}, {0, 2}, {0, 2}, {}, {}, 0, ReduceKind::sum, false})};
      },
      0, "vectors first");
}

TEST(PassesKnownScatters, RandomOnes) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int turn = 0; turn < 60; ++turn) {
    const std::int64_t rows = 1 + below(12), a = 1 + below(4), c = 1 + below(5);
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < a * c; ++i) indices.push_back(below(rows + 2) - 1);
    const ReduceKind kind = turn % 2 == 0 ? ReduceKind::sum : ReduceKind::replace;
    const Graph before = tidy(made([&](Builder& b) {
      const Value x = b.parameter(f32, {3, rows, 2}), u = b.parameter(f32, {a, 3, c, 2});
      const Value i = b.constant(indices_of({a, c}, indices));
      return std::vector<Value>{
          b.add(Op::scatter, {x, i, u}, ScatterAttributes{{1, 3}, {1}, {1}, {}, {}, 2, kind, false})};
    }));
    const std::string what = "turn " + std::to_string(turn);
    const Graph after = tidy(run_pass(simplify_indexing, before, {}, what));
    expect_same_values(before, after, turn + 1, 2e-6, what);
  }
}

TEST(PassesKnownScatters, FewUpdatesStay) {
  expect_scatters(
      [](Builder& b) {
        const Value x = b.parameter(f32, {9, 4}), u = b.parameter(f32, {2, 4});
        const Value i = b.constant(indices_of({2}, {1, 5}));
        return std::vector<Value>{
            b.add(Op::scatter, {x, i, u}, ScatterAttributes{{1}, {0}, {0}, {}, {}, 1, ReduceKind::sum, false})};
      },
      1, "two updates");
}

TEST(PassesKnownScatters, PartsOfRowsStay) {
  expect_scatters(
      [](Builder& b) {
        const Value x = b.parameter(f32, {9, 4}), u = b.parameter(f32, {9, 3});
        const Value i = b.constant(indices_of({9}, {8, 7, 6, 5, 4, 3, 2, 1, 0}));
        return std::vector<Value>{
            b.add(Op::scatter, {x, i, u}, ScatterAttributes{{1}, {0}, {0}, {}, {}, 1, ReduceKind::sum, false})};
      },
      1, "three of four columns");
}

}  // namespace
}  // namespace stitch::graph::test
