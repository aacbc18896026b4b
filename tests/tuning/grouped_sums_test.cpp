// Which products of a program leave the sums of groups of their rows besides, and what becomes of all other sums.
#include "tuning/programs/grouped_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/canonical.h"
#include "graph/simplify.h"
#include "tests/tuning/breaking_device.h"
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
using import::Imported;
using testing::HasSubstr;

constexpr std::int64_t batch = 2, rows = 64, width = 64;
const graph::Dims stream = {batch, rows, width};

Value multiplied(Builder& b, Value x, DType dtype) {
  return b.dot(x, b.parameter(dtype, {width, width}), {{}, {}, {2}, {0}, dtype});
}
/// What leads through tanh to a product's operand has the gradient g · (1 − h²).
Value derivative(Builder& b, Value g, DType dtype) {
  const Value h = b.parameter(dtype, stream);
  return b.binary(Op::multiply, g, b.binary(Op::subtract, b.filled(dtype, stream, 1), b.binary(Op::multiply, h, h)));
}
Value over_rows(Builder& b, Value x) { return b.reduce(graph::ReduceKind::sum, x, {0, 1}); }

/// A layer's backward pass: the gradient of what it is made of, of its bias, and of its operand.
Graph layer(DType dtype) {
  Builder b;
  const Value g = derivative(b, multiplied(b, b.parameter(dtype, stream), dtype), dtype);
  return *b.finish({over_rows(b, g), multiplied(b, g, dtype)});
}

Result<api::Program> program_of(Graph graph, bool with_sums = true) {
  EXPECT_TRUE(graph::simplify(graph).ok());
  return build_program(graph, {{}, [&](const Graph& part, bool) {
                                 const auto problem = product_of(part);
                                 return problem && (with_sums || problem->column_sums.empty());
                               }});
}
/// Of each step the results of what it runs, and whether that multiplies.
std::vector<std::pair<std::size_t, bool>> steps_of(const api::Program& program) {
  std::vector<std::pair<std::size_t, bool>> found;
  for (const api::ProgramStep& step : program.regions[0].steps) {
    const auto* fragment = std::get_if<api::FragmentStep>(&step.work);
    if (fragment == nullptr) continue;
    const Graph& graph = program.fragments[fragment->fragment].graph;
    found.emplace_back(graph.results().size(),
                       std::ranges::any_of(graph.nodes(), graph::is_contraction, &graph::Node::op));
  }
  return found;
}

TEST(GroupedSums, AreLeftByTheProductBefore) {
  const auto program = program_of(layer(DType::f32));
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_THAT(steps_of(*program),
              testing::UnorderedElementsAre(std::pair(std::size_t{2}, true), std::pair(std::size_t{1}, true),
                                            std::pair(std::size_t{1}, false)));
  // Two groups of 64 rows are what is left to be added.
  const auto adds_up = [](const api::ProgramFragment& fragment) { return fragment.graph.parameters().size() == 1; };
  const auto rest = std::ranges::find_if(program->fragments, adds_up);
  ASSERT_NE(rest, program->fragments.end());
  EXPECT_EQ(rest->graph.node(rest->graph.parameters()[0]).type().dims, (graph::Dims{2, width}));
}

/// What no product's kernel begins is one sum, as it was: the fragment has the same key.
TEST(GroupedSums, ThatNobodyBeginsAreOneSum) {
  const auto program = program_of(layer(DType::bf16), false);
  ASSERT_TRUE(program) << program.error().message;
  Builder b;
  Graph alone = *b.finish({over_rows(b, b.parameter(DType::bf16, stream))});
  ASSERT_TRUE(graph::simplify(alone).ok());
  const auto whole = graph::canonicalise(alone);
  ASSERT_TRUE(whole);
  EXPECT_THAT(program->fragments,
              testing::Contains(testing::Field(&api::ProgramFragment::key, testing::Eq(whole->key))));
}

/// Sums of several products are added up by one kernel.
TEST(GroupedSums, AreAddedUpTogether) {
  Builder b;
  Value g = b.parameter(DType::f32, stream);
  std::vector<Value> results;
  for (int layer = 0; layer < 3; ++layer) {
    g = derivative(b, multiplied(b, g, DType::f32), DType::f32);
    results.push_back(over_rows(b, g));
  }
  results.push_back(multiplied(b, g, DType::f32));
  const auto program = program_of(*b.finish(results));
  ASSERT_TRUE(program) << program.error().message;
  const auto steps = steps_of(*program);
  EXPECT_EQ(steps.size(), 5U);
  EXPECT_THAT(steps, testing::Contains(std::pair(std::size_t{3}, false)));
}

/// A norm's derivative combines rows, and its scale's and shift's gradients are sums over them: all of it is left by
/// the product before but for the last sums.
TEST(GroupedSums, StandBesideRows) {
  Builder b;
  const Value g = multiplied(b, b.parameter(DType::f32, stream), DType::f32);
  const Value x = b.parameter(DType::f32, stream);
  const Value mean = b.binary(Op::multiply, b.reduce(graph::ReduceKind::sum, g, {2}),
                              b.filled(DType::f32, {batch, rows}, 1.0 / width));
  const Value kept = b.binary(Op::subtract, g, b.broadcast(mean, stream, {0, 1}));
  const auto program = program_of(*b.finish({kept, over_rows(b, g), over_rows(b, b.binary(Op::multiply, g, x))}));
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_THAT(steps_of(*program),
              testing::UnorderedElementsAre(std::pair(std::size_t{3}, true), std::pair(std::size_t{2}, false)));
}

TEST(GroupedSums, AGraphWithThemIsTheSame) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Builder b;
    const Value x = b.parameter(dtype, {4, 48, 3});
    const Value sum = b.reduce(graph::ReduceKind::sum, x, {0, 1});
    const Graph before =
        *b.finish({b.unary(Op::tanh, sum), b.reduce(graph::ReduceKind::max, x, {0, 1}),
                   b.reduce(graph::ReduceKind::sum, x, {1}), b.reduce(graph::ReduceKind::sum, x, {2})});
    const auto sums = with_grouped_sums(before);
    ASSERT_TRUE(sums) << sums.error().message;
    ASSERT_EQ(sums->groups.size(), 1U);
    const Value groups = *sums->groups.begin();
    EXPECT_EQ(sums->graph.type(groups), (graph::TensorType{DType::f32, {3, 3}})) << "of 64 rows each";
    ASSERT_EQ(sums->graph.results().size(), before.results().size());
    for (std::size_t r = 0; r < before.results().size(); ++r) {
      const Value now = sums->graph.results()[r];
      EXPECT_EQ(sums->graph.type(now), before.type(before.results()[r]));
      EXPECT_EQ(sums->origin[now.node], before.results()[r].node);
    }
  }
}

/// Fewer rows than two groups have, rows that are in no whole groups, and dimensions that follow are one sum.
TEST(GroupedSums, AreOfWholeGroups) {
  for (const graph::Dims& dims : {graph::Dims{64, 3}, graph::Dims{72, 3}, graph::Dims{1, 33, 3}, graph::Dims{512}}) {
    Builder b;
    graph::Dims leading;
    for (std::size_t d = 0; d + 1 < std::max<std::size_t>(dims.size(), 2); ++d)
      leading.push_back(static_cast<std::int64_t>(d));
    const auto sums =
        with_grouped_sums(*b.finish({b.reduce(graph::ReduceKind::sum, b.parameter(DType::f32, dims), leading)}));
    ASSERT_TRUE(sums) << sums.error().message;
    EXPECT_TRUE(sums->groups.empty());
  }
}

// ---- by a tuner

Imported model_of(DType dtype) {
  Imported model;
  model.graph = layer(dtype);
  return model;
}

TEST(GroupedSumsEmulated, AreTunedLikeAnyFragment) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    BreakingDevice device;
    device.breaks = [](const std::string&) { return false; };
    const auto tuner = tuner_for(device, ProductsBy::ours);
    ASSERT_TRUE(tuner) << tuner.error().message;
    const auto program = make_program(model_of(dtype), **tuner, {.name = "layer", .tunes = true});
    ASSERT_TRUE(program) << program.error().message;
    ASSERT_EQ(program->regions[0].steps.size(), 3U);
    for (const api::ProgramFragment& fragment : program->fragments) {
      ASSERT_TRUE(fragment.plan) << fragment.why_none;
      EXPECT_EQ(fragment.plan->launches.size(), 1U);
      EXPECT_EQ(fragment.plan->verified_share, 1.0);
    }
  }
}

/// Where a kernel with sums is wrong, another one makes them.
TEST(GroupedSumsEmulated, WithoutAPlanAreMadeInOneStep) {
  BreakingDevice device;
  // Of three operands and two results.
  device.breaks = [](const std::string& ptx) {
    return ptx.find("cp.async") != std::string::npos && ptx.find("_param_4") != std::string::npos;
  };
  const auto tuner = tuner_for(device, ProductsBy::ours);
  ASSERT_TRUE(tuner) << tuner.error().message;
  const auto program = make_program(model_of(DType::f32), **tuner, {.name = "layer", .tunes = true});
  ASSERT_TRUE(program) << program.error().message;
  for (const api::ProgramFragment& fragment : program->fragments) {
    EXPECT_TRUE(fragment.plan) << fragment.why_none;
    const bool multiplies = std::ranges::any_of(fragment.graph.nodes(), graph::is_contraction, &graph::Node::op);
    EXPECT_TRUE(!multiplies || fragment.graph.results().size() == 1);
  }
}

}  // namespace
}  // namespace stitch::tuning
