#include "daemon/jobs/constant_budget.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/literal.h"

namespace stitch::daemon {
namespace {

/// A graph with a constant of so many bytes.
graph::Graph with_constant(std::int64_t bytes) {
  graph::Builder builder;
  graph::ConstantAttributes constant;
  constant.type = {graph::DType::u8, {bytes}};
  constant.data.assign(static_cast<std::size_t>(bytes), std::byte{7});
  return *builder.finish({builder.constant(std::move(constant))});
}

TEST(ConstantBudgetTest, HoldsWhatFitsAndRefusesTheRest) {
  ConstantBudget budget(std::int64_t{5} << 20);
  const auto first = budget.hold(with_constant(3 << 20));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(budget.held(), 3 << 20);
  const auto second = budget.hold(with_constant(3 << 20));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::resource_exhausted);
  EXPECT_EQ(budget.held(), 3 << 20) << "what was refused holds nothing";
  const auto third = budget.hold(with_constant(2 << 20));
  EXPECT_TRUE(third.ok());
  const auto small = budget.hold(with_constant(1 << 20));
  EXPECT_TRUE(small.ok()) << "small ones are never refused";
  EXPECT_EQ(budget.held(), 6 << 20);
}

TEST(ConstantBudgetTest, LetsGoWithTheLastCopyOfTheHold) {
  ConstantBudget budget(std::int64_t{5} << 20);
  {
    ConstantBudget::Hold copy;
    {
      const auto hold = budget.hold(with_constant(4 << 20));
      ASSERT_TRUE(hold.ok());
      copy = *hold;
    }
    EXPECT_EQ(budget.held(), 4 << 20);
  }
  EXPECT_EQ(budget.held(), 0);
  EXPECT_TRUE(budget.hold(with_constant(5 << 20)).ok());
}

}  // namespace
}  // namespace stitch::daemon
