#include "graph/constraints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch::graph {
namespace {

TEST(ConstraintsText, IsReadAsItIsWritten) {
  for (const Constraints each : {Constraints{}, {true, false}, {false, true}, {true, true}}) {
    const auto back = parse_constraints(to_string(each));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(*back, each);
  }
  EXPECT_EQ(*parse_constraints(" batch_invariant , deterministic "), (Constraints{true, true}));
  EXPECT_EQ(to_string(Constraints{true, true}), "deterministic,batch_invariant");
  EXPECT_EQ(*parse_constraints("bf16x3,tf32x3"), (Constraints{.tf32x3 = true, .bf16x3 = true}));
}

TEST(ConstraintsText, AnUnknownWordIsNamed) {
  for (const char* text : {"fast", "deterministic,,", "deterministic fast", "Deterministic"}) {
    const auto wrong = parse_constraints(text);
    ASSERT_FALSE(wrong.ok()) << text;
    EXPECT_EQ(wrong.error().kind, ErrorKind::invalid_argument);
    EXPECT_THAT(wrong.error().message, testing::HasSubstr("there are deterministic, batch_invariant"));
  }
}

TEST(ConstraintsOfTwo, AreBothSides) {
  EXPECT_EQ((Constraints{true, false} | Constraints{false, true}), (Constraints{true, true}));
  EXPECT_EQ((Constraints{} | Constraints{}), Constraints{});
  EXPECT_TRUE((Constraints{false, true}).fixes_order());
  EXPECT_TRUE((Constraints{.bf16x3 = true} | Constraints{}).bf16x3);
  EXPECT_TRUE((Constraints{.bf16x3 = true}).any());
  EXPECT_TRUE((Constraints{} | Constraints{.winograd = true}).winograd);
  EXPECT_TRUE((Constraints{.winograd = true}).any());
  EXPECT_EQ(*parse_constraints("winograd"), (Constraints{.winograd = true}));
}

TEST(ConstraintsOfProducts, TheFastestWayIsTaken) {
  EXPECT_EQ(Constraints{}.f32_arithmetic(), F32Arithmetic::f32);
  EXPECT_EQ((Constraints{.tf32x3 = true}).f32_arithmetic(), F32Arithmetic::tf32x3);
  EXPECT_EQ((Constraints{.tf32x3 = true, .bf16x3 = true}).f32_arithmetic(), F32Arithmetic::bf16x3);
  EXPECT_EQ((Constraints{.tf32 = true, .tf32x3 = true, .bf16x3 = true}).f32_arithmetic(), F32Arithmetic::tf32);
}

}  // namespace
}  // namespace stitch::graph
