#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "import/hlo/rules.h"
#include "import/import.h"
#include "tests/import/hlo_text.h"

namespace stitch::import {
namespace {

using testing::HasSubstr;

constexpr std::string_view computations = R"(sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
greater {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GT
}
without_a_bit {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  m = s32[] constant(-1025)
  i = s32[] bitcast-convert(a)
  j = s32[] bitcast-convert(b)
  k = s32[] and(i, m)
  l = s32[] and(j, m)
  c = f32[] bitcast-convert(k)
  d = f32[] bitcast-convert(l)
  ROOT r = pred[] compare(c, d), direction=LT
}
up_to_a_thousand {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  m = f32[] constant(1000)
  p = pred[] compare(a, m), direction=GT
  q = pred[] compare(b, m), direction=GT
  c = f32[] select(p, m, a)
  d = f32[] select(q, m, b)
  ROOT r = pred[] compare(c, d), direction=LT
}
row_norm {
  a = f32[] parameter(0)
  c = f32[2] broadcast(a), dimensions={}
  z = f32[] constant(0)
  ROOT r = f32[] reduce(c, z), dimensions={0}, to_apply=sum
}
)";

/// An entry over x, y: f32[4,8], w: f32[4,9000] and z: f32[], whose result is `instruction`.
std::string entry_text(std::string_view instruction) {
  return module_text(fmt::format(R"(  x = f32[4,8] parameter(0)
  y = f32[4,8] parameter(1)
  w = f32[4,9000] parameter(2)
  z = f32[] constant(0)
  ROOT r = {})",
                                 instruction),
                     fmt::format("{}{}", log_add_text, computations));
}

TEST(HloBoundary, WhatWeDoNotGenerateIsReported) {
  struct Row {
    std::string_view instruction, op, reason;
  };
  const Row rows[] = {
      {"(f32[4,8], f32[4,8]) sort(x, y), dimensions={1}, to_apply=greater", "sort",
       "its comparator is no order of one operand's elements"},
      {"f32[4,8] sort(x), dimensions={1}, to_apply=without_a_bit", "sort",
       "its comparator is no order of one operand's elements"},
      {"f32[4,8] sort(x), dimensions={1}, to_apply=up_to_a_thousand", "sort",
       "its comparator is no order of one operand's elements"},
      {"f32[4,9000] sort(w), dimensions={1}, to_apply=greater", "sort",
       "lines of 9000 elements: a block sorts at most"},
      {"(f32[4,3], s32[4,3]) topk(w), k=3, largest=true", "topk", "lines of 9000 elements: a block sorts at most"},
      {"f32[4,8] custom-call(x), custom_call_target=\"my kernel\"", "custom-call my kernel", "a custom call"},
      {"f32[4,8] all-reduce(x), replica_groups={}, to_apply=sum", "all-reduce", "collectives are left"},
      {"f32[4,4] cholesky(x), lower=true", "cholesky", "left to a solver library"},
      {"f32[4] reduce(x, z), dimensions={1}, to_apply=log_add", "reduce", "its combining function is not one of ours"},
      {"f32[4,8] reduce-window(x, z), window={size=1x8 pad=0_0x7_0}, to_apply=log_add", "reduce-window",
       "its combining function"},
      {"f32[4,8] select-and-scatter(x, y, z), window={size=1x1}, select=greater, scatter=sum", "select-and-scatter",
       "its combining function"},
      {"f32[4,8] map(x), dimensions={0,1}, to_apply=row_norm", "map", "maps more than element-wise operators"},
      {"f32[4,8] rng(z, z), distribution=rng_uniform", "rng", "a generator of random numbers"},
      {"u16[4,8,2] bitcast-convert(x)", "bitcast-convert", "changes the size of its elements"},
      {"f32[8,4]{0,1:T(8,128)} bitcast(x)", "bitcast", "depends on a tiled layout in memory"},
      {"((f32[4,8]), f32[4,8], u32[]) async-start(x), calls=row_norm", "async-start", "asynchronous"},
      {"f32[4,8] frobnicate(x, y), how=very", "frobnicate", "an operator that is not known here"},
  };
  for (const Row& row : rows) {
    const Imported imported = import_good(entry_text(row.instruction));
    ASSERT_EQ(imported.boundaries.size(), 1U) << row.instruction;
    const Boundary& boundary = imported.boundaries[0];
    EXPECT_EQ(boundary.op, row.op);
    EXPECT_EQ(boundary.place, "line 55, r");
    EXPECT_EQ(boundary.occurrences, 1);
    EXPECT_THAT(boundary.reason, HasSubstr(row.reason));
  }
}

TEST(HloBoundary, PositionsThatTheirTypeCannotCountAreNoArgReduce) {
  constexpr std::string_view arg_max = R"(arg_max {
  a = f32[] parameter(0)
  p = s32[] parameter(1)
  b = f32[] parameter(2)
  q = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  ne = pred[] compare(a, a), direction=NE
  wins = pred[] or(gt, ne)
  eq = pred[] compare(a, b), direction=EQ
  lt = pred[] compare(p, q), direction=LT
  tied = pred[] and(eq, lt)
  first = pred[] or(wins, tied)
  v = f32[] select(wins, a, b)
  k = s32[] select(first, p, q)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
)";
  struct Row {
    std::string_view type;
    int extent;
    bool counted;
  };
  const Row rows[] = {
      {"s32", 300, true},  {"u8", 256, true},    {"u8", 257, false},  {"s8", 128, true},    {"s8", 129, false},
      {"f16", 2049, true}, {"f16", 2050, false}, {"bf16", 257, true}, {"bf16", 258, false},
  };
  for (const Row& row : rows) {
    const Imported imported = import_good(module_text(fmt::format(R"(  x = f32[{1}] parameter(0)
  n = {0}[{1}] iota(), iota_dimension=0
  i = s32[{1}] convert(n)
  least = f32[] constant(-inf)
  z = s32[] constant(0)
  ROOT r = (f32[], s32[]) reduce(x, i, least, z), dimensions={{0}}, to_apply=arg_max)",
                                                                  row.type, row.extent),
                                                      arg_max));
    EXPECT_EQ(imported.boundaries.empty(), row.counted) << row.type << " " << row.extent;
    if (row.counted || imported.boundaries.empty()) continue;
    EXPECT_EQ(imported.boundaries[0].op, "reduce");
    EXPECT_THAT(imported.boundaries[0].reason, HasSubstr("its combining function is not one of ours"));
  }
}

TEST(HloBoundary, EveryRowOfTheRuleTableIsSound) {
  std::set<std::string_view> seen;
  for (const hlo::Rule& rule : hlo::rule_table()) {
    EXPECT_TRUE(seen.insert(rule.opcode).second) << rule.opcode << " appears twice";
    EXPECT_TRUE(rule.max_operands < 0 || rule.min_operands <= rule.max_operands) << rule.opcode;
    EXPECT_EQ(&hlo::find_rule(rule.opcode), &rule);
    EXPECT_EQ(rule.lower == &hlo::lower_opaque || rule.lower == &hlo::lower_custom_call, !rule.reason.empty())
        << rule.opcode << ": exactly the opaque ones have a reason";
  }
}

std::string config_of(std::string_view text) {
  const Imported imported = import_good(text);
  for (const graph::Node& node : imported.graph.nodes()) {
    if (node.op == graph::Op::opaque) return node.as<graph::OpaqueAttributes>().config;
  }
  ADD_FAILURE() << "no opaque node";
  return {};
}

TEST(HloBoundary, TheConfigSaysWhatIsComputedAndNothingElse) {
  EXPECT_EQ(config_of(entry_text("(f32[4,8], f32[4,8]) sort(x, y), dimensions={1}, is_stable=true, "
                                 "to_apply=greater, metadata={op_name=\"sort\"}, sharding={replicated}")),
            "dimensions={1} is_stable=true to_apply={%0=f32[] parameter(0); %1=f32[] parameter(1); "
            "%2=pred[] compare(%0,%1) direction=GT; return %2}");
  EXPECT_EQ(config_of(entry_text("f32[4,8] custom-call(x), custom_call_target=\"f\", backend_config={\"a\": 1}")),
            "custom_call_target=\"f\" backend_config={\"a\": 1}");
}

TEST(HloBoundary, NamesDoNotMatterToTheConfigButContentsDo) {
  const std::string_view call = "f32[4] reduce(x, z), dimensions={1}, to_apply=log_add";
  std::string renamed = entry_text(call);
  for (std::size_t at = 0; (at = renamed.find("log_add", at)) != std::string::npos;) renamed.replace(at, 7, "other");
  std::string changed = entry_text(call);
  changed.replace(changed.find("exponential(b)"), 14, "exponential(a)");
  EXPECT_EQ(config_of(renamed), config_of(entry_text(call)));
  EXPECT_NE(config_of(changed), config_of(entry_text(call)));
}

TEST(HloBoundary, AnnotationsPassThrough) {
  for (const std::string_view target : {"Sharding", "annotate_device_placement", "LayoutConstraint", "MoveToHost"}) {
    const Imported imported =
        import_good(entry_text(fmt::format("f32[4,8] custom-call(x), custom_call_target=\"{}\"", target)));
    EXPECT_TRUE(imported.boundaries.empty()) << target;
    EXPECT_EQ(imported.graph.results()[0].node, imported.graph.parameters()[0]);
  }
  // One that changes the shape does more than say something.
  EXPECT_EQ(
      import_good(entry_text("f32[2,8] custom-call(x), custom_call_target=\"SPMDFullToShardShape\"")).boundaries.size(),
      1U);
}

TEST(HloBoundary, OtherSpellingsOfElementwiseOperators) {
  const Imported imported = import_good(entry_text("f32[4,8] custom-call(x), custom_call_target=\"mhlo.erf\""));
  EXPECT_TRUE(imported.boundaries.empty());
  EXPECT_EQ(imported.graph.node(imported.graph.results()[0].node).op, graph::Op::erf);
}

TEST(HloBoundary, CustomCallsNameFunctionsAsTheOperatorTableDoes) {
  struct Row {
    std::string_view call;
    graph::Op op;
  };
  const Row rows[] = {
      {"custom-call(x), custom_call_target=\"chlo.erf_inv\"", graph::Op::erf_inv},
      {"custom-call(x, x), custom_call_target=\"chlo.next_after\"", graph::Op::nextafter},
      {"custom-call(x, x), custom_call_target=\"mhlo.atan2\"", graph::Op::atan2},
      {"atan2(x, x)", graph::Op::atan2},
      {"custom-call(x), custom_call_target=\"chlo.next_after\"", graph::Op::opaque},  // of two operands
      {"custom-call(x), custom_call_target=\"erf_inv\"", graph::Op::opaque},          // anybody's
      {"custom-call(x), custom_call_target=\"chlo.digamma\"", graph::Op::opaque},
  };
  for (const Row& row : rows) {
    const Imported imported = import_good(entry_text(fmt::format("f32[4,8] {}", row.call)));
    EXPECT_EQ(imported.graph.node(imported.graph.results()[0].node).op, row.op) << row.call;
  }
}

TEST(HloBoundary, CompositesThatAreOperatorsAreNotWrittenOut) {
  const auto imported = [](std::string_view attributes, std::string_view type = "f32") {
    const std::string computation = fmt::format(
        "chlo.next_after.impl {{\n  a = {0}[4] parameter(0)\n  b = {0}[4] parameter(1)\n"
        "  ROOT r = {0}[4] add(a, b)\n}}\n",
        type);
    const std::string entry = fmt::format(
        "  x = {0}[4] parameter(0)\n  ROOT r = {0}[4] call(x, x), to_apply=chlo.next_after.impl{1}", type, attributes);
    const Imported made = import_good(module_text(entry, computation));
    return made.graph.node(made.graph.results()[0].node).op;
  };
  constexpr std::string_view named =
      ", is_composite=true, frontend_attributes={composite.attributes={},composite.name=\"chlo.next_after\","
      "composite.version=\"1\"}";
  EXPECT_EQ(imported(named), graph::Op::nextafter);
  EXPECT_EQ(imported(named, "s32"), graph::Op::add);  // not of integers
  EXPECT_EQ(imported(""), graph::Op::add);
  EXPECT_EQ(imported(", is_composite=true, frontend_attributes={composite.name=\"mine.next_after\"}"), graph::Op::add);
}

TEST(HloBoundary, TypesThatTheIrLacksAreUnsupported) {
  struct Row {
    std::string_view instruction, message;
  };
  const Row rows[] = {
      {"c64[4,8] complex(x, y)", "line 55, column 8: complex 'r': element type c64 is not supported"},
      {"s4[4,8] convert(x)", "convert 'r': element type s4 is not supported"},
      {"f8e4m3[4,8] convert(x)", "element type f8e4m3 is not supported"},
      {"f32[<=4,8] set-dimension-size(x, z), dimensions={0}", "dynamic extents are not supported"},
  };
  for (const Row& row : rows) {
    const Error error = import_bad(entry_text(row.instruction));
    EXPECT_EQ(error.kind, ErrorKind::unsupported) << row.instruction;
    EXPECT_THAT(error.message, HasSubstr(row.message));
  }
}

TEST(HloBoundary, ConstantsWithoutDataBecomeParameters) {
  const Imported imported = import_good(R"(HloModule m
ENTRY e {
  x = f32[100] parameter(0)
  table = f32[100] constant({...})
  ROOT y = f32[100] add(x, table)
})");
  ASSERT_EQ(imported.graph.parameters().size(), 2U);
  EXPECT_EQ(imported.parameters[1], "table");
  EXPECT_EQ(imported.graph.node(imported.graph.parameters()[1]).line, 4);
}

}  // namespace
}  // namespace stitch::import
