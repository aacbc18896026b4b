// Which products of a program are added in one kernel.
#include "tuning/programs/sum_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/simplify.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/contractions/contraction_choice.h"
#include "tuning/programs/model_program.h"
#include "tuning/programs/program_builder.h"

namespace stitch::tuning {
namespace {

using graph::Builder;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Value;

constexpr std::int64_t sum_width = 64, sum_rows = 48;

Value addend(Builder& b) { return b.parameter(DType::f32, {sum_rows, sum_width}); }
Value term_of(Builder& b, Value x) {
  return b.dot(x, b.parameter(DType::f32, {sum_width, sum_width}), {{}, {}, {1}, {0}, DType::f32});
}
/// Each of another tensor.
Value sum_of_terms(Builder& b, int products) {
  Value sum = term_of(b, addend(b));
  for (int i = 1; i < products; ++i) sum = b.add(Op::add, {sum, term_of(b, addend(b))});
  return sum;
}

/// The names of a program's steps, with kernels of ours for all products that `wanted` takes.
std::vector<std::string> names_of_steps(
    Graph graph, const std::function<bool(const Graph&)>& wanted = [](const Graph&) { return true; }) {
  EXPECT_TRUE(graph::simplify(graph).ok());
  const auto program =
      build_program(graph, {{}, [&](const Graph& part, bool) { return product_of(part).ok() && wanted(part); }});
  EXPECT_TRUE(program) << program.error().message;
  std::vector<std::string> names;
  for (const api::ProgramStep& step : program->regions[0].steps) names.push_back(step.name);
  return names;
}
std::size_t dots_in(const Graph& graph) { return std::ranges::count(graph.nodes(), Op::dot, &graph::Node::op); }

TEST(SumGroups, AreOneKernel) {
  Builder b;
  EXPECT_THAT(names_of_steps(*b.finish({sum_of_terms(b, 3)})),
              testing::ElementsAre(testing::HasSubstr("the sum of 3")));
}

/// With what the last one's rows are combined for.
TEST(SumGroups, HaveRowsBehind) {
  Builder b;
  const Value x = sum_of_terms(b, 2);
  const Value greatest = b.reduce(graph::ReduceKind::max, x, {1});
  const Value result = b.binary(Op::subtract, x, b.broadcast(greatest, {sum_rows, sum_width}, {0}));
  EXPECT_THAT(names_of_steps(*b.finish({result})),
              testing::ElementsAre(testing::HasSubstr("the sum of 2, and what its rows are combined for")));
}

/// As many as a kernel has; the others are before.
TEST(SumGroups, HaveAtMostSeven) {
  Builder b;
  EXPECT_THAT(names_of_steps(*b.finish({sum_of_terms(b, 9)})),
              testing::ElementsAre(testing::HasSubstr("the sum of 2"), testing::HasSubstr("the sum of 7")));
}

/// What somebody else needs is stored.
TEST(SumGroups, LeaveWhatOthersRead) {
  Builder b;
  const Value first = term_of(b, addend(b));
  const Value sum = b.add(Op::add, {first, term_of(b, addend(b))});
  EXPECT_EQ(names_of_steps(*b.finish({sum, first})).size(), 2U);
}

/// A product of a sum waits for it.
TEST(SumGroups, LeaveWhatIsMultipliedAgain) {
  Builder b;
  const Value first = term_of(b, addend(b));
  EXPECT_EQ(names_of_steps(*b.finish({b.add(Op::add, {term_of(b, first), first})})).size(), 2U);
}

/// Where a kernel for both is not wanted, they stay two.
TEST(SumGroups, AreAskedFor) {
  Builder b;
  EXPECT_EQ(
      names_of_steps(*b.finish({sum_of_terms(b, 2)}), [](const Graph& part) { return dots_in(part) == 1; }).size(), 2U);
}

/// The kernel is predicted to be faster than the products one by one, and its price has all of their terms.
TEST(SumGroups, ArePricedAsOne) {
  Builder b;
  const Graph sum = *b.finish({sum_of_terms(b, 3)});
  Builder alone;
  const Graph one = *alone.finish({sum_of_terms(alone, 1)});
  const auto tuner = tuner_for(shared_device(), ProductsBy::ours, false);
  ASSERT_TRUE(tuner) << tuner.error().message;
  EXPECT_TRUE((*tuner)->computes_product(sum, ProductsBy::ours, false));
  const auto price = (*tuner)->product_price(sum), single = (*tuner)->product_price(one);
  ASSERT_TRUE(price && single);
  EXPECT_LT(price->ours_us, 3 * single->ours_us);
  EXPECT_GT(price->ours_us, single->ours_us);
  EXPECT_GT(price->library_us, 3 * single->library_us) << "the sums on the way are read";
}

/// A program whose sum is one kernel, which was proved against all of its products.
TEST(SumGroupsEmulated, ArePlannedAndProved) {
  Builder b;
  import::Imported model;
  model.graph = *b.finish({b.unary(Op::tanh, sum_of_terms(b, 3))});
  const auto tuner = tuner_for(shared_device(), ProductsBy::ours);
  ASSERT_TRUE(tuner) << tuner.error().message;
  const auto program = make_program(model, **tuner, {.name = "sum", .tunes = true});
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_EQ(program->fragments.size(), 1U);
  const api::ProgramFragment& sum = program->fragments[0];
  EXPECT_EQ(dots_in(sum.graph), 3U);
  ASSERT_TRUE(sum.plan) << sum.why_none;
  ASSERT_EQ(sum.plan->launches.size(), 1U);
  EXPECT_THAT(sum.plan->launches[0].description, testing::HasSubstr("64+64+64"));
  EXPECT_EQ(sum.plan->verified_share, 1.0);
  EXPECT_TRUE(program->calls.empty());
}

}  // namespace
}  // namespace stitch::tuning
