#include "import/hlo/constant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>

#include "graph/literal.h"
#include "import/hlo/parser.h"

namespace stitch::import::hlo {
namespace {

using testing::HasSubstr;

Result<graph::ConstantAttributes> constant_of(const std::string& shape, const std::string& literal) {
  const std::string text = "HloModule m\nENTRY e {\n  c = " + shape + " constant(" + literal + ")\n}";
  const Result<Module> module = parse_module(text);
  if (!module) return module.error();
  return parse_constant(module->computations[0].instructions[0]);
}

TEST(HloConstant, Scalars) {
  struct Row {
    std::string shape, literal;
    double value;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const Row rows[] = {
      {"f32[]", "1e-05", static_cast<double>(1e-05F)},
      {"f32[]", "-3.40282347e+38", static_cast<double>(-3.40282347e+38F)},
      {"f32[]", "1.40129846e-45", static_cast<double>(1.40129846e-45F)},
      {"f32[]", "0.1", static_cast<double>(0.1F)},
      {"f32[]", "inf", infinity},
      {"f32[]", "-inf", -infinity},
      {"bf16[]", "1.004", 1.0078125},
      {"f16[]", "65504", 65504},
      {"f64[]", "0.1", 0.1},
      {"f8e4m3fn[]", "448", 448},
      {"s32[]", "-2147483648", -2147483648.0},
      {"u32[]", "4294967295", 4294967295.0},
      {"s8[]", "-128", -128},
      {"pred[]", "true", 1},
      {"pred[]", "false", 0},
      {"pred[]", "1", 1},
  };
  for (const Row& row : rows) {
    const auto constant = constant_of(row.shape, row.literal);
    ASSERT_TRUE(constant.ok()) << row.literal << ": " << constant.error().message;
    EXPECT_EQ(graph::element(*constant, 0), row.value) << row.shape << " " << row.literal;
  }
  EXPECT_TRUE(std::isnan(graph::element(*constant_of("f32[]", "nan"), 0)));
  EXPECT_TRUE(std::isnan(graph::element(*constant_of("f32[]", "-nan"), 0)));
  EXPECT_TRUE(std::isnan(graph::element(*constant_of("bf16[]", "nan(0x7fc1)"), 0)));
  EXPECT_TRUE(std::signbit(graph::element(*constant_of("f32[]", "-0"), 0)));
}

TEST(HloConstant, SixtyFourBitsAreExact) {
  const auto largest = constant_of("u64[]", "18446744073709551615");
  ASSERT_TRUE(largest.ok());
  EXPECT_EQ(graph::load_integer(graph::DType::u64, largest->data.data()), -1);
  const auto odd = constant_of("s64[]", "-9007199254740993");
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(graph::load_integer(graph::DType::s64, odd->data.data()), -9007199254740993);
  const auto least = constant_of("s64[]", "-9223372036854775808");
  ASSERT_TRUE(least.ok());
  EXPECT_EQ(graph::load_integer(graph::DType::s64, least->data.data()), std::numeric_limits<std::int64_t>::min());
}

TEST(HloConstant, Arrays) {
  const auto matrix = constant_of("s32[2,3]", "{ { 1, 2, 3 }, { -4, 5, 6 } }");
  ASSERT_TRUE(matrix.ok()) << matrix.error().message;
  EXPECT_EQ(*matrix, graph::dense({graph::DType::s32, {2, 3}}, std::vector<double>{1, 2, 3, -4, 5, 6}));
  const auto commented = constant_of("f32[1,2,1]", "{ /*i0=0*/ { /*i1=0*/ {0.5}, /*i1=1*/ {1e+06} } }");
  ASSERT_TRUE(commented.ok()) << commented.error().message;
  EXPECT_EQ(*commented, graph::dense({graph::DType::f32, {1, 2, 1}}, std::vector<double>{0.5, 1e6}));
  const auto empty = constant_of("f32[0,3]", "{ }");
  ASSERT_TRUE(empty.ok()) << empty.error().message;
  EXPECT_TRUE(empty->data.empty());
}

TEST(HloConstant, BadLiteralsSayWhere) {
  struct Row {
    std::string shape, literal, message;
  };
  const Row rows[] = {
      {"f32[]", "one", "line 3, column 22: 'one' is no value of f32"},
      {"s32[]", "1.5", "'1.5' is no value of s32"},
      {"pred[]", "yes", "'yes' is no value of pred"},
      {"f32[2]", "{1}", "the literal has 4 bytes, its shape 8"},
      {"f32[2]", "{1, 2, 3}", "line 3, column 30: the literal has too many elements"},
      {"f32[]", "", "the literal has 0 bytes, its shape 4"},
      {"f32[]", "$", "'' is no value of f32"},
      {"u64[]", "18446744073709551616", "'18446744073709551616' is no value of u64"},
      {"s8[]", "300", "'300' is no value of s8"},
      {"s8[]", "-129", "'-129' is no value of s8"},
      {"u8[]", "256", "'256' is no value of u8"},
      {"u32[]", "-1", "'-1' is no value of u32"},
      {"s32[2]", "{1, 2147483648}", "'2147483648' is no value of s32"},
      {"s64[]", "9223372036854775808", "'9223372036854775808' is no value of s64"},
      {"pred[]", "2", "'2' is no value of pred"},
  };
  for (const Row& row : rows) {
    const auto constant = constant_of(row.shape, row.literal);
    ASSERT_FALSE(constant.ok()) << row.literal;
    EXPECT_EQ(constant.error().kind, ErrorKind::parse);
    EXPECT_THAT(constant.error().message, HasSubstr(row.message)) << row.literal;
  }
}

}  // namespace
}  // namespace stitch::import::hlo
