// A model's graph as a program: steps, order, memory.
#include "tuning/programs/program_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/calls/strided_matmul.h"
#include "graph/simplify.h"
#include "import/import.h"
#include "tuning/programs/eager_memory.h"
#include "tuning/programs/step_order.h"

namespace stitch::tuning {
namespace {

using api::ProgramStep;
using graph::Builder;
using graph::DType;
using graph::Op;
using graph::Value;
using testing::ElementsAre;
using Storage = api::ProgramValue::Storage;

std::vector<std::string_view> kinds(const api::ProgramRegion& region) {
  std::vector<std::string_view> list;
  for (const ProgramStep& step : region.steps) list.push_back(kind_of(step));
  return list;
}

api::Program built(graph::Graph graph) {
  EXPECT_TRUE(graph::simplify(graph).ok());
  auto program = build_program(graph);
  EXPECT_TRUE(program.ok()) << (program ? "" : program.error().message);
  return program ? *std::move(program) : api::Program();
}

api::Program built_file(const std::string& path) {
  auto imported = import::import_file(std::filesystem::path(STITCH_SOURCE_DIR) / path);
  EXPECT_TRUE(imported.ok()) << (imported ? "" : imported.error().message);
  return built(std::move(imported->graph));
}

Value dot(Builder& builder, Value a, Value b) { return builder.dot(a, b, {{}, {}, {1}, {0}, DType::f32}); }

TEST(ProgramBuilderTest, FragmentsStandBetweenLibraryCalls) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {64, 64}, "x"), w = builder.parameter(DType::f32, {64, 64}, "w");
  const Value h = builder.unary(Op::tanh, dot(builder, builder.unary(Op::exp, x), w));
  const Value y = builder.unary(Op::exp, dot(builder, h, w));
  const api::Program program = built(*builder.finish({y}));
  EXPECT_THAT(kinds(program.regions[0]), ElementsAre("fragment", "library", "fragment", "library", "fragment"));
  EXPECT_EQ(program.fragments.size(), 2U) << "the two exponentials are one fragment";
  EXPECT_EQ(program.fragments[0].occurrences, 2);
  EXPECT_EQ(program.calls.size(), 1U) << "the two products are one call";
  EXPECT_EQ(program.calls[0].accumulation, "f32");
  // Two values alive at once: the one that a step reads and the one that it writes, one of them where the result will
  // be.
  EXPECT_EQ(program.regions[0].lower_bound_bytes, 64 * 64 * 4);
  EXPECT_EQ(program.regions[0].arena_bytes, program.regions[0].lower_bound_bytes);
  EXPECT_EQ(program.regions[0].values[program.regions[0].results[0]].storage, Storage::result);
}

TEST(ProgramBuilderTest, AResultThatIsAParameterOrTwiceTheSameHasMemoryOfItsOwn) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {8}, "x");
  const Value y = builder.unary(Op::exp, x);
  const api::Program program = built(*builder.finish({x, y, y, builder.reshape(y, {2, 4})}));
  const api::ProgramRegion& region = program.regions[0];
  ASSERT_EQ(region.results.size(), 4U);
  EXPECT_EQ(std::set<int>(region.results.begin(), region.results.end()).size(), 4U);
  EXPECT_EQ(region.values[region.results[3]].type.dims, (graph::Dims{2, 4}));
}

TEST(ProgramBuilderTest, ALibraryCallTakesItsEpilogueAlong) {
  const api::Program program = built_file("tests/data/hlo/dots.hlo.txt");
  ASSERT_FALSE(program.calls.empty());
  for (const api::ProgramCall& call : program.calls) {
    int contractions = 0;
    for (const graph::Node& node : call.graph.nodes()) contractions += is_contraction(node.op);
    EXPECT_EQ(contractions, 1) << call.description;
    EXPECT_EQ(call.graph.results().size(), 1U);
  }
}

// Weights of all layers stand on one level, which a cut packs into one fragment: where that is more memory than one
// after the other takes, each is prepared when it is wanted. What is small stays together.
TEST(ProgramBuilderTest, WhatIsPreparedForLaterIsPreparedLaterWhereMemoryIsShort) {
  constexpr int layers = 4;
  const auto steps_of = [&](std::int64_t rows, bool activated) {
    Builder builder;
    Value x = builder.parameter(DType::f32, {rows, 512}, "x");
    for (int layer = 0; layer < layers; ++layer) {
      const Value weights = builder.unary(Op::exp, builder.parameter(DType::f32, {512, 512}));
      const Value bias = builder.unary(Op::exp, builder.parameter(DType::f32, {512}));
      x = builder.binary(Op::add, dot(builder, x, weights), builder.broadcast(bias, {rows, 512}, {1}));
      if (activated) x = builder.binary(Op::multiply, builder.unary(Op::tanh, x), builder.unary(Op::exp, x));
    }
    const api::Program program = built(*builder.finish({x}));
    EXPECT_LE(program.regions[0].arena_bytes, program.regions[0].eager_bytes) << rows;
    return std::ranges::count(kinds(program.regions[0]), "fragment");
  };
  EXPECT_EQ(steps_of(4, false), layers + 1) << "one for each layer's weights, one for all biases";
  EXPECT_EQ(steps_of(8192, false), layers + 1) << "little, but more than an operator at a time takes";
  EXPECT_EQ(steps_of(8192, true), layers + 1) << "one for each layer, one for all weights: memory is not short";
}

TEST(ProgramBuilderTest, LoopsAndBranchesHaveRegions) {
  const api::Program program = built_file("tests/data/hlo/branches.hlo.txt");
  bool branches = false;
  for (const ProgramStep& step : program.regions[0].steps) branches = branches || kind_of(step) == "branch";
  EXPECT_TRUE(branches);
  EXPECT_GT(program.regions.size(), 1U);
}

/// Every turn writes a row of state[8, 64], which nothing else in the loop reads, and goes on with that row.
graph::Graph updating_loop() {
  const auto carried = [](Builder& builder) {
    return std::vector{builder.parameter(DType::s32, {}, "i"), builder.parameter(DType::f32, {8, 64}, "state"),
                       builder.parameter(DType::f32, {1, 64}, "row"), builder.parameter(DType::f32, {64, 64}, "w")};
  };
  Builder body("body");
  const std::vector<Value> in = carried(body);
  const Value made = body.unary(Op::tanh, dot(body, in[2], in[3]));
  const Value updated =
      body.add(Op::dynamic_update_slice, {in[1], made, in[0], body.scalar(DType::s32, 0)}, graph::UpdateAttributes{});
  const Value next = body.binary(Op::add, in[0], body.scalar(DType::s32, 1));
  Builder condition("condition");
  const Value more = condition.compare(graph::Comparison::lt, carried(condition)[0], condition.scalar(DType::s32, 7));
  Builder outer;
  const Value state = outer.parameter(DType::f32, {8, 64}, "state"), row = outer.parameter(DType::f32, {1, 64}, "row");
  const Value w = outer.parameter(DType::f32, {64, 64}, "w");
  const auto regions = std::vector{std::make_shared<const graph::Graph>(*body.finish({next, updated, made, in[3]})),
                                   std::make_shared<const graph::Graph>(*condition.finish({more}))};
  const Value loop = outer.add(Op::loop, {outer.scalar(DType::s32, 0), outer.unary(Op::exp, state), row, w},
                               graph::LoopAttributes{7}, regions);
  return *outer.finish({outer.unary(Op::exp, Value{loop.node, 1})});
}

TEST(ProgramBuilderTest, WhatALoopHandsOnTakesNoSpare) {
  const api::Program program = built(updating_loop());
  ASSERT_EQ(program.regions.size(), 2U) << "the condition of a loop with a known count is no part";
  const auto loop =
      std::ranges::find_if(program.regions[0].steps, [](const ProgramStep& step) { return kind_of(step) == "loop"; });
  ASSERT_NE(loop, program.regions[0].steps.end());
  const auto& work = std::get<api::LoopStep>(loop->work);
  EXPECT_EQ(work.trip_count, 7);
  // Of the state that is updated and the weight that is handed on there is one copy each; counter and row go to and
  // fro.
  EXPECT_EQ(std::ranges::count(work.spares, -1), 2);
  EXPECT_EQ(work.spares.size(), 4U);
}

TEST(EagerMemoryTest, ValuesAreFreedAfterTheirLastUse) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {64}, "x");
  const Value a = builder.unary(Op::exp, x), b = builder.unary(Op::exp, a), c = builder.unary(Op::exp, b);
  EXPECT_EQ(eager_peak_bytes(*builder.finish({c})), 2 * 256);
}

TEST(EagerMemoryTest, ViewsTakeNothingAndKeepWhatTheyShow) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {64}, "x");
  const Value a = builder.unary(Op::exp, x);
  const Value view = builder.reshape(a, {8, 8});
  const Value b = builder.unary(Op::exp, x), c = builder.binary(Op::add, builder.reshape(b, {8, 8}), view);
  EXPECT_EQ(eager_peak_bytes(*builder.finish({c})), 3 * 256);
}

TEST(StepOrderTest, TakesTheOrderThatKeepsLeastAlive) {
  // Two chains from two sources: side by side they keep two large values alive, one after the other one.
  const std::vector<UnorderedStep> steps = {
      {{}, {0}, 0, 0, 0}, {{}, {1}, 0, 1, 1}, {{0}, {2}, 0, 2, 2}, {{1}, {3}, 0, 3, 3}, {{2, 3}, {4}, 0, 4, 4}};
  const std::vector<std::int64_t> bytes = {1000, 1000, 1, 1, 0};
  const int kept[] = {4};
  const std::vector<std::size_t> order = step_orders(steps, bytes, kept).at(0);
  ASSERT_EQ(order.size(), steps.size());
  const auto at = [&](std::size_t step) { return std::ranges::find(order, step) - order.begin(); };
  EXPECT_TRUE(at(2) < at(1) || at(3) < at(0)) << "one large value is gone before the other comes";
  EXPECT_LT(at(0), at(2));
  EXPECT_EQ(at(4), 4);
}

// Two long chains to one sum: what a step of the same size makes of a value can wait until the end.
TEST(StepOrderTest, OneOfTheOrdersHasWhatCanWaitWait) {
  const std::vector<UnorderedStep> steps = {
      {{}, {0, 1}, 0, 0, 0}, {{0}, {2}, 0, 1, 1}, {{1}, {3}, 0, 2, 2}, {{3}, {4}, 0, 3, 3}, {{2, 4}, {5}, 0, 4, 4}};
  const std::vector<std::int64_t> bytes = {100, 100, 100, 400, 100, 100};
  const int kept[] = {5};
  const std::vector<std::vector<std::size_t>> orders = step_orders(steps, bytes, kept);
  const auto waits = [](const std::vector<std::size_t>& order) {
    return order == std::vector<std::size_t>{0, 2, 3, 1, 4};
  };
  EXPECT_TRUE(std::ranges::any_of(orders, waits));
  for (const auto& order : orders) {
    const auto at = [&](std::size_t step) { return std::ranges::find(order, step) - order.begin(); };
    for (const auto& [before, after] : {std::pair{0, 1}, {0, 2}, {2, 3}, {1, 4}, {3, 4}})
      EXPECT_LT(at(before), at(after));
  }
}

// Of the two values that the first step makes, one lies in the result's memory for as long as nothing else reads it
// than what the result is made of: what is made of it lies there no more.
TEST(ProgramBuilderTest, StepsAreOrderedForWhatResultsLend) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 64}, "x"), w = b.parameter(DType::f32, {64, 64}, "w");
  const Value wide = b.parameter(DType::f32, {64, 512}, "wide"), back = b.parameter(DType::f32, {512, 64}, "back");
  const Value early = b.unary(Op::exp, x), other = b.unary(Op::tanh, x);
  const Value gate = dot(b, early, w);
  const Value hidden = dot(b, other, wide), squared = b.binary(Op::multiply, hidden, hidden);
  const Value y = b.binary(Op::multiply, b.unary(Op::logistic, gate), dot(b, squared, back));
  const api::Program program = built(*b.finish({y}));
  const api::ProgramRegion& region = program.regions[0];
  EXPECT_LE(region.arena_bytes + 64 * 64 * 4, region.eager_bytes);
}

// A decoder's last layer: all results but the logits are there when the weights of its attention are, and these are a
// little larger than what the logits lend. With the caches' updates apart the scores lie where the second cache will
// be, and with the product in halves one half of the weights where the logits will be.
TEST(ProgramBuilderTest, AProductOverABatchIsMadeInHalvesWhereNothingElseHelps) {
  const auto decoder = [](std::int64_t vocabulary) {
    Builder b;
    const Value q = b.parameter(DType::f32, {64, 4, 16}, "q"), w = b.parameter(DType::f32, {64, vocabulary}, "w");
    const Value keys = b.unary(Op::exp, b.parameter(DType::f32, {64, 64, 16}, "keys"));
    const Value scores = b.dot(q, keys, {{0}, {0}, {2}, {2}, DType::f32});
    const graph::Dims dims = b.dims(scores);
    const Value greatest = b.broadcast(b.reduce(graph::ReduceKind::max, scores, {2}), dims, {0, 1});
    const Value e = b.unary(Op::exp, b.binary(Op::subtract, scores, greatest));
    const Value sum = b.broadcast(b.reduce(graph::ReduceKind::sum, e, {2}), dims, {0, 1});
    const Value weights = b.binary(Op::divide, e, sum);
    const Value values = b.unary(Op::exp, b.parameter(DType::f32, {64, 64, 16}, "values"));
    const Value heads = b.dot(weights, values, {{0}, {0}, {2}, {1}, DType::f32});
    const Value logits = b.unary(Op::tanh, dot(b, b.reshape(heads, {64, 64}), w));
    return built(*b.finish({logits, keys, values}));
  };
  const auto needed = [](const api::ProgramRegion& region) {
    std::int64_t bytes = region.arena_bytes;
    for (const int value : region.results) bytes += region.values[value].type.bytes();
    return bytes;
  };
  const api::Program tight = decoder(240);  // 60 KiB, and the weights have 64
  EXPECT_LE(needed(tight.regions[0]), tight.regions[0].eager_bytes);
  EXPECT_EQ(std::ranges::count(kinds(tight.regions[0]), "library"), 4);
  EXPECT_EQ(tight.calls.size(), 4U);
  for (const api::ProgramCall& call : tight.calls) {
    const auto matmul = graph::describe_matmul(call.graph);
    ASSERT_TRUE(matmul.ok()) << matmul.error().message;
    EXPECT_EQ(matmul->calls(), 1) << "half of the cache is read where it lies";
  }
  const api::Program roomy = decoder(256);
  EXPECT_LE(needed(roomy.regions[0]), roomy.regions[0].eager_bytes);
  EXPECT_EQ(std::ranges::count(kinds(roomy.regions[0]), "library"), 3) << "the logits lend enough";
}

TEST(StepOrderTest, StepsThatWaitForEachOtherHaveNone) {
  const std::vector<UnorderedStep> steps = {{{1}, {0}, 0, 0, 0}, {{0}, {1}, 0, 1, 1}};
  const std::vector<std::int64_t> bytes = {1, 1};
  EXPECT_TRUE(step_orders(steps, bytes, {}).empty());
}

/// Heads of several sequences: written out by a fragment, read by one call, or read as they lie, by several.
TEST(ProgramBuilderTest, HeadsAreWrittenOutForALibraryIfThatIsQuicker) {
  graph::Builder b;
  const graph::Value x = b.parameter(graph::DType::f16, {8, 64, 96}), w = b.parameter(graph::DType::f16, {96, 96});
  const graph::Value plain = b.dot(x, w, {{}, {}, {2}, {0}, graph::DType::f16});
  const graph::Value heads = b.transpose(b.reshape(plain, {8, 64, 6, 16}), {0, 2, 1, 3});
  const graph::Value keys = b.parameter(graph::DType::f16, {8, 6, 64, 16});
  const graph::Value scores = b.dot(heads, keys, {{0, 1}, {0, 1}, {3}, {3}, graph::DType::f16});
  const graph::Graph graph = *b.finish({scores});
  const auto steps = [&](bool quick) {
    ProgramOptions options;
    options.quick_layouts = quick;
    const auto program = build_program(graph, options);
    if (!program) throw std::runtime_error(program.error().message);
    std::int64_t calls = 0;
    for (const api::ProgramCall& call : program->calls) calls += graph::describe_matmul(call.graph)->calls();
    return std::pair(program->regions[0].steps.size(), calls);
  };
  EXPECT_EQ(steps(false), std::pair(std::size_t{2}, std::int64_t{7}));
  EXPECT_EQ(steps(true), std::pair(std::size_t{3}, std::int64_t{2}));
}

}  // namespace
}  // namespace stitch::tuning
