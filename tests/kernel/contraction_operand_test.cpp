// How wide an operand of a contraction can be copied.
#include "kernel/contraction/contraction_operand.h"

#include <gtest/gtest.h>

namespace stitch::kernel {
namespace {

/// Rows of `depth` elements of 16 bits, `apart` elements from one another.
ContractionOperand rows_of(std::int64_t depth, std::int64_t apart) {
  ContractionOperand operand;
  operand.dtype = graph::DType::f16;
  operand.free = {{64, apart}};
  operand.contracted = {{depth, 1}};
  return operand;
}

TEST(ContractionOperands, AreCopiedAlongWhatIsContiguous) {
  ContractionOperand operand = rows_of(32, 32);
  EXPECT_EQ(contiguity(operand), Contiguity::contracted);
  std::swap(operand.free, operand.contracted);
  EXPECT_EQ(contiguity(operand), Contiguity::free);
  operand.free = {{64, 2}};
  EXPECT_EQ(contiguity(operand), Contiguity::none);
  EXPECT_EQ(widest_access(operand), 2);
}

TEST(ContractionOperands, AreCopiedAsWideAsTheyAreAligned) {
  EXPECT_EQ(widest_access(rows_of(32, 32)), 16);
  EXPECT_EQ(widest_access(rows_of(32, 36)), 8) << "rows";
  EXPECT_EQ(widest_access(rows_of(34, 64)), 4) << "the end of a row";
  ContractionOperand operand = rows_of(32, 32);
  operand.offset = -6;
  EXPECT_EQ(widest_access(operand), 4) << "where it begins";
  operand.offset = 0;
  operand.batch = {{3, 2049}};
  EXPECT_EQ(widest_access(operand), 2) << "batches";
}

TEST(ContractionOperands, CopiesLieWithinOnePositionOfAWindow) {
  ContractionOperand operand = rows_of(32, 32);
  operand.windows = {{{1, 64, true, 1}, {4, 8, true, 1}, -1, 64, 1, 0}};
  EXPECT_EQ(widest_access(operand), 8) << "four elements at each of eight positions";
  operand.windows[0].contracted = {1, 1, false, 1};
  EXPECT_EQ(widest_access(operand), 16) << "one position";
  operand.windows[0].holes = 2;
  operand.windows[0].stride = 36;
  EXPECT_EQ(widest_access(operand), 8) << "a step between holes, which the digits do not say";
}

}  // namespace
}  // namespace stitch::kernel
