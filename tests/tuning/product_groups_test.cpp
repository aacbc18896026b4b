// Which products of a program are one step.
#include "tuning/programs/product_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/sqlite_store.h"
#include "graph/builder.h"
#include "graph/simplify.h"
#include "tests/base/test_folder.h"
#include "tests/tuning/breaking_device.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/contractions/contraction_choice.h"
#include "tuning/programs/model_program.h"
#include "tuning/programs/program_builder.h"
#include "tuning/programs/program_price.h"

namespace stitch::tuning {
namespace {

using graph::Builder;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Value;
using testing::ElementsAre;
using testing::HasSubstr;

Value operand(Builder& b, std::int64_t columns = 64) { return b.parameter(DType::f32, {64, columns}); }
Value multiplied(Builder& b, Value x, Value w) { return b.dot(x, w, {{}, {}, {1}, {0}, DType::f32}); }

/// Products of each step that has any, ascending.
std::vector<int> products_of_steps(Graph graph, const std::function<bool(const Graph&)>& wanted = {}) {
  EXPECT_TRUE(graph::simplify(graph).ok());
  const auto ours = [&](const Graph& part, bool) { return product_of(part).ok() && (!wanted || wanted(part)); };
  const auto program = build_program(graph, {{}, ours});
  EXPECT_TRUE(program) << program.error().message;
  std::vector<int> counts;
  for (const api::ProgramStep& step : program->regions[0].steps) {
    const auto* fragment = std::get_if<api::FragmentStep>(&step.work);
    const bool call = std::holds_alternative<api::LibraryStep>(step.work);
    int count = call ? 1 : 0;
    if (fragment != nullptr) {
      const auto nodes = program->fragments[fragment->fragment].graph.nodes();
      count = static_cast<int>(std::ranges::count(nodes, Op::dot, &graph::Node::op));
    }
    if (count > 0) counts.push_back(count);
  }
  std::ranges::sort(counts);
  return counts;
}

/// Two of what one operand makes, and a third of other columns.
Graph three_of_one() {
  Builder b;
  const Value x = operand(b);
  std::vector<Value> results;
  for (const std::int64_t columns : {64, 64, 32})
    results.push_back(b.unary(Op::tanh, multiplied(b, x, operand(b, columns))));
  return *b.finish(results);
}

TEST(ProductGroups, AreOfOneOperand) {
  EXPECT_THAT(products_of_steps(three_of_one()), ElementsAre(3));
  Builder two;
  const Value x = operand(two), y = operand(two), w = operand(two);
  EXPECT_THAT(products_of_steps(*two.finish({multiplied(two, x, w), multiplied(two, y, w)})), ElementsAre(2))
      << "the right one";
  Builder none;
  const Value a = operand(none), b = operand(none);
  EXPECT_THAT(products_of_steps(*none.finish({multiplied(none, a, operand(none)), multiplied(none, b, operand(none))})),
              ElementsAre(1, 1));
}

TEST(ProductGroups, AreAsLargeAsTheyCanBe) {
  Builder b;
  const Value x = operand(b), w = operand(b);
  const std::vector<Value> results = {multiplied(b, x, operand(b)), multiplied(b, x, w), multiplied(b, operand(b), w),
                                      multiplied(b, operand(b), w)};
  EXPECT_THAT(products_of_steps(*b.finish(results)), ElementsAre(1, 3)) << "those of w, not the two of x";
}

TEST(ProductGroups, AreThoseThatAreWanted) {
  const auto few = [](std::size_t most) { return [=](const Graph& part) { return part.results().size() <= most; }; };
  EXPECT_THAT(products_of_steps(three_of_one(), few(3)), ElementsAre(3));
  EXPECT_THAT(products_of_steps(three_of_one(), few(2)), ElementsAre(1, 2)) << "without one of them";
  EXPECT_THAT(products_of_steps(three_of_one(), few(1)), ElementsAre(1, 1, 1));
}

TEST(ProductGroups, NoneOfThemWaitsForAnother) {
  Builder chain;
  const Value x = operand(chain), first = multiplied(chain, x, operand(chain));
  EXPECT_THAT(products_of_steps(*chain.finish({multiplied(chain, x, chain.unary(Op::tanh, first))})),
              ElementsAre(1, 1));
  Builder between;
  const Value y = operand(between), left = multiplied(between, y, operand(between));
  const Value sums = between.broadcast(between.reduce(graph::ReduceKind::sum, left, {0}), {64, 64}, {1});
  EXPECT_THAT(products_of_steps(*between.finish({left, multiplied(between, y, sums)})), ElementsAre(1, 1));
}

/// p and q have x, r and s have y; q waits for r, and s for p: two groups would wait for one another.
TEST(ProductGroups, NeitherDoGroups) {
  Builder b;
  const Value x = operand(b), y = operand(b);
  const Value p = multiplied(b, x, operand(b)), r = multiplied(b, y, operand(b));
  const Value q = multiplied(b, x, r), s = multiplied(b, y, p);
  EXPECT_THAT(products_of_steps(*b.finish({p, q, r, s})), ElementsAre(1, 1, 2));
}

/// The keys of every layer of a decoder, of what the encoder made: those of the last would wait for all layers.
TEST(ProductGroups, AreReadNearOneAnother) {
  Builder b;
  const Value encoded = operand(b);
  Value state = operand(b);
  std::vector<Value> keys;
  for (int layer = 0; layer < 6; ++layer) {
    keys.push_back(multiplied(b, encoded, operand(b)));
    for (int turn = 0; turn < 2; ++turn) {
      const Value sums = b.reduce(graph::ReduceKind::sum, multiplied(b, state, operand(b)), {0});
      state = b.unary(Op::tanh, b.binary(Op::add, b.broadcast(sums, {64, 64}, {1}), keys.back()));
    }
  }
  for (const int count : products_of_steps(*b.finish({state}))) EXPECT_LE(count, 3);
}

/// The gradients by the weights of Q, K and V have the activation in common.
TEST(ProductGroups, GradientsOfWeightsAreOnes) {
  Builder b;
  const Value x = operand(b, 48);
  std::vector<Value> results;
  for (const std::int64_t columns : {32, 32, 96})
    results.push_back(b.dot(x, operand(b, columns), {{}, {}, {0}, {0}, DType::f32}));
  EXPECT_THAT(products_of_steps(*b.finish(results)), ElementsAre(3));
}

// ---- by a tuner

/// x · q, x · k and x · v with biases, in heads, and an attention of them.
auto heads(DType dtype) -> import::Imported {
  constexpr std::int64_t rows = 48, width = 64, count = 2, depth = 32;
  Builder b;
  const Value x = b.parameter(dtype, {rows, width});
  const auto projected = [&] {
    const Value sum = b.dot(x, b.parameter(dtype, {width, count * depth}), {{}, {}, {1}, {0}, dtype});
    const Value biased = b.broadcast_binary(Op::add, sum, b.parameter(dtype, {count * depth}));
    return b.transpose(b.reshape(biased, {rows, count, depth}), {1, 0, 2});
  };
  const Value q = projected(), k = projected(), v = projected();
  const Value scores = b.dot(q, k, {{0}, {0}, {2}, {2}, DType::f32});
  const graph::Dims square = {count, rows, rows};
  const Value most = b.broadcast(b.reduce(graph::ReduceKind::max, scores, {2}), square, {0, 1});
  const Value powers = b.unary(Op::exp, b.binary(Op::subtract, scores, most));
  const Value sums = b.broadcast(b.reduce(graph::ReduceKind::sum, powers, {2}), square, {0, 1});
  const Value weights = b.convert(b.binary(Op::divide, powers, sums), dtype);
  import::Imported model;
  model.graph = *b.finish({b.dot(weights, v, {{0}, {0}, {2}, {1}, DType::f32})});
  return model;
}

TEST(ProductGroupsEmulated, AreTunedLikeAnyFragment) {
  BreakingDevice device;
  device.breaks = [](const std::string&) { return false; };
  const auto tuner = tuner_for(device, ProductsBy::ours);
  ASSERT_TRUE(tuner) << tuner.error().message;
  const auto program = make_program(heads(DType::f16), **tuner, {.name = "heads", .tunes = true});
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_EQ(program->regions[0].steps.size(), 2U) << "the projections, and the attention";
  EXPECT_THAT(program->regions[0].steps[0].name, HasSubstr("and 2 more in one"));
  ASSERT_EQ(program->fragments.size(), 2U);
  const api::ProgramFragment& merged = program->fragments[0];
  EXPECT_EQ(merged.graph.results().size(), 3U);
  ASSERT_TRUE(merged.plan) << merged.why_none;
  ASSERT_EQ(merged.plan->launches.size(), 1U);
  EXPECT_THAT(merged.plan->launches[0].description, HasSubstr("64+64+64"));
  EXPECT_EQ(merged.plan->verified_share, 1.0);
}

/// What a store serves of them is what the next program has.
TEST(ProductGroupsEmulated, AreStoredAndServed) {
  TestFolder folder;
  SystemClock clock;
  db::SqliteOptions storage;
  storage.path = folder / "stitch.db";
  const auto store = *db::open_sqlite_store(storage, clock);
  BreakingDevice device;
  device.breaks = [](const std::string&) { return false; };
  const auto tuner = tuner_for(device, ProductsBy::ours);
  const auto memory = *RememberingTuner::open(*store, **tuner, clock);
  const ProgramRequest request = {.name = "heads", .tunes = true, .memory = memory.get()};
  const auto first = make_program(heads(DType::f16), **tuner, request);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(memory->is_settled(first->fragments[0].key));
  const auto again = make_program(heads(DType::f16), **tuner, request);
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(again->fragments[0].graph.results().size(), 3U);
  EXPECT_EQ(again->fragments[0].plan->launches[0].cubin, first->fragments[0].plan->launches[0].cubin);
}

/// Where the kernel is wrong, there are fewer in one.
TEST(ProductGroupsEmulated, WithoutAPlanAreTakenApart) {
  BreakingDevice device;
  device.breaks = [](const std::string& ptx) {
    return ptx.find("cp.async") != std::string::npos && ptx.find("_param_9") != std::string::npos;
  };
  const auto tuner = tuner_for(device, ProductsBy::ours);
  const auto program = make_program(heads(DType::f32), **tuner, {.name = "heads", .tunes = true});
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_TRUE(program->calls.empty());
  EXPECT_EQ(program->regions[0].steps.size(), 3U) << "two projections, one, and the attention";
  for (const api::ProgramFragment& fragment : program->fragments) {
    EXPECT_LE(fragment.graph.results().size(), 2U);
    EXPECT_TRUE(fragment.plan) << fragment.why_none;
  }
}

/// A launch less, and predicted to be faster; where each fills the GPU by itself nothing is won.
TEST(ProductGroups, AreTakenWhereTheyAreFaster) {
  const auto model = [](std::int64_t rows, std::int64_t width) {
    Builder b;
    const Value x = b.parameter(DType::f16, {rows, width});
    std::vector<Value> results;
    for (int i = 0; i < 3; ++i)
      results.push_back(b.dot(x, b.parameter(DType::f16, {width, width}), {{}, {}, {1}, {0}, DType::f16}));
    import::Imported imported;
    imported.graph = *b.finish(results);
    return imported;
  };
  for (const ProductsBy by : {ProductsBy::ours, ProductsBy::faster}) {
    const auto tuner = tuner_for(shared_device(), by, false);
    const auto small = outline_program(model(128, 768), **tuner, {.name = "small"});
    ASSERT_TRUE(small) << small.error().message;
    EXPECT_EQ(small->regions[0].steps.size(), 1U);
    const auto steps = price_steps(*small, **tuner);
    ASSERT_TRUE(steps) << steps.error().message;
    const ProgramPrice price = sum_of(*steps);
    EXPECT_EQ(price.launches, 1);
    EXPECT_EQ(price.library_calls, 0);
    EXPECT_EQ(price.bytes, 2.0 * (128 * 768 + 3 * 768 * 768 + 3 * 128 * 768));
  }
  const auto tuner = tuner_for(shared_device(), ProductsBy::faster, false);
  const auto large = outline_program(model(8192, 8192), **tuner, {.name = "large"});
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_EQ(large->calls.size(), 1U) << "of three equal ones";
}

}  // namespace
}  // namespace stitch::tuning
