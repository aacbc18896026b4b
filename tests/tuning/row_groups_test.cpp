// Which products of a program have the norm behind them in their kernel.
#include "tuning/programs/row_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/simplify.h"
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
using import::Imported;
using testing::HasSubstr;

constexpr std::int64_t width = 64;

Value stream(Builder& b, DType dtype = DType::f32, std::int64_t rows = 48) { return b.parameter(dtype, {rows, width}); }
Value multiplied(Builder& b, Value x, DType dtype = DType::f32) {
  return b.dot(x, b.parameter(dtype, {width, width}), {{}, {}, {1}, {0}, dtype});
}
/// Divided by the root of what its row's squares are in the mean.
Value normed(Builder& b, Value x, DType dtype = DType::f32, std::int64_t rows = 48) {
  const Value wide = b.convert(x, DType::f32);
  const Value squares = b.reduce(graph::ReduceKind::sum, b.binary(Op::multiply, wide, wide), {1});
  const Value mean = b.binary(Op::multiply, squares, b.filled(DType::f32, {rows}, 1.0 / width));
  const Value scale = b.unary(Op::rsqrt, b.binary(Op::add, mean, b.filled(DType::f32, {rows}, 1e-3)));
  return b.convert(b.binary(Op::multiply, wide, b.broadcast(scale, {rows, width}, {0})), dtype);
}

Result<api::Program> program_with_rows(Graph graph) {
  EXPECT_TRUE(graph::simplify(graph).ok());
  return build_program(graph, {{}, [](const Graph& part, bool) { return product_of(part).ok(); }});
}
/// Steps, and how many results the kernels of products have.
std::pair<std::size_t, std::vector<std::size_t>> shape_of(const Graph& graph) {
  const auto program = program_with_rows(graph);
  EXPECT_TRUE(program) << program.error().message;
  std::vector<std::size_t> results;
  for (const api::ProgramFragment& fragment : program->fragments) results.push_back(fragment.graph.results().size());
  return {program->regions[0].steps.size(), results};
}

TEST(RowGroups, AreOfTheProductBefore) {
  Builder b;
  const Value x = b.binary(Op::add, multiplied(b, stream(b)), stream(b));
  EXPECT_EQ(shape_of(*b.finish({normed(b, x)})), (std::pair{std::size_t{1}, std::vector<std::size_t>{1}}));
}

/// A residual stream goes on beside its norm.
TEST(RowGroups, StoreWhatOthersRead) {
  Builder b;
  const Value x = b.binary(Op::add, multiplied(b, stream(b)), stream(b));
  EXPECT_EQ(shape_of(*b.finish({x, normed(b, x)})), (std::pair{std::size_t{1}, std::vector<std::size_t>{2}}));
  Builder later;
  const Value y = later.binary(Op::add, multiplied(later, stream(later)), stream(later));
  const Value z = multiplied(later, normed(later, y));
  const auto [steps, results] = shape_of(*later.finish({later.binary(Op::add, z, y)}));
  EXPECT_EQ(steps, 2U);
  EXPECT_THAT(results, testing::UnorderedElementsAre(2, 1));
}

/// The norm waits for what another product makes of the first one's result.
TEST(RowGroups, DoNotWaitForOthersBetween) {
  Builder b;
  const Value x = multiplied(b, stream(b)), y = multiplied(b, b.unary(Op::tanh, x));
  const Value gate = b.reduce(graph::ReduceKind::max, y, {0});
  const Value result = b.binary(Op::multiply, normed(b, x), b.broadcast(gate, {48, width}, {1}));
  const auto program = program_with_rows(*b.finish({x, result}));
  ASSERT_TRUE(program) << program.error().message;
}

/// Of two products that a fragment reads one has it; each waits for nobody. Those that are added are one product
/// (sum_groups.h), which has the rows of their sum.
TEST(RowGroups, AreOfOneProductEach) {
  for (const auto& [op, expected] : {std::pair{Op::multiply, 2U}, std::pair{Op::add, 1U}}) {
    Builder b;
    const Value x = multiplied(b, stream(b)), y = multiplied(b, stream(b));
    const auto [steps, results] = shape_of(*b.finish({normed(b, b.binary(op, x, y))}));
    EXPECT_EQ(steps, expected);
  }
  Builder crossed;
  const Value p = multiplied(crossed, stream(crossed)), q = multiplied(crossed, stream(crossed));
  const auto program = program_with_rows(*crossed.finish(
      {crossed.binary(Op::add, normed(crossed, p), q), crossed.binary(Op::add, normed(crossed, q), p)}));
  ASSERT_TRUE(program) << program.error().message;
}

// ---- by a tuner

/// A layer that adds to its residual stream, whose norm is multiplied again.
Imported layer(DType dtype, std::int64_t rows) {
  Builder b;
  const Value x = b.binary(Op::add, multiplied(b, stream(b, dtype, rows), dtype), stream(b, dtype, rows));
  const Value z = multiplied(b, normed(b, x, dtype, rows), dtype);
  Imported model;
  model.graph = *b.finish({b.binary(Op::add, z, x)});
  return model;
}

TEST(RowGroupsEmulated, AreTunedLikeAnyFragment) {
  BreakingDevice device;
  device.breaks = [](const std::string&) { return false; };
  const auto tuner = tuner_for(device, ProductsBy::ours);
  ASSERT_TRUE(tuner) << tuner.error().message;
  const auto program = make_program(layer(DType::f16, 48), **tuner, {.name = "layer", .tunes = true});
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_EQ(program->regions[0].steps.size(), 2U);
  EXPECT_THAT(program->regions[0].steps[0].name, HasSubstr("and what its rows are combined for"));
  for (const api::ProgramFragment& fragment : program->fragments) {
    ASSERT_TRUE(fragment.plan) << fragment.why_none;
    EXPECT_EQ(fragment.plan->launches.size(), 1U);
    EXPECT_EQ(fragment.plan->verified_share, 1.0);
  }
}

/// Where the kernel is wrong, the norm has one of its own.
TEST(RowGroupsEmulated, WithoutAPlanAreTakenApart) {
  BreakingDevice device;
  // Of three operands and two results.
  device.breaks = [](const std::string& ptx) {
    return ptx.find("cp.async") != std::string::npos && ptx.find("_param_4") != std::string::npos;
  };
  const auto tuner = tuner_for(device, ProductsBy::ours);
  const auto program = make_program(layer(DType::f32, 48), **tuner, {.name = "layer", .tunes = true});
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->regions[0].steps.size(), 3U) << "a product, the norm, a product";
  for (const api::ProgramFragment& fragment : program->fragments) EXPECT_TRUE(fragment.plan) << fragment.why_none;
}

// ---- gates

/// A cell's step: the state's product with weights of four gates each, what came from outside, and two results.
Graph cell(std::int64_t rows = 48) {
  Builder b;
  const graph::Dims state = {rows, width}, all = {rows, 4 * width};
  const Value h = b.parameter(DType::f32, state), c = b.parameter(DType::f32, state);
  const Value sums = b.dot(h, b.parameter(DType::f32, {width, 4 * width}), {{}, {}, {1}, {0}, DType::f32});
  const Value gates = b.binary(Op::add, sums, b.parameter(DType::f32, all));
  const auto gate = [&](int i) { return b.slice(gates, {0, i * width}, {rows, (i + 1) * width}); };
  const Value kept = b.binary(Op::multiply, b.unary(Op::logistic, gate(0)), c);
  const Value added = b.binary(Op::multiply, b.unary(Op::logistic, gate(1)), b.unary(Op::tanh, gate(2)));
  const Value next = b.binary(Op::add, kept, added);
  return *b.finish({next, b.binary(Op::multiply, b.unary(Op::tanh, next), b.unary(Op::logistic, gate(3)))});
}

/// silu(x·w) ∘ (x·v), and what is multiplied with that.
Graph gated_unit(DType dtype = DType::f16) {
  Builder b;
  const Value x = b.parameter(dtype, {48, width});
  const Value gate = multiplied(b, x, dtype), up = multiplied(b, x, dtype);
  const Value bent = b.binary(Op::multiply, gate, b.unary(Op::logistic, gate));
  return *b.finish({multiplied(b, b.binary(Op::multiply, bent, up), dtype)});
}

TEST(RowGroups, ACellIsOfTheProductThatIsItsGates) {
  EXPECT_EQ(shape_of(cell()), (std::pair{std::size_t{1}, std::vector<std::size_t>{2}}));
}

/// The cells of both directions are on one level, and one fragment; each has a product of its own.
Graph both_directions(bool with_more) {
  Builder b;
  std::vector<Value> results;
  for (int direction = 0; direction < 2; ++direction) {
    const graph::Dims state = {48, width};
    const Value h = b.parameter(DType::f32, state), c = b.parameter(DType::f32, state);
    const Value gates = b.dot(h, b.parameter(DType::f32, {width, 2 * width}), {{}, {}, {1}, {0}, DType::f32});
    const Value kept = b.binary(Op::multiply, c, b.unary(Op::logistic, b.slice(gates, {0, 0}, state)));
    const Value added = b.unary(Op::tanh, b.slice(gates, {0, width}, {48, 2 * width}));
    const Value next = b.binary(Op::add, kept, added);
    results.insert(results.end(), {next, b.unary(Op::tanh, next)});
  }
  if (with_more) results.push_back(b.slice(b.unary(Op::exp, b.parameter(DType::f32, {64})), {0}, {32}));
  return *b.finish(results);
}

TEST(RowGroups, CellsThatAreOneFragmentArePartedForTheirProducts) {
  EXPECT_EQ(shape_of(both_directions(false)), (std::pair{std::size_t{2}, std::vector<std::size_t>{2}})) << "equal ones";
  // With what is nobody's gate they would be a kernel more than before.
  const auto [steps, counts] = shape_of(both_directions(true));
  EXPECT_EQ(steps, 3U);
  EXPECT_THAT(counts, testing::Contains(5));
}

TEST(RowGroups, TwoProductsAreGatesOfOne) {
  const auto [steps, results] = shape_of(gated_unit());
  EXPECT_EQ(steps, 2U) << "the gated product, and that which reads it";
}

/// What else needs a gate's product keeps it apart.
TEST(RowGroups, AGateThatOthersReadIsAProductOfItsOwn) {
  Builder b;
  const Value x = b.parameter(DType::f16, {48, width});
  const Value gate = multiplied(b, x, DType::f16), up = multiplied(b, x, DType::f16);
  const auto [steps, results] = shape_of(*b.finish({b.binary(Op::multiply, b.unary(Op::tanh, gate), up), gate}));
  EXPECT_GE(steps, 2U);
}

TEST(RowGroupsEmulated, GatesAreTunedLikeAnyFragment) {
  BreakingDevice device;
  device.breaks = [](const std::string&) { return false; };
  const auto tuner = tuner_for(device, ProductsBy::ours);
  ASSERT_TRUE(tuner) << tuner.error().message;
  for (const auto& [graph, steps] : {std::pair{cell(), 1U}, {gated_unit(), 2U}}) {
    import::Imported model;
    model.graph = graph;
    const auto program = make_program(model, **tuner, {.name = "gates", .tunes = true});
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(program->regions[0].steps.size(), steps);
    for (const api::ProgramFragment& fragment : program->fragments) {
      ASSERT_TRUE(fragment.plan) << fragment.why_none;
      EXPECT_EQ(fragment.plan->launches.size(), 1U);
      EXPECT_EQ(fragment.plan->verified_share, 1.0);
    }
  }
}

/// A launch less, and predicted to be faster.
TEST(RowGroups, AreTakenWhereTheyAreFaster) {
  for (const ProductsBy by : {ProductsBy::ours, ProductsBy::faster}) {
    const auto tuner = tuner_for(shared_device(), by, false);
    const auto program = outline_program(layer(DType::f16, 512), **tuner, {.name = "layer"});
    ASSERT_TRUE(program) << program.error().message;
    const auto steps = price_steps(*program, **tuner);
    ASSERT_TRUE(steps) << steps.error().message;
    const ProgramPrice price = sum_of(*steps);
    EXPECT_EQ(price.launches + price.library_calls, 2) << "of products alone there were three";
    EXPECT_EQ(program->regions[0].steps.size(), 2U);
  }
}

}  // namespace
}  // namespace stitch::tuning
