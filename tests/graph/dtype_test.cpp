#include "graph/dtype.h"

#include <gtest/gtest.h>

namespace stitch::graph {
namespace {

TEST(DType, TableIsInEnumOrderAndNamesAreUnique) {
  for (std::size_t i = 0; i < dtype_table().size(); ++i) {
    const DTypeInfo& row = dtype_table()[i];
    EXPECT_EQ(static_cast<std::size_t>(row.dtype), i);
    EXPECT_EQ(&info(row.dtype), &row);
    EXPECT_EQ(dtype_from_name(row.name), row.dtype);
    EXPECT_EQ(to_string(row.dtype), row.name);
  }
  EXPECT_EQ(dtype_table().back().dtype, DType::f64);
}

TEST(DType, EveryDTypeIsOfOneClass) {
  for (const DTypeInfo& row : dtype_table()) {
    const int classes = is_floating(row.dtype) + is_signed_integer(row.dtype) + is_unsigned_integer(row.dtype) +
                        (row.dtype == DType::pred);
    EXPECT_EQ(classes, 1) << row.name;
    EXPECT_EQ(is_integer(row.dtype), is_signed_integer(row.dtype) || is_unsigned_integer(row.dtype)) << row.name;
    EXPECT_EQ(row.mantissa_bits > 0, is_floating(row.dtype)) << row.name;
  }
}

TEST(DType, SizesAgreeWithNames) {
  for (const DTypeInfo& row : dtype_table()) {
    if (row.dtype == DType::pred) continue;
    const std::size_t digit = row.name.find_first_of("0123456789");
    const bool f8 = row.name.starts_with("f8");
    const int bits = f8 ? 8 : std::stoi(std::string(row.name.substr(digit)));
    EXPECT_EQ(row.bytes * 8, bits) << row.name;
  }
}

TEST(DType, AccumulatorsAreAtLeastAsWideAndTheirOwn) {
  for (const DTypeInfo& row : dtype_table()) {
    EXPECT_GE(byte_size(row.accumulator), row.bytes) << row.name;
    EXPECT_EQ(info(row.accumulator).kind, row.kind) << row.name;
    EXPECT_EQ(info(row.accumulator).accumulator, row.accumulator) << row.name;
  }
  EXPECT_EQ(info(DType::bf16).accumulator, DType::f32);
}

TEST(DType, UnknownNamesAreNotFound) {
  for (const std::string_view name : {"", "f", "F32", "f32 ", "float32", "s4", "f8"}) {
    EXPECT_EQ(dtype_from_name(name), std::nullopt) << name;
  }
  EXPECT_EQ(dtype_from_name("f8e4m3fn"), DType::f8e4m3);  // XLA's name
}

}  // namespace
}  // namespace stitch::graph
