// Gradients of scans that are written out as recursions, as jax differentiates jax.lax.associative_scan.

#include "graph/passes/scans/scan_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/passes/scans/associative_scans.h"
#include "graph/simplify.h"
#include "tests/graph/associative_scans.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph::test {
namespace {

constexpr DType f32 = DType::f32;

/// Scans, of whatever kind.
std::int64_t scans(const Graph& graph) {
  return std::ranges::count_if(graph.nodes(),
                               [](const Node& node) { return node.op == Op::associative_scan || node.op == Op::scan; });
}

/// Whether a recursion's level is left.
bool has_levels(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    const auto above_one = [](std::int64_t stride) { return stride > 1; };
    return node.op == Op::slice && std::ranges::any_of(node.as<SliceAttributes>().strides, above_one);
  });
}

using Row = DifferentiatedScan;

class ScanGradients : public ::testing::TestWithParam<Row> {};

TEST_P(ScanGradients, AreScansInTheOtherDirection) {
  for (const std::int64_t length : {4, 5, 8, 13, 31, 64}) {
    for (const bool reverse : {false, true}) {
      const std::string what = fmt::format("{} elements{}", length, reverse ? ", from the end" : "");
      const Graph before = tidy(made(training(GetParam(), {3, length, 2}, 1, reverse)));
      const Graph after = run_pass(recognise_associative_scans, before, {}, what);
      EXPECT_EQ(scans(after), 2) << what << "\n" << to_text(after);
      EXPECT_FALSE(has_levels(after)) << what << "\n" << to_text(after);
      expect_same_values(before, after, length, 4e-6, what);
    }
  }
}

TEST_P(ScanGradients, NeedNoReversals) {
  const Graph before = made(training(GetParam(), {3, 12}, 1, true));
  Graph after = before;
  ASSERT_TRUE(simplify(after, {}).ok());
  EXPECT_EQ(scans(after), 2) << to_text(after);
  EXPECT_EQ(std::ranges::count(after.nodes(), Op::reverse, &Node::op), 0) << to_text(after);
  expect_same_values(before, after, 1, 4e-6, "from the end");
}

// The loss is a function of the scan; the elements are used elsewhere, before it and behind it.
TEST_P(ScanGradients, MayHaveOthersAddedToThem) {
  const Row& row = GetParam();
  const Graph before = tidy(made([&](Builder& b) {
    Values x;
    for (const DType dtype : row.dtypes) x.push_back(b.parameter(dtype, {2, 24}));
    const Value other = b.parameter(f32, {2, 24});
    const auto made = differentiated(b, row, x, 1, false, [&](Value y) { return b.binary(Op::multiply, y, other); });
    Values results = {b.unary(Op::exp, made.scanned[row.scanned])};
    for (const Value gradient : made.gradients) {
      // other + (one part + …), as where a later use of the elements has been differentiated first.
      Node last = b.graph().node(gradient.node);
      const bool sum = last.op == Op::add;
      const Value first = sum ? b.binary(Op::add, other, last.operands[0]) : b.binary(Op::add, other, gradient);
      const Value all = sum ? b.binary(Op::add, first, last.operands[1]) : first;
      results.push_back(b.binary(Op::multiply, all, all));
    }
    return results;
  }));
  const Graph after = run_pass(recognise_associative_scans, before, {}, row.name);
  EXPECT_EQ(scans(after), 2) << to_text(after);
  EXPECT_FALSE(has_levels(after)) << to_text(after);
  expect_same_values(before, after, 1, 2e-5, row.name);
}

const std::vector<Row> rows = differentiated_scans();
INSTANTIATE_TEST_SUITE_P(Combiners, ScanGradients, ::testing::ValuesIn(rows),
                         [](const auto& each) { return each.param.name; });

/// Nothing is replaced that would be another value.
void expect_kept(const MakeGraph& make, const std::string& what) {
  const Graph before = tidy(made(make));
  Graph after = before;
  ASSERT_TRUE(recognise_associative_scans(after, {}).ok());
  EXPECT_TRUE(has_levels(after)) << what << "\n" << to_text(after);
  expect_same_values(before, after, 1, 2e-6, what);
}

const Row& gated = rows[2];

// Every place where the recursion's derivative could be another one.
TEST(PassesScanGradients, OtherDerivativesAreNone) {
  enum class Fault { scaled, swapped, missing, crossed };
  for (const Fault fault : {Fault::scaled, Fault::swapped, Fault::missing, Fault::crossed}) {
    for (const int place : {0, 1, 2, 3, 4, 5, 6}) {
      int combination = 0;
      Row row = gated;
      row.transpose = [&](Builder& b, const Values& l, const Values& r, const Values& y, const Values& g) {
        if (combination++ != place) return transposed_recurrence(b, l, r, y, g);
        const auto doubled = [&](Value x) { return b.binary(Op::add, x, x); };
        auto [left, right] = transposed_recurrence(b, l, r, y, g);
        switch (fault) {
          case Fault::scaled: left[1] = doubled(left[1]); break;
          case Fault::swapped: std::swap(left[1], right[1]); break;
          case Fault::missing: right[0] = b.filled(f32, b.dims(right[0]), 0); break;
          case Fault::crossed: right[0] = b.binary(Op::multiply, r[1], g[1]); break;
        }
        return std::pair(left, right);
      };
      expect_kept(training(row, {2, 16}, 1), fmt::format("fault {} at {}", static_cast<int>(fault), place));
    }
  }
}

TEST(PassesScanGradients, IntermediateCotangentsThatOthersUseKeepTheRecursion) {
  expect_kept(
      [](Builder& b) {
        const Values x = {b.parameter(f32, {2, 16}), b.parameter(f32, {2, 16})};
        const Value cotangent = b.parameter(f32, {2, 16});
        Values seen;
        Row row = gated;
        row.transpose = [&](Builder& inner, const Values& l, const Values& r, const Values& y, const Values& g) {
          seen.push_back(inner.binary(Op::multiply, l[1], g[1]));
          return transposed_recurrence(inner, l, r, y, g);
        };
        const auto made = differentiated(b, row, x, 1, false, [&](Value) { return cotangent; });
        Values results = made.gradients;
        results.push_back(made.scanned[1]);
        results.push_back(b.unary(Op::exp, seen[3]));
        return results;
      },
      "a level's cotangent");
}

// Cotangents of both components would take a recurrence of matrices.
TEST(PassesScanGradients, OfTwoComponentsStayRecursions) {
  expect_kept(
      [](Builder& b) {
        const Values x = {b.parameter(f32, {2, 16}), b.parameter(f32, {2, 16})};
        const auto levels = scan_levels(b, recurrence, x, 1);
        const Values cotangents = {b.parameter(f32, {2, 16}), b.parameter(f32, {2, 16})};
        Values results = transposed(b, transposed_recurrence, *levels, cotangents, 1);
        results.insert(results.end(), levels->results.begin(), levels->results.end());
        return results;
      },
      "cotangents of both");
}

}  // namespace
}  // namespace stitch::graph::test
