// Which operands' copies can be realigned, and what a schedule says of it.
#include "kernel/contraction/realigned_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::DType;
using testing::HasSubstr;

const DeviceSpec& device() {
  static const DeviceSpec h100 = *find_device("h100");
  return h100;
}

/// With copies of 16 bytes, whether or not they can be.
std::string reason(const ContractionProblem& problem, bool left) {
  ContractionSchedule s = *default_schedule(problem, device());
  (left ? s.left_copy : s.right_copy) = realigned_bytes;
  (left ? s.left_realigned : s.right_realigned) = true;
  return unlike_realigned(problem, s, left);
}

TEST(RealignedCopy, IsSaidBySchedules) {
  const ContractionProblem problem = *derive_contraction(matmul(DType::f16, 255, 256, 511));
  const ContractionSchedule narrow = *default_schedule(problem, device());
  EXPECT_THAT(to_string(narrow), HasSubstr("copy 2/16 "));
  const ContractionSchedule s = realigned(problem, narrow, true, true);
  EXPECT_THAT(to_string(s), HasSubstr("copy 16r/16 ")) << "what is aligned is not realigned";
  EXPECT_TRUE(check_legality(problem, s, device()));
  ContractionSchedule unlike = narrow;
  unlike.left_copy = realigned_bytes;
  EXPECT_NE(schedule_hash(s), schedule_hash(unlike));
  EXPECT_FALSE(check_legality(problem, unlike, device())) << "a copy that is not aligned";
  EXPECT_EQ(realigned(problem, narrow, false, true), narrow);
}

TEST(RealignedCopy, HoldsTwoWordsForOne) {
  const ContractionProblem problem = *derive_contraction(matmul(DType::f16, 255, 256, 511));
  ContractionSchedule s = *default_schedule(problem, device());
  const ContractionShape before = shape_of(problem, s);
  s = realigned(problem, s, true, false);
  const ContractionShape shape = shape_of(problem, s);
  const auto copies = shape.left_bytes / realigned_bytes / shape.threads;
  ASSERT_GT(copies, 0);
  EXPECT_EQ(shape.held, 8 * copies);
  EXPECT_EQ(shape.registers, before.registers + shape.held);
}

/// Heads of so many features, between which a line goes on elsewhere: a run has parts of two of them.
ContractionProblem heads(std::int64_t width) {
  graph::Builder b;
  const graph::Value x = b.parameter(DType::f16, {64, 70, width});
  const graph::Value joined = b.reshape(b.transpose(x, {1, 0, 2}), {70, 64 * width});
  const graph::Value w = b.parameter(DType::f16, {64 * width, 40});
  graph::DotAttributes dot;
  dot.lhs_contracting = {1};
  dot.rhs_contracting = {0};
  dot.result = DType::f32;
  return *derive_contraction(*b.finish({b.dot(joined, w, dot)}));
}

TEST(RealignedCopy, NeedsLinesThatAreNotAligned) {
  EXPECT_EQ(reason(*derive_contraction(matmul(DType::f16, 255, 255, 511)), true), "");
  EXPECT_EQ(reason(*derive_contraction(matmul(DType::f16, 255, 255, 511)), false), "");
  EXPECT_EQ(reason(*derive_contraction(matmul(DType::f32, 255, 255, 511)), true), "");
  EXPECT_EQ(reason(*derive_contraction(matmul(DType::f16, 256, 256, 512)), true), "lines that are aligned");
  EXPECT_EQ(parted_line(heads(33).left), 33);
  EXPECT_EQ(reason(heads(33), true), "");
  EXPECT_EQ(reason(heads(7), true), "lines of 7 elements") << "a run would have three of them";
}

TEST(RealignedCopy, KnowsWhichElementIsTheLast) {
  ContractionOperand operand;
  operand.free = {{7, 33}};
  operand.contracted = {{33, 1}};
  EXPECT_TRUE(rises(operand));
  operand.free = {{3, 1}, {7, 99}};
  EXPECT_FALSE(rises(operand)) << "row 6 lies behind row 7";
  operand.free = {{3, 700}, {7, 99}};
  EXPECT_TRUE(rises(operand));
}

}  // namespace
}  // namespace stitch::kernel::test
