#include "kernel/loop/recurrent_step.h"
#include "kernel/loop/step_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/literal.h"
#include "graph/reference/evaluate.h"
#include "graph/verify.h"
#include "kernel/loop/row_split.h"
#include "tests/graph/random_graph.h"
#include "tests/kernel/recurrent_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::Tensor;

struct Cell {
  std::string name;
  std::function<Graph(const RecurrentShape&)> graph;
  RecurrentShape shape;
};

void PrintTo(const Cell& cell, std::ostream* out) { *out << cell.name; }

/// Index in the whole tensor of element i of a block's part.
std::size_t whole_index(const RecurrentStep::State& state, std::int64_t first_row, std::int64_t i) {
  if (state.row_dimension < 0) return i;
  const std::size_t d = state.row_dimension;
  std::int64_t inner = 1;
  for (std::size_t k = d + 1; k < state.type.dims.size(); ++k) inner *= state.type.dims[k];
  const std::int64_t rows = state.type.dims[d];
  const std::int64_t row = i / inner % rows + first_row;
  return (i / (inner * rows) * state.all_rows + row) * inner + i % inner;
}

/// A sequence with nothing in it but what a block has asked for by the time of a turn; others as they are.
Tensor fetched(const RecurrentStep& step, std::size_t parameter, const Tensor& whole, std::int64_t block,
               std::int64_t turn) {
  if (!step.is_sequence(static_cast<int>(parameter))) return whole;
  const std::int64_t size = graph::byte_size(whole.type.dtype);
  Tensor some = whole;
  std::ranges::fill(some.floats, std::nan(""));
  for (const RecurrentStep::Sequence& sequence : step.sequences) {
    if (sequence.parameter != static_cast<int>(parameter)) continue;
    const std::int64_t place = sequence.backward ? step.turns - 1 - turn : turn;
    for (std::int64_t run = 0; run < sequence.runs; ++run) {
      const std::int64_t at =
          place * sequence.turn_bytes + block * step.rows * sequence.row_bytes + run * sequence.row_bytes;
      EXPECT_LE(at + sequence.run_bytes, whole.type.bytes());
      std::copy_n(whole.floats.begin() + at / size, sequence.run_bytes / size, some.floats.begin() + at / size);
    }
  }
  return some;
}

/// The loop's results, block by block and turn by turn, as a kernel would get them.
std::vector<Tensor> run(const Graph& kernel, const RecurrentStep& step, const std::vector<Tensor>& arguments) {
  std::vector<Tensor> results;
  for (const Value result : kernel.results()) results.push_back(Tensor::zeros(kernel.type(result)));
  for (std::int64_t block = 0; block < step.blocks; ++block) {
    const std::int64_t first_row = block * step.rows;
    std::vector<Tensor> states;
    for (const RecurrentStep::State& state : step.states) {
      Tensor& made = states.emplace_back(Tensor::zeros(state.type));
      for (std::int64_t i = 0; i < made.elements(); ++i) {
        const std::size_t at = i;
        if (!state.first_input) {
          std::byte bits[8];
          std::memcpy(bits, &state.fill, sizeof bits);
          if (made.floats.empty())
            made.integers[at] = graph::load_integer(state.type.dtype, bits);
          else
            made.floats[at] = graph::load_element(state.type.dtype, bits);
          continue;
        }
        const Tensor& from = arguments[*state.first_input];
        made.floats[at] = from.floats[whole_index(state, first_row, i)];
      }
    }
    for (std::int64_t turn = 0; turn < step.turns; ++turn) {
      std::vector<Tensor> given;
      for (std::size_t p = 0; p < step.sources.size(); ++p) {
        const RecurrentStep::Source& source = step.sources[p];
        const std::size_t number = source.number;
        switch (source.kind) {
          case RecurrentStep::Source::Kind::input:
            given.push_back(fetched(step, p, arguments[number], block, turn));
            break;
          case RecurrentStep::Source::Kind::state: given.push_back(states[number]); break;
          case RecurrentStep::Source::Kind::output: given.push_back(results[number]); break;
          case RecurrentStep::Source::Kind::first_row:
            given.push_back(Tensor::zeros({DType::s32, {}}));
            given.back().integers[0] = first_row;
            break;
        }
      }
      const auto after = graph::evaluate(step.graph, given);
      EXPECT_TRUE(after) << after.error().message;
      if (!after) return results;
      for (std::size_t r = 0; r < step.targets.size(); ++r) {
        const std::size_t number = step.targets[r].number;
        (step.targets[r].is_state ? states : results)[number] = (*after)[r];
      }
    }
    for (std::size_t s = 0; s < states.size(); ++s) {
      if (!step.states[s].output) continue;
      Tensor& to = results[*step.states[s].output];
      for (std::int64_t i = 0; i < states[s].elements(); ++i)
        to.floats[whole_index(step.states[s], first_row, i)] = states[s].floats[i];
    }
  }
  return results;
}

class Steps : public testing::TestWithParam<Cell> {};

TEST_P(Steps, OfAllBlocksAreTheLoop) {
  const Graph kernel = GetParam().graph(GetParam().shape);
  const std::vector<Tensor> arguments = graph::test::random_arguments(kernel, 7);
  const auto expected = graph::evaluate(kernel, arguments);
  ASSERT_TRUE(expected) << expected.error().message;
  int tried = 0;
  for (std::int64_t rows = 1; rows <= GetParam().shape.rows; ++rows) {
    const auto step = recurrent_step(kernel, rows);
    ASSERT_EQ(step.ok(), GetParam().shape.rows % rows == 0);
    if (!step) continue;
    ASSERT_TRUE(graph::verify((*step)->graph)) << graph::verify((*step)->graph).error().message;
    for (const graph::Node& node : (*step)->graph.nodes()) EXPECT_NE(node.op, Op::dot);
    const std::vector<Tensor> got = run(kernel, **step, arguments);
    ASSERT_EQ(got.size(), expected->size());
    for (std::size_t r = 0; r < got.size(); ++r) {
      ASSERT_EQ(got[r].floats.size(), (*expected)[r].floats.size());
      for (std::size_t i = 0; i < got[r].floats.size(); ++i)
        ASSERT_NEAR(got[r].floats[i], (*expected)[r].floats[i], 1e-9) << "result " << r << " element " << i;
    }
    ++tried;
  }
  EXPECT_GE(tried, 3);
}

INSTANTIATE_TEST_SUITE_P(Cells, Steps,
                         testing::Values(Cell{"gru", gru, {}}, Cell{"gru_reversed", gru, {.reversed = true}},
                                         Cell{"lstm", lstm, {}}, Cell{"reset_before", gru_reset_before, {}},
                                         Cell{"backward", cell_backward, {.reversed = true}}),
                         [](const auto& each) { return each.param.name; });

TEST(RandomSteps, OfAllBlocksAreTheLoop) {
  int found = 0, tried = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    const Graph kernel = random_loop(seed);
    if (kernel.results().empty() || !recurrent_step(kernel, 1)) continue;
    ++tried;
    const std::vector<Tensor> arguments = graph::test::random_arguments(kernel, seed);
    const auto expected = graph::evaluate(kernel, arguments);
    ASSERT_TRUE(expected) << expected.error().message;
    for (const std::int64_t rows : {1, 2, 3, 4}) {
      const auto step = recurrent_step(kernel, rows);
      if (!step) continue;
      ASSERT_TRUE(graph::verify((*step)->graph)) << seed << ": " << graph::verify((*step)->graph).error().message;
      const std::vector<Tensor> got = run(kernel, **step, arguments);
      for (std::size_t r = 0; r < got.size(); ++r) {
        for (std::size_t i = 0; i < got[r].floats.size(); ++i) {
          const double x = got[r].floats[i], y = (*expected)[r].floats[i];
          const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= 1e-9 * std::abs(y);
          ASSERT_TRUE(same) << "seed " << seed << ", " << rows << " rows, result " << r << " element " << i << ": " << x
                            << " instead of " << y;
        }
      }
      ++found;
    }
  }
  EXPECT_GE(tried, 60);
  EXPECT_GE(found, 2 * tried);
}

std::int64_t count(const Graph& graph, Op op) {
  return std::ranges::count_if(graph.nodes(), [&](const graph::Node& node) { return node.op == op; });
}

TEST(RecurrentStep, SlicesOfAContractionAreContractions) {
  // Three gates, each the sum of its own products: one iteration space, no value of all three.
  const auto step = recurrent_step(gru({.rows = 12, .width = 8}), 2);
  ASSERT_TRUE(step);
  EXPECT_EQ(count((*step)->graph, Op::reduce), 3);
  for (const graph::Node& node : (*step)->graph.nodes()) {
    if (node.op == Op::reduce) {
      EXPECT_EQ(node.type().dims, (Dims{2, 8}));
    }
  }
  // A state is contracted as it lies in shared memory.
  EXPECT_TRUE((*step)->stored_first.empty());
}

TEST(RecurrentStep, WhatIsComputedForAContractionIsStoredFirst) {
  const auto one = recurrent_step(gru_reset_before({}), 4);
  ASSERT_TRUE(one);
  ASSERT_EQ((*one)->stored_first.size(), 1U);
  EXPECT_EQ((*one)->graph.node((*one)->stored_first.begin()->node).op, Op::multiply);
  // Parts of a concatenation, each by itself.
  const auto two = recurrent_step(cell_backward({}), 4);
  ASSERT_TRUE(two);
  EXPECT_EQ((*two)->stored_first.size(), 2U);
}

TEST(RecurrentStep, SumsOfIntegersAreWhatTheContractionMakes) {
  LoopBuilder l({});
  const Value h = l.carry(l.outside.parameter(DType::s8, {12, 8}));
  const Value weights = l.carry(l.outside.parameter(DType::s8, {8, 8}));
  const Value sums = l.inside.dot(h, weights, {{}, {}, {1}, {0}, DType::s32});
  l.hand_on(h, l.inside.convert(sums, DType::s8));
  l.want(h);
  const auto step = recurrent_step(l.finish(), 3);
  ASSERT_TRUE(step) << step.error().message;
  int products = 0;
  for (const graph::Node& node : (*step)->graph.nodes()) {
    if (node.op != Op::multiply) continue;
    EXPECT_EQ(node.type().dtype, DType::s32);
    ++products;
  }
  EXPECT_EQ(products, 1);
}

TEST(RecurrentStep, RandomBitsOfRowsAreThoseOfTheRows) {
  // A mask of every turn's own: the counter and the elements' numbers make the bits.
  LoopBuilder l({.turns = 3, .rows = 6, .width = 4});
  Builder& b = l.inside;
  const Value h = l.carry(l.outside.parameter(DType::f32, {6, 4}));
  const Value key = l.carry(l.outside.parameter(DType::u32, {}));
  const Value wide = b.broadcast(key, {6, 4}, {});
  const Value number = b.reshape(b.iota(DType::u32, {24}, 0), {6, 4});
  const Value bits = b.add(Op::threefry2x32, {wide, wide, number, wide});
  const Value keep = b.compare(graph::Comparison::lt, {bits.node, 1}, b.filled(DType::u32, {6, 4}, 2147483648.0));
  l.hand_on(h, b.select(keep, b.binary(Op::add, h, b.filled(DType::f32, {6, 4}, 1)), b.filled(DType::f32, {6, 4}, 0)));
  l.want(h);
  const Graph kernel = l.finish();
  const std::vector<Tensor> arguments = graph::test::random_arguments(kernel, 3);
  const auto expected = graph::evaluate(kernel, arguments);
  ASSERT_TRUE(expected) << expected.error().message;
  const auto step = recurrent_step(kernel, 2);
  ASSERT_TRUE(step) << step.error().message;
  EXPECT_EQ(run(kernel, **step, arguments)[0].floats, (*expected)[0].floats);
}

TEST(RecurrentStep, KnowsWhatABlockReadsOfASequence) {
  for (const bool reversed : {false, true}) {
    const auto step = recurrent_step(gru({.turns = 5, .rows = 12, .width = 8, .reversed = reversed}), 3);
    ASSERT_TRUE(step) << step.error().message;
    ASSERT_EQ((*step)->sequences.size(), 1U);
    const RecurrentStep::Sequence& sequence = (*step)->sequences[0];
    EXPECT_EQ((*step)->graph.node((*step)->graph.parameters()[sequence.parameter]).type().dims, (Dims{5, 12, 24}));
    EXPECT_EQ(sequence, (RecurrentStep::Sequence{sequence.parameter, reversed, 12 * 24 * 4, 24 * 4, 1, 3 * 24 * 4}));
  }
  // Batch first: the rows of a turn are apart.
  LoopBuilder l({.turns = 5, .rows = 12});
  const Value h = l.carry(l.outside.parameter(DType::f32, {12, 8}));
  const Value x = l.given({12, 5, 8});
  const Value slice = l.inside.add(Op::dynamic_slice, {x, l.scalar(0), l.counter(), l.scalar(0)},
                                   graph::DynamicSliceAttributes{{12, 1, 8}});
  l.hand_on(h, l.inside.binary(Op::add, h, l.inside.reshape(slice, {12, 8})));
  l.want(h);
  const Graph kernel = l.finish();
  const auto step = recurrent_step(kernel, 4);
  ASSERT_TRUE(step) << step.error().message;
  ASSERT_EQ((*step)->sequences.size(), 1U);
  EXPECT_EQ((*step)->sequences[0],
            (RecurrentStep::Sequence{(*step)->sequences[0].parameter, false, 8 * 4, 5 * 8 * 4, 4, 8 * 4}));
  const std::vector<Tensor> arguments = graph::test::random_arguments(kernel, 7);
  EXPECT_EQ(run(kernel, **step, arguments)[0].floats, (*graph::evaluate(kernel, arguments))[0].floats);
}

TEST(RecurrentStep, SaysWhyThereIsNone) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4});
  EXPECT_THAT(recurrent_step(finished(b, {b.unary(Op::exp, x)}), 1).error().message,
              testing::HasSubstr("not a loop by itself"));
  EXPECT_THAT(recurrent_step(gru({}), 5).error().message, testing::HasSubstr("12 rows are no multiple of 5"));
}

TEST(ResidentLayout, HasEveryStateTwice) {
  RecurrentStep step;
  step.states.resize(2);
  step.states[0].type = {DType::f32, {3}};
  step.states[1].type = {DType::f32, {8}};
  const std::vector<std::int64_t> scratch = {4, 40};
  const ResidentLayout layout = resident_layout(step, scratch);
  EXPECT_EQ(layout.states, (std::vector<std::int64_t>{0, 16}));
  EXPECT_EQ(layout.copy, 48);
  EXPECT_EQ(layout.scratch, (std::vector<std::int64_t>{96, 112}));
  EXPECT_EQ(layout.first_row, 160);
  EXPECT_EQ(layout.bytes, 176);
}

}  // namespace
}  // namespace stitch::kernel::test
