#include "graph/op.h"

#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "graph/attributes.h"
#include "graph/reference/evaluate_chunk.h"

namespace stitch::graph {
namespace {

TEST(OpTable, RowsAreInEnumOrderWithUniqueNames) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < op_table().size(); ++i) {
    const OpInfo& row = op_table()[i];
    EXPECT_EQ(static_cast<std::size_t>(row.op), i) << row.name;
    EXPECT_EQ(op_from_name(row.name), row.op);
    EXPECT_EQ(to_string(row.op), row.name);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    for (const char c : row.name) EXPECT_TRUE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-') << row.name;
  }
  EXPECT_EQ(op_from_name(""), std::nullopt);
  EXPECT_EQ(op_from_name("Add"), std::nullopt);
}

TEST(OpTable, OperandCountsAreConsistent) {
  for (const OpInfo& row : op_table()) {
    EXPECT_GE(row.min_operands, 0) << row.name;
    EXPECT_TRUE(row.max_operands == -1 || row.max_operands >= row.min_operands) << row.name;
    EXPECT_EQ(row.category == OpCategory::source, row.max_operands == 0) << row.name;
    EXPECT_TRUE(!row.commutative || (row.min_operands == 2 && row.max_operands == 2)) << row.name;
    EXPECT_EQ(is_elementwise(row.op), row.category == OpCategory::elementwise);
  }
}

/// Whatever stands in the operator table must be in the tables of the other files as well; those of codegen/ and
/// costmodel/ follow from the row (tests/codegen/operators_test.cpp runs every row).
TEST(OpTable, EveryElementwiseOperatorHasAReferenceFunction) {
  for (const OpInfo& row : op_table()) {
    if (!is_elementwise(row.op) || makes_random_bits(row.op)) continue;  // evaluate_run.cpp
    for (const DTypeInfo& type : dtype_table()) {
      const DType dtype = type.dtype;
      if (!takes(row.domain, dtype)) continue;
      const Node node{row.op, {}, default_attributes(row.op), {{dtype, {}}}, {}, "", 0};
      EXPECT_NE(reference::find_kernel(node, dtype), nullptr) << row.name << " of " << to_string(dtype);
    }
  }
}

TEST(OpTable, EveryOperatorIsDocumented) {
  const Result<std::string> page = RealFileSystem().read(STITCH_SOURCE_DIR "/docs/ir.md");
  ASSERT_TRUE(page.ok()) << page.error().message;
  for (const OpInfo& row : op_table()) {
    const bool found = page->find(fmt::format("`{}`", row.name)) != std::string::npos;
    EXPECT_TRUE(found) << row.name << " is missing in docs/ir.md";
  }
}

TEST(OpTable, RangesAndDomainsAreOfFunctions) {
  for (const OpInfo& row : op_table()) {
    const bool narrowed = row.defined.low > RealInterval().low || row.defined.high < RealInterval().high;
    if (row.range || narrowed) {
      EXPECT_TRUE(is_elementwise(row.op) && row.max_operands == 1 && row.domain == OpDomain::floating) << row.name;
    }
    EXPECT_LT(row.defined.low, row.defined.high) << row.name;
    if (row.range) {
      EXPECT_LT(row.range->low, row.range->high) << row.name;
      EXPECT_EQ(row.range->low >= 0, row.sign == ResultSign::nonnegative) << row.name;
    }
    EXPECT_GE(row.instructions.wide, row.instructions.narrow) << row.name;
  }
}

TEST(OpTable, CombinersAndComparisonsHaveNames) {
  for (int i = 0; i <= static_cast<int>(ReduceKind::replace); ++i) {
    const auto kind = static_cast<ReduceKind>(i);
    EXPECT_EQ(reduce_kind_from_name(to_string(kind)), kind);
  }
  for (int i = 0; i <= static_cast<int>(Comparison::ge); ++i) {
    const auto comparison = static_cast<Comparison>(i);
    EXPECT_EQ(comparison_from_name(to_string(comparison)), comparison);
  }
  EXPECT_EQ(reduce_kind_from_name("add"), std::nullopt);
  EXPECT_EQ(comparison_from_name("=="), std::nullopt);
}

TEST(Attributes, EveryOperatorHasItsAlternativeAndFieldsAreUnique) {
  std::set<std::size_t> used;
  for (const OpInfo& row : op_table()) {
    const Attributes attributes = default_attributes(row.op);
    used.insert(attributes.index());
    EXPECT_EQ(attributes, default_attributes(row.op));
    std::visit(
        [&](const auto& a) {
          std::set<std::string_view> names;
          std::decay_t<decltype(a)>::fields(
              a, [&](std::string_view name, const auto&) { EXPECT_TRUE(names.insert(name).second) << row.name; });
        },
        attributes);
    if (row.category == OpCategory::elementwise) {
      const bool expected = row.op == Op::convert || row.op == Op::bitcast_convert || row.op == Op::compare;
      EXPECT_EQ(!std::holds_alternative<NoAttributes>(attributes), expected) << row.name;
    }
  }
  EXPECT_EQ(used.size(), std::variant_size_v<Attributes>);  // no alternative without an operator
}

/// `fields` lists every member: changing any through it makes the struct unequal. A member left out would be lost by
/// the codec and by keys.
TEST(Attributes, FieldsCoverTheStructs) {
  const auto size_of_fields = [](const auto& a) {
    std::size_t size = 0;
    std::decay_t<decltype(a)>::fields(a, [&](std::string_view, const auto& field) { size += sizeof(field); });
    return size;
  };
  for (const OpInfo& row : op_table()) {
    std::visit(
        [&](const auto& a) {
          using A = std::decay_t<decltype(a)>;
          if (std::is_same_v<A, NoAttributes>) return;
          // Padding is below 8 bytes per member and no member is that small by itself, bar the trailing flags.
          EXPECT_GT(size_of_fields(a) + alignof(A), sizeof(A) - alignof(A)) << row.name;
        },
        default_attributes(row.op));
  }
}

}  // namespace
}  // namespace stitch::graph
