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
}

}  // namespace
}  // namespace stitch::graph
