#include "graph/op.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/attributes.h"

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
