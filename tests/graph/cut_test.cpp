#include "graph/cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "graph/builder.h"
#include "graph/in_place.h"
#include "graph/verify.h"

namespace stitch::graph {
namespace {

Graph finished(Builder& builder, std::vector<Value> results) {
  Result<Graph> graph = builder.finish(std::move(results));
  if (!graph) {
    throw std::runtime_error(graph.error().message);
  }
  return std::move(*graph);
}

DotAttributes rows_by_columns(DType result = DType::f32) {
  DotAttributes a;
  a.result = result;
  a.lhs_contracting = {1};
  a.rhs_contracting = {0};
  return a;
}

Dims count_of(const Graph& graph, Op op) {
  std::int64_t count = 0;
  for (const Node& node : graph.nodes()) count += node.op == op ? 1 : 0;
  return {count};
}

std::vector<std::string> parameter_types(const Graph& graph) {
  std::vector<std::string> types;
  for (const NodeId id : graph.parameters()) types.push_back(to_string(graph.node(id).type()));
  std::sort(types.begin(), types.end());
  return types;
}

using testing::ElementsAre;

TEST(Cut, LevelsAreSeparatedByContractions) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 64}), w = b.parameter(DType::f32, {64, 64});
  const Value before = b.unary(Op::tanh, x);
  const Value product = b.dot(before, w, rows_by_columns());
  const CutGraph cut_graph = cut(finished(b, {b.unary(Op::exp, product)}));
  ASSERT_EQ(cut_graph.calls.size(), 1U);
  ASSERT_EQ(cut_graph.fragments.size(), 2U);
  EXPECT_EQ(cut_graph.fragments[0].level, 0);
  EXPECT_EQ(count_of(cut_graph.fragments[0].graph, Op::tanh), Dims{1});
  EXPECT_EQ(cut_graph.fragments[1].level, 1);
  EXPECT_EQ(count_of(cut_graph.fragments[1].graph, Op::exp), Dims{1});
  EXPECT_EQ(cut_graph.fragments[1].arguments, std::vector<Value>{product});
}

// Softmax between two matmuls, its exponentials wanted again behind the second: in f32 they are twice as large as the
// logits in bf16 and would be written and read.
Graph softmax_with_backward(DType logits_type) {
  Builder b;
  const Value q = b.parameter(logits_type, {512, 512}), k = b.parameter(logits_type, {512, 512});
  const Value logits = b.convert(b.dot(q, k, rows_by_columns(logits_type)), DType::f32);
  const Value top = b.broadcast(b.reduce(ReduceKind::max, logits, {1}), {512, 512}, {0});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, logits, top));
  const Value again = b.dot(b.convert(e, logits_type), k, rows_by_columns(logits_type));
  return finished(b, {b.binary(Op::multiply, e, b.convert(again, DType::f32))});
}

TEST(Cut, WhatIsCheaperToComputeAgainIsNotStored) {
  const CutGraph cut_graph = cut(softmax_with_backward(DType::bf16));
  ASSERT_EQ(cut_graph.fragments.size(), 2U);
  // The first level leaves the exponentials in bf16 for the matmul and the rows' maxima; the second starts from both
  // products and the maxima.
  EXPECT_EQ(cut_graph.fragments[0].results.size(), 2U);
  EXPECT_EQ(count_of(cut_graph.fragments[1].graph, Op::exp), Dims{1});
  EXPECT_THAT(parameter_types(cut_graph.fragments[1].graph), ElementsAre("bf16[512,512]", "bf16[512,512]", "f32[512]"));
}

TEST(Cut, WhatIsStoredAnywayIsRead) {
  // In f32 the exponentials are the matmul's operand: they are in memory, and reading logits and maxima saves nothing.
  const CutGraph cut_graph = cut(softmax_with_backward(DType::f32));
  ASSERT_EQ(cut_graph.fragments.size(), 2U);
  EXPECT_EQ(cut_graph.fragments[0].results.size(), 1U);
  EXPECT_EQ(count_of(cut_graph.fragments[1].graph, Op::exp), Dims{0});
  EXPECT_THAT(parameter_types(cut_graph.fragments[1].graph), ElementsAre("f32[512,512]", "f32[512,512]"));
}

// A value of two inputs that only the level behind a product needs.
struct Side {
  Builder b;
  Value x = b.parameter(DType::f32, {512, 512}), w = b.parameter(DType::f32, {512, 512});
  Value made = b.unary(Op::tanh, b.binary(Op::multiply, b.parameter(DType::f32, {512, 512}), x));

  Value times_w(Value value) { return b.dot(value, w, rows_by_columns()); }
  CutGraph cut_with(Value also) {
    const Value sum = b.unary(Op::exp, b.binary(Op::add, b.binary(Op::multiply, times_w(x), made), made));
    return cut(finished(b, {b.binary(Op::add, times_w(sum), also)}));
  }
};

TEST(Cut, WhatOnlyALaterLevelReadsIsComputedThere) {
  Side side;
  const CutGraph cut_graph = side.cut_with(side.x);
  ASSERT_EQ(cut_graph.fragments.size(), 1U);
  EXPECT_EQ(cut_graph.fragments[0].level, 1);
  EXPECT_EQ(count_of(cut_graph.fragments[0].graph, Op::tanh), Dims{1});
  EXPECT_EQ(cut_graph.fragments[0].arguments.size(), 3U)
      << "the product, and two inputs instead of what is made of them";
  EXPECT_EQ(cut_graph.fragments[0].results.size(), 1U);
}

TEST(Cut, WhatAnotherLevelReadsTooStaysWhereItIs) {
  Side side;
  const CutGraph cut_graph = side.cut_with(side.made);
  ASSERT_EQ(cut_graph.fragments.size(), 2U);
  EXPECT_EQ(cut_graph.fragments[0].level, 0);
  EXPECT_EQ(count_of(cut_graph.fragments[0].graph, Op::tanh), Dims{1});
  EXPECT_EQ(count_of(cut_graph.fragments[1].graph, Op::tanh), Dims{0});
}

// A product as bf16 is half of what would be in memory until the next level otherwise.
TEST(Cut, WhatIsMadeOfMoreThanItselfIsMadeAtOnce) {
  for (const DType type : {DType::f32, DType::bf16}) {
    Side side;
    const Value product = side.times_w(side.x),
                squashed = side.b.unary(Op::tanh, side.b.binary(Op::multiply, product, product));
    const Value kept = side.b.convert(side.b.convert(squashed, type), DType::f32);
    const Value next = side.b.unary(Op::exp, side.b.binary(Op::multiply, side.times_w(side.times_w(side.x)), kept));
    const CutGraph cut_graph = cut(finished(side.b, {side.times_w(next)}));
    const auto squashes = [&](int level) {
      std::int64_t count = 0;
      for (const FragmentSite& site : cut_graph.fragments)
        count += site.level == level ? count_of(site.graph, Op::tanh)[0] : 0;
      return count;
    };
    EXPECT_EQ(squashes(1), type == DType::bf16 ? 1 : 0);
    EXPECT_EQ(squashes(2), type == DType::bf16 ? 0 : 1);
  }
}

// Tests of one tensor of bytes, which are wanted behind a matmul; `shifted`: each of another place.
Graph tests_of_bytes(int tests, bool shifted = false) {
  Builder b;
  const Value x = b.parameter(DType::f32, {512, 512}), w = b.parameter(DType::f32, {512, 512});
  const Value before = b.unary(Op::tanh, x);
  const Value bytes = b.convert(b.binary(Op::multiply, before, b.reverse(before, {0})), DType::u8);
  Value sum = b.dot(before, w, rows_by_columns());
  for (int i = 0; i < tests; ++i) {
    const Value tested = shifted ? b.pad(bytes, b.scalar(DType::u8, 0), {i, 0}, {-i, 0}) : bytes;
    const Value test = b.compare(Comparison::eq, tested, b.filled(DType::u8, {512, 512}, i));
    sum = b.select(test, b.unary(Op::exp, sum), sum);
  }
  return finished(b, {sum});
}

TEST(Cut, WhatReadsTheSameIsWeighedTogether) {
  for (const int tests : {2, 9}) {
    for (const bool shifted : {false, true}) {
      const CutGraph cut_graph = cut(tests_of_bytes(tests, shifted));
      ASSERT_EQ(cut_graph.fragments.size(), 2U);
      EXPECT_THAT(parameter_types(cut_graph.fragments[1].graph), ElementsAre("f32[512,512]", "u8[512,512]"));
      EXPECT_EQ(count_of(cut_graph.fragments[1].graph, Op::compare), Dims{tests});
    }
  }
  // One test is as large as what it tests: it is stored.
  EXPECT_THAT(parameter_types(cut(tests_of_bytes(1)).fragments[1].graph), ElementsAre("f32[512,512]", "pred[512,512]"));
}

TEST(Cut, NothingIsComputedAgainUnlessAllowed) {
  CutOptions options;
  options.recompute = false;
  const CutGraph cut_graph = cut(softmax_with_backward(DType::bf16), options);
  ASSERT_EQ(cut_graph.fragments.size(), 2U);
  EXPECT_THAT(parameter_types(cut_graph.fragments[1].graph), ElementsAre("bf16[512,512]", "f32[512,512]"));
}

// A loop's body: one carried tensor gets a row, one is handed on, one is read and updated.
struct Body {
  Graph graph;
  Value update;
};

Body body_with_update(bool read_elsewhere, bool other_slot) {
  Builder b;
  const Value stack = b.parameter(DType::f32, {100, 64}), row = b.parameter(DType::f32, {1, 64}),
              step = b.parameter(DType::s32, {});
  const Value fresh = b.unary(Op::tanh, row);
  const Value update =
      b.add(Op::dynamic_update_slice, {stack, fresh, step, b.scalar(DType::s32, 0)}, UpdateAttributes{});
  const Value next =
      read_elsewhere ? b.binary(Op::add, fresh, b.slice(stack, {0, 0}, {1, 64})) : b.unary(Op::exp, fresh);
  if (other_slot) return {finished(b, {next, update, step}), update};
  return {finished(b, {update, next, step}), update};
}

bool marks_in_place(const CutGraph& cut_graph) {
  for (const FragmentSite& site : cut_graph.fragments) {
    for (const Value result : site.graph.results()) {
      if (updated_parameter(site.graph, result)) return true;
    }
  }
  return false;
}

CutOptions carried() {
  CutOptions options;
  options.carried = true;
  return options;
}

TEST(Cut, FragmentsAreUnderTheConstraintsOfTheirGraph) {
  Graph body = body_with_update(false, false).graph;
  body.constraints.deterministic = true;
  CutOptions options = carried();
  options.constraints.batch_invariant = true;
  const CutGraph pieces = cut(body, options);
  ASSERT_FALSE(pieces.fragments.empty());
  for (const FragmentSite& site : pieces.fragments)
    EXPECT_EQ(site.graph.constraints, (Constraints{.deterministic = true, .batch_invariant = true}));
}

TEST(Cut, CarriedTensorsAreUpdatedInPlace) {
  EXPECT_TRUE(marks_in_place(cut(body_with_update(false, false).graph, carried())));
}

CutOptions given(std::vector<Donation> donations) {
  CutOptions options;
  options.donations = std::move(donations);
  return options;
}

TEST(Cut, AParameterThatIsGivenAwayIsUpdatedInPlace) {
  const CutGraph pieces = cut(body_with_update(false, false).graph, given({{0, 0}}));
  EXPECT_TRUE(marks_in_place(pieces));
  ASSERT_EQ(pieces.donations.size(), 1U);
  EXPECT_EQ(pieces.donations[0], (DonationOutcome{{0, 0}, true, "only the update is written"}));
}

TEST(Cut, WhatIsGivenAwayInVainIsCopiedAndSaysWhy) {
  const CutGraph read = cut(body_with_update(true, false).graph, given({{0, 0}}));
  EXPECT_FALSE(marks_in_place(read));
  EXPECT_FALSE(read.donations[0].in_place);
  EXPECT_THAT(read.donations[0].why, testing::HasSubstr("(slice) reads it as well"));
  const CutGraph computed = cut(body_with_update(false, false).graph, given({{1, 1}}));
  EXPECT_FALSE(marks_in_place(computed));
  EXPECT_THAT(computed.donations[0].why, testing::HasSubstr("made by exp, which is no update of a part"));
}

TEST(Cut, WhatIsHandedOnToItsOwnPlaceIsNotCopied) {
  const Graph graph = body_with_update(false, false).graph;  // parameter 2 is result 2
  const auto stored = [](const CutGraph& pieces) {
    std::size_t results = 0;
    for (const FragmentSite& site : pieces.fragments) results += site.results.size();
    return results;
  };
  const CutGraph kept = cut(graph, given({{2, 2}}));
  EXPECT_EQ(stored(kept) + 1, stored(cut(graph)));
  EXPECT_EQ(kept.donations[0], (DonationOutcome{{2, 2}, true, "handed on as it is"}));
}

TEST(Cut, NotOutsideALoop) { EXPECT_FALSE(marks_in_place(cut(body_with_update(false, false).graph))); }

TEST(Cut, NotWhenSomebodyElseReadsTheTensor) {
  EXPECT_FALSE(marks_in_place(cut(body_with_update(true, false).graph, carried())));
}

TEST(Cut, WhatIsHandedOnIsNotCopied) {
  Builder b;
  const Value weights = b.parameter(DType::f32, {64, 64}), x = b.parameter(DType::f32, {64, 64});
  const Graph body = finished(b, {weights, b.binary(Op::multiply, weights, x)});
  const auto copied = [&](const CutOptions& options) {
    std::size_t results = 0;
    for (const FragmentSite& site : cut(body, options).fragments) results += site.results.size();
    return results - 1;
  };
  EXPECT_EQ(copied(carried()), 0U);
  EXPECT_EQ(copied({}), 1U);
}

TEST(Cut, ValuesThatChangePlacesAreCopied) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64}), y = b.parameter(DType::f32, {64});
  const CutGraph cut_graph = cut(finished(b, {y, x}), carried());
  ASSERT_EQ(cut_graph.fragments.size(), 1U);
  EXPECT_EQ(cut_graph.fragments[0].results.size(), 2U);
}

/// x → a loop that adds y to x three times, from a count of zero → its square root; y is exp of a parameter.
Graph counted_loop() {
  Builder body, condition, outer("outer");
  const Value count = body.parameter(DType::s32, {}), x = body.parameter(DType::f32, {8}),
              y = body.parameter(DType::f32, {8});
  const Value next = body.binary(Op::add, count, body.scalar(DType::s32, 1));
  const auto inside = std::make_shared<const Graph>(finished(body, {next, body.binary(Op::add, x, y), y}));
  const Value now = condition.parameter(DType::s32, {});
  condition.parameter(DType::f32, {8});
  condition.parameter(DType::f32, {8});
  const auto decide = std::make_shared<const Graph>(
      finished(condition, {condition.compare(Comparison::lt, now, condition.scalar(DType::s32, 3))}));
  const Value start = outer.filled(DType::f32, {8}, 1.5);
  const Value other = outer.unary(Op::exp, outer.parameter(DType::f32, {8}));
  const Value loop =
      outer.add(Op::loop, {outer.scalar(DType::s32, 0), start, other}, LoopAttributes{3}, {inside, decide});
  return finished(outer, {outer.unary(Op::sqrt, {loop.node, 1})});
}

TEST(Cut, AWholeLoopIsAFragmentWithWhatFillsItsOperands) {
  const Graph graph = counted_loop();
  CutOptions options;
  int asked = 0;
  options.whole_loop = [&](const Graph& loop) {
    ++asked;
    EXPECT_EQ(loop.parameters().size(), 1U);  // y; the count and the start are numbers
    EXPECT_EQ(loop.results().size(), 1U);     // the count is not read afterwards
    return true;
  };
  const CutGraph whole = cut(graph, options);
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(whole.others.empty());
  ASSERT_EQ(whole.loops.size(), 1U);
  ASSERT_EQ(whole.fragments.size(), 3U);
  EXPECT_EQ(whole.fragments[0].results, whole.fragments[1].arguments);  // exp, stored for the loop
  EXPECT_EQ(whole.fragments[1].nodes, whole.loops);
  EXPECT_EQ(whole.fragments[1].results, whole.fragments[2].arguments);
  ASSERT_TRUE(verify(whole.fragments[1].graph)) << verify(whole.fragments[1].graph).error().message;
  const CutGraph apart = cut(graph);
  EXPECT_EQ(apart.others.size(), 1U);
  // Then the start is in memory before the loop, like all that it carries.
  EXPECT_EQ(apart.fragments.size(), 2U);
  EXPECT_EQ(apart.fragments[0].results.size(), 3U);
}

TEST(Cut, CopiesOfWhatACallWritesStandBehindIt) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 64}), w = b.parameter(DType::f32, {64, 64});
  const Value product = b.dot(x, w, rows_by_columns());
  const Value next = b.dot(product, w, rows_by_columns());
  const CutGraph cut_graph = cut(finished(b, {b.unary(Op::exp, x), x, next, next, product, product}));
  ASSERT_EQ(cut_graph.fragments.size(), 2U);
  EXPECT_EQ(cut_graph.fragments[0].arguments, std::vector<Value>{x}) << "it waits for no product";
  EXPECT_EQ(cut_graph.fragments[0].results.size(), 2U);
  EXPECT_EQ(cut_graph.fragments[1].arguments, (std::vector<Value>{product, next}));
  EXPECT_EQ(cut_graph.fragments[1].results, (std::vector<Value>{product, next}));
  EXPECT_EQ(cut_graph.fragments[1].level, 2);
}

TEST(UpdatedParameter, SeesThroughReshapes) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4, 8}), u = b.parameter(DType::f32, {1, 2, 8}),
              i = b.parameter(DType::s32, {});
  const Value zero = b.scalar(DType::s32, 0);
  const Value shaped = b.reshape(x, {2, 2, 8});
  const Value kept = b.add(Op::dynamic_update_slice, {shaped, u, i, zero, zero}, UpdateAttributes{true});
  const Value copied = b.add(Op::dynamic_update_slice, {shaped, u, i, zero, zero}, UpdateAttributes{});
  const Value made =
      b.add(Op::dynamic_update_slice, {b.unary(Op::exp, shaped), u, i, zero, zero}, UpdateAttributes{true});
  const Graph graph = finished(b, {kept, copied, made});
  EXPECT_EQ(updated_parameter(graph, kept), std::size_t{0});
  EXPECT_EQ(updated_parameter(graph, copied), std::nullopt);
  EXPECT_EQ(updated_parameter(graph, made), std::nullopt);
}

}  // namespace
}  // namespace stitch::graph
