#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "import/hlo/expansion.h"
#include "import/hlo/parser.h"
#include "import/import.h"
#include "tests/import/hlo_text.h"

namespace stitch::import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Trip counts of the loops of a graph, regions included, in the order of their nodes.
std::vector<std::int64_t> trip_counts(const graph::Graph& graph) {
  std::vector<std::int64_t> counts;
  graph::for_each_region(graph, [&](const graph::RegionSite& site) {
    for (const graph::Node& node : site.graph.nodes()) {
      if (node.op == graph::Op::loop) counts.push_back(node.as<graph::LoopAttributes>().trip_count);
    }
  });
  return counts;
}

/// A loop over (counter, bound, f32[2]).
struct CountedLoop {
  std::string type = "s32";
  std::string start = "0", bound = "10", step = "1";
  std::string advance = "add(i, one)";
  std::string decision = "compare(i, n), direction=LT";
};

std::string loop_text(const CountedLoop& loop) {
  const std::string carried = fmt::format("({0}[], {0}[], f32[2])", loop.type);
  const std::string computations = fmt::format(R"(body {{
  p = {0} parameter(0)
  i = {1}[] get-tuple-element(p), index=0
  one = {1}[] constant({2})
  next = {1}[] {3}
  n = {1}[] get-tuple-element(p), index=1
  x = f32[2] get-tuple-element(p), index=2
  y = f32[2] sine(x)
  ROOT t = {0} tuple(next, n, y)
}}
condition {{
  p = {0} parameter(0)
  i = {1}[] get-tuple-element(p), index=0
  n = {1}[] get-tuple-element(p), index=1
  ROOT r = pred[] {4}
}}
)",
                                               carried, loop.type, loop.step, loop.advance, loop.decision);
  return module_text(fmt::format(R"(  start = {1}[] constant({2})
  bound = {1}[] constant({3})
  x = f32[2] parameter(0)
  init = {0} tuple(start, bound, x)
  w = {0} while(init), condition=condition, body=body
  ROOT r = f32[2] get-tuple-element(w), index=2)",
                                 carried, loop.type, loop.start, loop.bound),
                     computations);
}

TEST(HloWhile, TripCounts) {
  struct Row {
    CountedLoop loop;
    std::int64_t trips;
  };
  const Row rows[] = {
      {{}, 10},
      {{.start = "3"}, 7},
      {{.start = "10"}, 0},
      {{.start = "11"}, 0},
      {{.step = "3"}, 4},
      {{.decision = "compare(i, n), direction=LE"}, 11},
      {{.decision = "compare(i, n), direction=NE"}, 10},
      {{.decision = "compare(n, i), direction=GT"}, 10},
      {{.start = "10", .bound = "0", .advance = "subtract(i, one)", .decision = "compare(i, n), direction=GT"}, 10},
      {{.start = "1", .bound = "100", .step = "2", .advance = "multiply(i, one)"}, 7},
      {{.type = "u8", .bound = "200"}, 200},
      {{.type = "s64", .bound = "200000"}, 200000},
      {{.type = "f32", .bound = "1", .step = "0.25"}, 4},
      // Never ends, or not within a quarter of a million trips.
      {{.step = "0"}, -1},
      {{.bound = "1000000000"}, -1},
      {{.start = "1", .step = "-1", .decision = "compare(i, n), direction=LT"}, -1},
  };
  for (const Row& row : rows) {
    const Imported imported = import_good(loop_text(row.loop));
    EXPECT_THAT(trip_counts(imported.graph), ElementsAre(row.trips))
        << row.loop.start << " " << row.loop.advance << " " << row.loop.decision;
  }
}

TEST(HloWhile, UnknownStartsGiveUnknownCounts) {
  std::string text = loop_text({});
  const std::string constant = "bound = s32[] constant(10)";
  text.replace(text.find(constant), constant.size(), "bound = s32[] parameter(1)");
  EXPECT_THAT(trip_counts(import_good(text).graph), ElementsAre(-1));
}

TEST(HloWhile, CarriedTuplesAreFlattened) {
  const Imported imported = import_good(module_text(R"(  i = s32[] constant(0)
  x = f32[2] parameter(0)
  tok = token[] after-all()
  inner = (f32[2], s32[]) tuple(x, i)
  init = ((f32[2], s32[]), token[], f32[2]) tuple(inner, tok, x)
  w = ((f32[2], s32[]), token[], f32[2]) while(init), condition=condition, body=body
  ROOT r = (f32[2], s32[]) get-tuple-element(w), index=0)",
                                                    R"(body {
  p = ((f32[2], s32[]), token[], f32[2]) parameter(0)
  pair = (f32[2], s32[]) get-tuple-element(p), index=0
  tok = token[] get-tuple-element(p), index=1
  y = f32[2] get-tuple-element(p), index=2
  x = f32[2] get-tuple-element(pair), index=0
  i = s32[] get-tuple-element(pair), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  next = (f32[2], s32[]) tuple(y, j)
  ROOT t = ((f32[2], s32[]), token[], f32[2]) tuple(next, tok, x)
}
condition {
  p = ((f32[2], s32[]), token[], f32[2]) parameter(0)
  pair = (f32[2], s32[]) get-tuple-element(p), index=0
  i = s32[] get-tuple-element(pair), index=1
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
)"));
  EXPECT_THAT(trip_counts(imported.graph), ElementsAre(3));
  ASSERT_EQ(imported.graph.results().size(), 2U);
  const graph::Value last = imported.graph.results()[1];
  EXPECT_EQ(last.result, 1);
  EXPECT_EQ(imported.graph.type(last), (graph::TensorType{graph::DType::s32, {}}));
  EXPECT_EQ(imported.graph.node(last.node).operands.size(), 3U) << "the token is not carried";
}

/// A loop of `outer` trips around one whose bound the outer loop hands through.
std::string nested_text(std::string_view handed_through) {
  return module_text(R"(  zero = s32[] constant(0)
  five = s32[] constant(5)
  x = f32[2] parameter(0)
  init = (s32[], s32[], f32[2]) tuple(zero, five, x)
  w = (s32[], s32[], f32[2]) while(init), condition=outer_condition, body=outer_body
  ROOT r = f32[2] get-tuple-element(w), index=2)",
                     fmt::format(R"(inner_body {{
  p = (s32[], s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  n = s32[] get-tuple-element(p), index=1
  x = f32[2] get-tuple-element(p), index=2
  y = f32[2] cosine(x)
  s = (f32[2], f32[2]) custom-call(y, x), custom_call_target="order"
  z = f32[2] get-tuple-element(s), index=0
  ROOT t = (s32[], s32[], f32[2]) tuple(j, n, z)
}}
inner_condition {{
  p = (s32[], s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  ROOT r = pred[] compare(i, n), direction=LT
}}
step {{
  i = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT j = s32[] add(i, one)
}}
outer_body {{
  p = (s32[], s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  j = s32[] call(i), to_apply=step
  n = s32[] get-tuple-element(p), index=1
  x = f32[2] get-tuple-element(p), index=2
  two = s32[] constant(2)
  init = (s32[], s32[], f32[2]) tuple(two, n, x)
  w = (s32[], s32[], f32[2]) while(init), condition=inner_condition, body=inner_body
  y = f32[2] get-tuple-element(w), index=2
  ROOT t = (s32[], s32[], f32[2]) tuple(j, {}, y)
}}
outer_condition {{
  p = (s32[], s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  four = s32[] constant(4)
  ROOT r = pred[] compare(i, four), direction=LT
}}
)",
                                 handed_through));
}

TEST(HloWhile, InnerLoopsKnowWhatTheOuterOnesHandThrough) {
  const Imported imported = import_good(nested_text("n"));
  EXPECT_THAT(trip_counts(imported.graph), ElementsAre(4, 3));
  ASSERT_EQ(imported.boundaries.size(), 1U);
  EXPECT_EQ(imported.boundaries[0].op, "custom-call order");
  EXPECT_EQ(imported.boundaries[0].occurrences, 12);
  EXPECT_THAT(imported.boundaries[0].place, HasSubstr(", s"));
}

TEST(HloWhile, WhatTheOuterLoopChangesIsUnknownInside) {
  EXPECT_THAT(trip_counts(import_good(nested_text("j")).graph), ElementsAre(4, -1));
}

constexpr std::string_view branch_computations = R"(plus {
  p = (f32[2], f32[2]) parameter(0)
  x = f32[2] get-tuple-element(p), index=0
  y = f32[2] get-tuple-element(p), index=1
  ROOT r = f32[2] add(x, y)
}
minus {
  x = f32[2] parameter(0)
  ROOT r = f32[2] negate(x)
}
same {
  ROOT x = f32[2] parameter(0)
}
)";

TEST(HloConditional, TruthValuesSelectInTheOrderOfNumbers) {
  const Imported imported = import_good(module_text(R"(  p = pred[] parameter(0)
  x = f32[2] parameter(1)
  y = f32[2] parameter(2)
  xy = (f32[2], f32[2]) tuple(x, y)
  ROOT c = f32[2] conditional(p, xy, y), true_computation=plus, false_computation=minus)",
                                                    branch_computations));
  const graph::Node& node = imported.graph.node(imported.graph.results()[0].node);
  ASSERT_EQ(node.op, graph::Op::conditional);
  // The selector as a number, and each value that a branch takes once.
  ASSERT_EQ(node.operands.size(), 3U);
  EXPECT_EQ(imported.graph.node(node.operands[0].node).op, graph::Op::convert);
  ASSERT_EQ(node.regions.size(), 2U);
  EXPECT_EQ(node.regions[0]->name, "minus");
  EXPECT_EQ(node.regions[1]->name, "plus");
  for (const auto& region : node.regions) EXPECT_EQ(region->parameters().size(), 2U);
  // minus negates y, which came first because its branch is number 0.
  const graph::Graph& minus = *node.regions[0];
  EXPECT_EQ(imported.graph.node(node.operands[1].node).name, "y");
  EXPECT_EQ(minus.node(minus.results()[0].node).operands[0].node, minus.parameters()[0]);
}

TEST(HloConditional, ManyBranches) {
  const Imported imported = import_good(module_text(R"(  i = s32[] parameter(0)
  x = f32[2] parameter(1)
  xx = (f32[2], f32[2]) tuple(x, x)
  ROOT c = f32[2] conditional(i, xx, x, x), branch_computations={plus, minus, same})",
                                                    branch_computations));
  const graph::Node& node = imported.graph.node(imported.graph.results()[0].node);
  EXPECT_EQ(node.operands.size(), 2U) << "one value serves all branches";
  EXPECT_EQ(node.regions.size(), 3U);
}

TEST(HloConditional, BadOnesSayWhy) {
  struct Row {
    std::string_view instruction, message;
  };
  const Row rows[] = {
      {"conditional(p, x), true_computation=minus, false_computation=minus", "2 branches, 2 operands"},
      {"conditional(p, x, x), true_computation=minus", "lacks the attribute 'false_computation'"},
      {"conditional(p, x, x), true_computation=plus, false_computation=minus",
       "the operand of branch 1 is not what it takes"},
      {"conditional(p, x, x), true_computation=minus, false_computation=main",
       "'main' does not come before the one that calls it"},
      {"conditional(p, x, x), true_computation=minus, false_computation=other", "there is no computation 'other'"},
      {"conditional(x, x, x), true_computation=minus, false_computation=minus",
       "operand 0 is s32[2], not a scalar selector"},
  };
  for (const Row& row : rows) {
    const Error error = import_bad(module_text(
        fmt::format("  p = pred[] parameter(0)\n  x = f32[2] parameter(1)\n  ROOT c = f32[2] {}", row.instruction),
        branch_computations));
    EXPECT_EQ(error.kind, ErrorKind::parse);
    EXPECT_THAT(error.message, HasSubstr(row.message));
    EXPECT_THAT(error.message, HasSubstr("line "));
  }
}

TEST(HloCall, CallsAreInlinedWithTheNamesAndLinesOfTheirInstructions) {
  const Imported imported = import_good(R"(HloModule m
twice {
  x = f32[] parameter(0)
  ROOT sum = f32[] add(x, x)
}
ENTRY main {
  a = f32[] parameter(0)
  b = f32[] call(a), to_apply=twice
  ROOT c = f32[] fusion(b), kind=kLoop, calls=twice
})");
  ASSERT_EQ(imported.graph.size(), 3);
  for (const graph::NodeId id : {1, 2}) {
    EXPECT_EQ(imported.graph.node(id).name, "sum");
    EXPECT_EQ(imported.graph.node(id).line, 4);
  }
  EXPECT_EQ(imported.graph.node(2).operands[0].node, 1);
}

TEST(HloCall, WrongArgumentsSayWhere) {
  const std::string_view callee = "f {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x)\n}\n";
  EXPECT_THAT(
      import_bad(module_text("  a = f32[3] parameter(0)\n  ROOT c = f32[2] call(a), to_apply=f", callee)).message,
      HasSubstr("line 10, column 8: call 'c': argument 0 does not have the shape that 'f' declares"));
  EXPECT_THAT(import_bad(module_text("  ROOT c = f32[2] call(), to_apply=f", callee)).message,
              HasSubstr("'f' takes 1 parameters, 0 are given"));
  EXPECT_THAT(
      import_bad(module_text("  a = f32[2] parameter(0)\n  ROOT c = f32[3] call(a), to_apply=f", callee)).message,
      HasSubstr("declared as f32[3], but the operands give f32[2]"));
}

TEST(HloCall, ChainsOfCallsAreBounded) {
  // Each computation calls the one before twice: 2^40 instructions if nobody stopped it.
  std::string computations = "f0 {\n  x = f32[] parameter(0)\n  ROOT y = f32[] negate(x)\n}\n";
  for (int i = 1; i <= 40; ++i) {
    computations += fmt::format(
        "f{0} {{\n  x = f32[] parameter(0)\n  y = f32[] call(x), to_apply=f{1}\n  ROOT z = f32[] call(y), "
        "to_apply=f{1}\n}}\n",
        i, i - 1);
  }
  ImportOptions options;
  options.max_nodes = 10000;
  const std::string text =
      module_text("  a = f32[] parameter(0)\n  ROOT b = f32[] call(a), to_apply=f40", computations);
  const Result<Imported> imported = import_hlo_text(text, options);
  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(imported.error().kind, ErrorKind::resource_exhausted);
  // Nor is any of it made before that is known.
  const auto module = hlo::parse_module(text);
  ASSERT_TRUE(module.ok());
  EXPECT_EQ(hlo::expanded_instructions(*module, std::int64_t{1} << 50), 5 * (std::int64_t{1} << 40) - 1);
  EXPECT_EQ(hlo::expanded_instructions(*module, 1000), 1000);
  // A straight chain is as deep as it is long.
  computations = "f0 {\n  ROOT x = f32[] parameter(0)\n}\n";
  for (int i = 1; i <= 1000; ++i) {
    computations +=
        fmt::format("f{} {{\n  x = f32[] parameter(0)\n  ROOT y = f32[] call(x), to_apply=f{}\n}}\n", i, i - 1);
  }
  const Error error =
      import_bad(module_text("  a = f32[] parameter(0)\n  ROOT b = f32[] call(a), to_apply=f1000", computations));
  EXPECT_EQ(error.kind, ErrorKind::resource_exhausted);
  EXPECT_THAT(error.message, HasSubstr("calls are nested more than"));
}

}  // namespace
}  // namespace stitch::import
