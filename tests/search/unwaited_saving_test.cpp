// What loads before a kernel's wait are predicted to save.
#include "search/partition/unwaited_saving.h"

#include <gtest/gtest.h>

#include "search/schedule/stitch_explorer.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search {
namespace {

using namespace kernel::test;

Graph sum_of_two(std::int64_t elements) {
  Builder b;
  const Value x = b.parameter(DType::f32, {elements}), y = b.parameter(DType::f32, {elements});
  return finished(b, {b.binary(Op::add, x, y)});
}

double saving(std::int64_t elements, kernel::UnwaitedInputs inputs, const DeviceSpec& device) {
  const Graph graph = sum_of_two(elements);
  const auto found = search::explore_stitches(graph, RoughScorer(), {});
  EXPECT_TRUE(found) << found.error().message;
  return unwaited_saving_us(graph, found->front().program, inputs, device);
}

TEST(UnwaitedSaving, IsTheTimeOfTheirBytes) {
  const DeviceSpec h100 = *find_device("h100");
  constexpr std::int64_t elements = 1 << 16;
  EXPECT_EQ(saving(elements, 0, h100), 0);
  const double one = elements * 4.0 / h100.reachable_bandwidth() * 1e6;
  EXPECT_DOUBLE_EQ(saving(elements, 1, h100), one);
  EXPECT_DOUBLE_EQ(saving(elements, 3, h100), 2 * one);
}

TEST(UnwaitedSaving, IsNoMoreThanWhatIsLeftOfTheLaunchGap) {
  const DeviceSpec h100 = *find_device("h100");
  EXPECT_DOUBLE_EQ(saving(std::int64_t{1} << 26, 3, h100), h100.launch_us - h100.dependent_saving_us());
}

TEST(UnwaitedSaving, IsNothingWithoutDependentLaunches) { EXPECT_EQ(saving(1 << 16, 3, *find_device("a100")), 0); }

}  // namespace
}  // namespace stitch::search
