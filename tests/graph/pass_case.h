#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/canonical.h"
#include "graph/passes/common_subexpressions.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/pass.h"
#include "graph/print.h"
#include "graph/reference/evaluate.h"
#include "graph/verify.h"
#include "tests/graph/random_graph.h"

namespace stitch::graph::test {

using MakeGraph = std::function<std::vector<Value>(Builder&)>;

/// One row of a rule table: what a pass gets and what it makes of it. No `after`: it leaves the graph alone.
/// Both sides make the same parameters in the same order.
struct PassCase {
  std::string name;
  MakeGraph before;
  MakeGraph after = {};
};

inline Graph made(const MakeGraph& make) {
  Builder builder;
  const std::vector<Value> results = make(builder);
  Result<Graph> graph = builder.finish(results);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return graph.ok() ? std::move(*graph) : Graph{};
}

/// Without dead nodes and duplicates, which are not what a case is about.
inline Graph tidy(Graph graph) {
  EXPECT_TRUE(remove_dead_code(graph, {}).ok());
  EXPECT_TRUE(merge_common_subexpressions(graph, {}).ok());
  return graph;
}

inline void expect_equal_tensors(const Tensor& expected, const Tensor& actual, double relative,
                                 const std::string& what) {
  ASSERT_EQ(expected.type, actual.type) << what;
  EXPECT_EQ(expected.integers, actual.integers) << what;
  for (std::size_t i = 0; i < expected.floats.size(); ++i) {
    const double x = expected.floats[i], y = actual.floats[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ASSERT_LE(std::fabs(x - y), relative * std::max(1.0, std::fabs(x))) << what << ", element " << i;
  }
}

/// The two graphs compute the same from random arguments.
inline void expect_same_values(const Graph& expected, const Graph& actual, std::uint64_t seed, double relative,
                               const std::string& what) {
  const std::vector<Tensor> arguments = random_arguments(expected, seed);
  const auto left = evaluate(expected, arguments), right = evaluate(actual, arguments);
  ASSERT_TRUE(left.ok()) << what << ": " << left.error().message;
  ASSERT_TRUE(right.ok()) << what << ": " << right.error().message;
  ASSERT_EQ(left->size(), right->size()) << what;
  for (std::size_t i = 0; i < left->size(); ++i) {
    expect_equal_tensors((*left)[i], (*right)[i], relative, fmt::format("{}, seed {}, result {}", what, seed, i));
  }
}

using PassFunction = Result<int> (*)(Graph&, const PassContext&);

/// Runs one pass until it changes nothing; the graph is verified after each run.
inline Graph run_pass(PassFunction pass, Graph graph, const PassContext& context, const std::string& what) {
  for (int round = 0; round < 8; ++round) {
    const Result<int> changes = pass(graph, context);
    EXPECT_TRUE(changes.ok()) << what << ": " << (changes.ok() ? "" : changes.error().message);
    if (!changes.ok() || *changes == 0) return graph;
    const Status status = verify(graph);
    EXPECT_TRUE(status.ok()) << what << ": " << (status.ok() ? "" : status.error().message);
  }
  ADD_FAILURE() << what << ": does not settle\n" << to_text(graph);
  return graph;
}

/// Every row: the pass gives exactly the expected graph, and that computes the same.
inline void expect_rewrites(PassFunction pass, const std::vector<PassCase>& cases, const PassContext& context = {}) {
  for (const PassCase& row : cases) {
    const Graph before = tidy(made(row.before));
    const Graph actual = tidy(run_pass(pass, before, context, row.name));
    const Graph expected = row.after ? tidy(made(row.after)) : before;
    EXPECT_EQ(region_key(actual).hex(), region_key(expected).hex())
        << row.name << "\nexpected " << to_text(expected) << "\nactual " << to_text(actual);
    for (std::uint64_t seed = 1; seed <= 2; ++seed) expect_same_values(before, actual, seed, 2e-6, row.name);
  }
}

}  // namespace stitch::graph::test
