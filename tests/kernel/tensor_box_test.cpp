// What the tensor copy engine is told of an operand, and of which it cannot be told.
#include "kernel/contraction/tensor_box.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch::kernel {
namespace {

using testing::HasSubstr;

/// 4096 rows of 1024 elements of 16 bits.
ContractionOperand rows_of_operand() {
  ContractionOperand operand;
  operand.dtype = graph::DType::bf16;
  operand.free = {{4096, 1024}};
  operand.contracted = {{1024, 1}};
  return operand;
}

Result<TensorBox> box_of(const ContractionOperand& operand, int shares = 1) {
  return tensor_box_of(operand, 4096, 1024, 128, 64, shares);
}

std::string why_not(const ContractionOperand& operand, int shares = 1) {
  const auto box = box_of(operand, shares);
  return box ? "" : box.error().message;
}

TEST(TensorBoxes, AreLinesAlongTheDepth) {
  const auto box = box_of(rows_of_operand());
  ASSERT_TRUE(box.ok()) << box.error().message;
  EXPECT_EQ(box->dimensions, (ContractionDigits{{1024, 1}, {4096, 1024}}));
  EXPECT_EQ(box->line_elements, 64);
  EXPECT_EQ(box->lines, 128);
  EXPECT_EQ(box->copies, 1);
  EXPECT_EQ(box_of(rows_of_operand(), 2)->lines, 64) << "a half";
}

TEST(TensorBoxes, ArePanelsAlongTheFreeDimension) {
  ContractionOperand operand = rows_of_operand();
  operand.free = {{4096, 1}};
  operand.contracted = {{1024, 4096}};
  const auto box = box_of(operand);
  ASSERT_TRUE(box.ok()) << box.error().message;
  EXPECT_EQ(box->dimensions, (ContractionDigits{{4096, 1}, {1024, 4096}}));
  EXPECT_EQ(box->line_elements, 64);
  EXPECT_EQ(box->lines, 64);
  EXPECT_EQ(box->copies, 2);
  EXPECT_EQ(box_of(operand, 2)->copies, 1) << "a panel each";
  EXPECT_THAT(why_not(operand, 4), HasSubstr("panels of 4 blocks"));
}

TEST(TensorBoxes, HaveADimensionForEveryDigitOfTheBatch) {
  ContractionOperand operand = rows_of_operand();
  operand.batch = {{2, 8 * 4096 * 1024}, {3, 0}, {8, 4096 * 1024}};
  const auto box = box_of(operand);
  ASSERT_TRUE(box.ok()) << box.error().message;
  EXPECT_EQ(box->dimensions.size(), 4) << "what is repeated has none";
  operand.batch = {{2, 64}, {2, 128}, {2, 256}, {2, 512}};
  EXPECT_THAT(why_not(operand), HasSubstr("6 dimensions"));
}

TEST(TensorBoxes, LieAnywhereWhereThereIsOneLine) {
  ContractionOperand operand = rows_of_operand();
  operand.free = {};
  operand.contracted = {{1001, 1}};
  const auto box = tensor_box_of(operand, 1, 1001, 64, 64, 1);
  ASSERT_TRUE(box.ok()) << box.error().message;
  EXPECT_EQ(box->dimensions, (ContractionDigits{{1001, 1}, {1, 1008}}));
}

TEST(TensorBoxes, AreRefusedWithWhatIsInTheWay) {
  ContractionOperand operand = rows_of_operand();
  operand.free = {{4096, 1020}};
  EXPECT_THAT(why_not(operand), HasSubstr("a stride of 2040 bytes"));
  operand = rows_of_operand();
  operand.free = {{64, 65536}, {64, 1024}};
  EXPECT_THAT(why_not(operand), HasSubstr("several digits"));
  operand = rows_of_operand();
  operand.offset = 4;
  EXPECT_THAT(why_not(operand), HasSubstr("begins at element 4"));
  operand = rows_of_operand();
  operand.windows.emplace_back();
  EXPECT_THAT(why_not(operand), HasSubstr("windows"));
  operand = rows_of_operand();
  operand.contracted = {{1024, 2}};
  EXPECT_THAT(why_not(operand), HasSubstr("without runs"));
  const auto tall = tensor_box_of(rows_of_operand(), 4096, 1024, 512, 64, 1);
  ASSERT_FALSE(tall.ok());
  EXPECT_THAT(tall.error().message, HasSubstr("512 lines in a box"));
  EXPECT_THAT(why_not(rows_of_operand(), 32), HasSubstr("4 lines of 128 bytes"));
}

}  // namespace
}  // namespace stitch::kernel
