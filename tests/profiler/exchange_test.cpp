#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "graph/builder.h"
#include "tests/profiler/kernel_case.h"

// Reductions that cross the warps of a block do so through two exchange buffers in turn, in loops over rows too. What a
// column is left with after all rows is exchanged behind the loops, all of it at once. A buffer that is too small, or
// written before the last turn's readers have left it, is a race, which the emulated device finds.
namespace stitch::profiler::test {
namespace {

using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;
using kernel::Anchor;
using kernel::GroupProgram;

/// Rows divided `times` by what their sum says, and the column sums of what is there before, between and after.
Result<graph::Graph> rows_and_columns(int times) {
  graph::Builder b;
  const graph::Dims dims = {512, 1024};
  const Value y = b.parameter(DType::f32, dims);
  Value x = b.parameter(DType::f32, dims);
  std::vector<Value> results = {b.reduce(ReduceKind::sum, x, {0})};
  for (int i = 0; i < times; ++i) {
    const Value row = b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {1});
    x = b.binary(Op::divide, x, b.broadcast(b.unary(Op::sqrt, row), dims, {0}));
    results.push_back(b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, y), {0}));
  }
  results.push_back(b.reduce(ReduceKind::sum, x, {0}));
  results.push_back(x);
  return b.finish(results);
}

bool is_partial(const GroupProgram& group, const kernel::ReductionPlan& plan) {
  return group.structure.anchors[plan.anchor].kind == Anchor::Kind::partial;
}

/// Loops over rows whose reductions cross warps, with columns that cross them behind the loops.
bool exchanges_in_a_loop(const kernel::KernelProgram& program) {
  const GroupProgram& group = program.phases[0].groups[0];
  const auto crosses = [&](bool partial) {
    return std::ranges::any_of(group.reductions, [&](const kernel::ReductionPlan& plan) {
      return plan.exchange > 1 && is_partial(group, plan) == partial;
    });
  };
  return program.phases.size() == 2 && !group.outer_loops.empty() && crosses(false) && crosses(true);
}

class ExchangesEmulated : public testing::TestWithParam<int> {};

TEST_P(ExchangesEmulated, OfRowsAndColumnsDoNotMeet) {
  constexpr int most = 6;
  const auto graph = std::make_shared<const graph::Graph>(*rows_and_columns(GetParam()));
  const auto space = search::explore_space(*graph, GridScorer(), {.keep = 4000, .wide = true, .combinations = 16});
  ASSERT_TRUE(space.ok()) << space.error().message;
  VerifyOptions options;
  options.distributions.resize(1);
  int verified = 0;
  for (const search::StitchCandidate& candidate : space->candidates) {
    if (verified == most || !exchanges_in_a_loop(candidate.program)) continue;
    const auto kernel = codegen::generate(*graph, candidate.program, {});
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const Verification run = verify({graph, candidate.program, *kernel}, options);
    EXPECT_TRUE(run.correct) << run.failure << "\n" << kernel->source;
    ++verified;
  }
  EXPECT_GE(verified, 2);
}

INSTANTIATE_TEST_SUITE_P(Times, ExchangesEmulated, testing::Values(1, 2, 3));

}  // namespace
}  // namespace stitch::profiler::test
