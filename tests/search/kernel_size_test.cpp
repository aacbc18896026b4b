#include "search/schedule/kernel_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search/partition/fusion_explorer.h"
#include "tests/kernel/example_graphs.h"
#include "tests/search/plan_checks.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

Graph chain(int length, DType dtype = DType::f32) {
  Builder b;
  Value value = b.parameter(dtype, {64, 128});
  for (int i = 0; i < length; ++i) value = b.add(Op::tanh, {value});
  return finished(b, {value});
}

TEST(KernelSize, CountsWhatHangsTogether) {
  EXPECT_EQ(connected_instructions(chain(1)), 14);
  EXPECT_EQ(connected_instructions(chain(10)), 140);
  EXPECT_EQ(connected_instructions(chain(10, DType::f64)), 600);
  EXPECT_EQ(connected_instructions(Graph()), 0);
}

TEST(KernelSize, UpdatesThatShareANumberAreApart) {
  Builder b;
  const Value rate = b.add(Op::tanh, {b.parameter(DType::f32, {})});
  std::vector<Value> results;
  for (int i = 0; i < 100; ++i) {
    const Value x = b.parameter(DType::f32, {64, 128});
    results.push_back(b.add(Op::tanh, {b.add(Op::multiply, {x, b.broadcast_to(rate, {64, 128})})}));
  }
  EXPECT_LT(connected_instructions(finished(b, results)), 100) << "one update with its scaling";
}

TEST(KernelSize, ALongChainIsSplitAndNotRefused) {
  const Graph fragment = chain(1000);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto plan = explore_fusion(fragment, cache, {});
  ASSERT_TRUE(plan) << plan.error().message;
  check_plan(fragment, *plan);
  EXPECT_GE(plan->kernels.size(), 2U);
  for (const PlannedKernel& kernel : plan->kernels) {
    EXPECT_LE(connected_instructions(kernel.kernel->graph), most_connected_instructions);
  }
  const auto whole = cache.explore(fragment);
  ASSERT_TRUE(whole);
  EXPECT_FALSE(whole->kernel->feasible());
  EXPECT_EQ(whole->kernel->why,
            (Error{ErrorKind::constraint,
                   "operators that hang together take about 14000 instructions, at most 8000 fit a kernel"}));
}

}  // namespace
}  // namespace stitch::search::test
