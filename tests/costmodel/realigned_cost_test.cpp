// What realigned copies take, and where they pay.
#include "costmodel/contraction/realigned_cost.h"

#include <gtest/gtest.h>

#include "costmodel/contraction/contraction_time.h"
#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/realigned_copy.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::costmodel::test {
namespace {

using kernel::test::matmul;

TEST(RealignedCost, FollowsFromTheAlignment) {
  const auto of_depth = [](std::int64_t depth) {
    return realigned_instructions(kernel::derive_contraction(matmul(graph::DType::f16, 64, 64, depth))->left);
  };
  EXPECT_LT(of_depth(68), of_depth(66)) << "lines begin at any 8 bytes, or 4";
  EXPECT_LT(of_depth(66), of_depth(65));
}

TEST(RealignedCost, OfOddLinesIsLessThanThatOfElements) {
  for (const char* target : {"a100", "l4", "h100"}) {
    const DeviceSpec device = *find_device(target);
    const auto problem = *kernel::derive_contraction(matmul(graph::DType::f16, 2047, 2049, 2051));
    kernel::ContractionSchedule narrow = *kernel::default_schedule(problem, device);
    narrow.warp_columns = 32;  // leaves registers for what is held
    const kernel::ContractionSchedule realigned = kernel::realigned(problem, narrow, true, true);
    ASSERT_TRUE(kernel::check_legality(problem, realigned, device)) << to_string(realigned);
    EXPECT_EQ(realigned_sectors(problem, narrow, true), 1);
    EXPECT_GT(realigned_sectors(problem, realigned, true), 1);
    const ContractionTime before = contraction_time(problem, narrow, device),
                          after = contraction_time(problem, realigned, device);
    EXPECT_LT(after.total, 0.8 * before.total) << target;
    EXPECT_GT(after.l2_bytes, before.l2_bytes) << "words that two lines share";
    EXPECT_GT(after.shared, before.shared) << "words that two lanes share";
  }
}

}  // namespace
}  // namespace stitch::costmodel::test
