// What operators of core ATen become, as a table; what is refused, and with which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "graph/print.h"
#include "import/aten/rules.h"
#include "import/import.h"

namespace stitch::import {
namespace {

using testing::HasSubstr;

/// Inputs that every row may use.
constexpr std::string_view inputs = R"([{"name": "x", "type": "f32[4,8]"}, {"name": "y", "type": "f32[8]"},
  {"name": "i", "type": "s64[3]"}, {"name": "h", "type": "bf16[4,8]"}, {"name": "p", "type": "pred[4,8]"},
  {"name": "n", "type": "s32[4,8]"}])";
constexpr int input_count = 6;

std::string document(std::string_view nodes, std::string_view outputs) {
  return fmt::format(R"({{"format": "stitch-aten", "version": 1, "inputs": {}, "nodes": [{}], "outputs": [{}]}})",
                     inputs, nodes, outputs);
}

std::string node(std::string_view op, std::string_view arguments, std::string_view results) {
  return fmt::format(R"({{"name": "v", "op": "{}", "args": {{{}}}, "results": [{}], "where": "model.py:7"}})", op,
                     arguments, results);
}

/// Nodes behind the parameters, one a line, and the results.
std::string text_of(const graph::Graph& graph) {
  std::string text;
  for (graph::NodeId id = input_count; id < graph.size(); ++id) text += graph::to_text(graph, id) + "\n";
  for (const graph::Value& value : graph.results()) text += fmt::format("return %{}.{}\n", value.node, value.result);
  return text;
}

struct Row {
  std::string_view op, arguments, results, expected;
};

constexpr Row rows[] = {
    {"aten.add.Tensor", R"("self": {"value": "x"}, "other": {"value": "y"})", R"("f32[4,8]")",
     "%6 = broadcast f32[4,8] %1 {dims=[4,8], mapping=[1]}\n%7 = add f32[4,8] %0, %6\nreturn %7.0\n"},
    {"aten.add.Tensor", R"("self": {"value": "h"}, "other": {"value": "x"})", R"("f32[4,8]")",
     "%6 = convert f32[4,8] %3\n%7 = add f32[4,8] %6, %0\nreturn %7.0\n"},
    {"aten.add.Tensor", R"("self": {"value": "p"}, "other": {"value": "p"})", R"("pred[4,8]")",
     "%6 = or pred[4,8] %4, %4\nreturn %6.0\n"},
    {"aten.sub.Tensor", R"("self": {"value": "y"}, "other": {"value": "y"}, "alpha": 2)", R"("f32[8]")",
     "%6 = constant f32[] {2}\n%7 = broadcast f32[8] %6 {dims=[8], mapping=[]}\n%8 = multiply f32[8] %1, %7\n"
     "%9 = subtract f32[8] %1, %8\nreturn %9.0\n"},
    // A number is not rounded to bf16.
    {"aten.mul.Tensor", R"("self": {"value": "h"}, "other": 0.7)", R"("bf16[4,8]")",
     "%6 = convert f32[4,8] %3\n%7 = constant f32[] {0.7}\n%8 = broadcast f32[4,8] %7 {dims=[4,8], mapping=[]}\n"
     "%9 = multiply f32[4,8] %6, %8\n%10 = convert bf16[4,8] %9\nreturn %10.0\n"},
    {"aten.mul.Tensor", R"("self": {"value": "h"}, "other": {"value": "h"})", R"("bf16[4,8]")",
     "%6 = multiply bf16[4,8] %3, %3\nreturn %6.0\n"},
    {"aten.pow.Tensor_Scalar", R"("self": {"value": "y"}, "exponent": 2)", R"("f32[8]")",
     "%6 = multiply f32[8] %1, %1\nreturn %6.0\n"},
    {"aten.lt.Tensor", R"("self": {"value": "n"}, "other": {"value": "x"})", R"("pred[4,8]")",
     "%6 = convert f32[4,8] %5\n%7 = compare pred[4,8] %6, %0 {direction=lt}\nreturn %7.0\n"},
    {"aten.view.default", R"("self": {"value": "x"}, "size": [2, 16])", R"("f32[2,16]")",
     "%6 = reshape f32[2,16] %0\nreturn %6.0\n"},
    {"aten.transpose.int", R"("self": {"value": "x"}, "dim0": 0, "dim1": -1)", R"("f32[8,4]")",
     "%6 = transpose f32[8,4] %0 {permutation=[1,0]}\nreturn %6.0\n"},
    {"aten.slice.Tensor", R"("self": {"value": "x"}, "dim": 1, "start": -3, "end": 9223372036854775807)",
     R"("f32[4,3]")", "%6 = slice f32[4,3] %0 {starts=[0,5], limits=[4,8], strides=[1,1]}\nreturn %6.0\n"},
    {"aten.sum.dim_IntList", R"("self": {"value": "x"}, "dim": [-1], "keepdim": true)", R"("f32[4,1]")",
     "%6 = reduce f32[4] %0 {kind=sum, dimensions=[1]}\n%7 = reshape f32[4,1] %6\nreturn %7.0\n"},
    {"aten.sum.default", R"("self": {"value": "p"})", R"("s64[]")",
     "%6 = convert s64[4,8] %4\n%7 = reduce s64[] %6 {kind=sum, dimensions=[0,1]}\nreturn %7.0\n"},
    {"aten.sort.default", R"("self": {"value": "x"}, "dim": 0, "descending": true)", R"("f32[4,8]", "s64[4,8]")",
     "%6 = iota s64[4,8] {dimension=0}\n"
     "%7 = sort (f32[4,8], s64[4,8]) %0, %6 {dimension=0, descending=true, count=4}\nreturn %7.0\n"},
    {"aten.sort.stable", R"("self": {"value": "n"}, "stable": true)", R"("s32[4,8]", "s64[4,8]")",
     "%6 = iota s64[4,8] {dimension=1}\n"
     "%7 = sort (s32[4,8], s64[4,8]) %5, %6 {dimension=1, descending=false, count=8}\nreturn %7.0\n"},
    {"aten.argsort.default", R"("self": {"value": "x"})", R"("s64[4,8]")",
     "%6 = iota s64[4,8] {dimension=1}\n"
     "%7 = sort (f32[4,8], s64[4,8]) %0, %6 {dimension=1, descending=false, count=8}\nreturn %7.1\n"},
    {"aten.topk.default", R"("self": {"value": "h"}, "k": 3)", R"("bf16[4,3]", "s64[4,3]")",
     "%6 = iota s64[4,8] {dimension=1}\n"
     "%7 = sort (bf16[4,3], s64[4,3]) %3, %6 {dimension=1, descending=true, count=3}\nreturn %7.0\n"},
    {"aten.topk.default", R"("self": {"value": "x"}, "k": 2, "dim": 0, "largest": false)", R"("f32[2,8]", "s64[2,8]")",
     "%6 = iota s64[4,8] {dimension=0}\n"
     "%7 = sort (f32[2,8], s64[2,8]) %0, %6 {dimension=0, descending=false, count=2}\nreturn %7.0\n"},
    {"aten.max.dim", R"("self": {"value": "x"}, "dim": 1)", R"("f32[4]", "s64[4]")",
     "%6 = arg-reduce (f32[4], s64[4]) %0 {kind=max, dimension=1, index_dtype=s64, last=false}\n"
     "return %6.0\n"},
    {"aten.embedding.default", R"("weight": {"value": "x"}, "indices": {"value": "i"})", R"("f32[3,8]")",
     "%6 = gather f32[3,8] %0, %2 {offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], "
     "operand_batching_dims=[], start_indices_batching_dims=[], index_vector_dim=1, slice_sizes=[1,8]}\n"
     "return %6.0\n"},
    {"aten.full.default", R"("size": [2], "fill_value": {"float": "-inf"})", R"("f32[2]")",
     "%6 = constant f32[] {-inf}\n%7 = broadcast f32[2] %6 {dims=[2], mapping=[]}\nreturn %7.0\n"},
    {"aten.cat.default", R"("tensors": [{"value": "x"}, {"value": "x"}], "dim": -1)", R"("f32[4,16]")",
     "%6 = concatenate f32[4,16] %0, %0 {dimension=1}\nreturn %6.0\n"},
    {"aten.bitwise_right_shift.Tensor_Scalar", R"("self": {"value": "n"}, "other": 2)", R"("s32[4,8]")",
     "%6 = constant s32[] {2}\n%7 = broadcast s32[4,8] %6 {dims=[4,8], mapping=[]}\n"
     "%8 = shift-right-arithmetic s32[4,8] %5, %7\nreturn %8.0\n"},
    {"aten.signbit.default", R"("self": {"value": "h"})", R"("pred[4,8]")",
     "%6 = bitcast-convert s16[4,8] %3\n%7 = constant s16[] {0}\n"
     "%8 = broadcast s16[4,8] %7 {dims=[4,8], mapping=[]}\n"
     "%9 = compare pred[4,8] %6, %8 {direction=lt}\nreturn %9.0\n"},
    {"aten.slice_scatter.default",
     R"("self": {"value": "y"}, "src": {"value": "i"}, "dim": 0, "start": 1, "end": 7, "step": 2)", R"("f32[8]")",
     "%6 = convert f32[3] %2\n%7 = constant pred[] {true}\n%8 = broadcast pred[3] %7 {dims=[3], mapping=[]}\n"
     "%9 = constant pred[] {false}\n%10 = pad pred[8] %8, %9 {low=[1], high=[2], interior=[1]}\n"
     "%11 = constant f32[] {0}\n%12 = pad f32[8] %6, %11 {low=[1], high=[2], interior=[1]}\n"
     "%13 = select f32[8] %10, %12, %1\nreturn %13.0\n"},
    {"aten.repeat.default", R"("self": {"value": "y"}, "repeats": [2, 3])", R"("f32[2,24]")",
     "%6 = broadcast f32[2,3,8] %1 {dims=[2,3,8], mapping=[2]}\n%7 = reshape f32[2,24] %6\n"
     "return %7.0\n"},
};

TEST(AtenRules, EachOperatorBecomesWhatTheTableSays) {
  for (const Row& row : rows) {
    const auto imported = import_aten(document(node(row.op, row.arguments, row.results), R"({"value": "v"})"));
    ASSERT_TRUE(imported.ok()) << row.op << ": " << imported.error().message;
    EXPECT_EQ(text_of(imported->graph), row.expected) << row.op;
    EXPECT_EQ(imported->format, "aten");
    EXPECT_EQ(imported->parameters.size(), std::size_t{input_count});
  }
}

TEST(AtenRules, LaterResultsHaveNumbers) {
  const std::string nodes = node("aten.max.dim", R"("self": {"value": "x"}, "dim": 1)", R"("f32[4]", "s64[4]")");
  const auto imported = import_aten(document(nodes, R"({"value": "v", "result": 1}, {"value": "x"})"));
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_EQ(imported->graph.results()[0], (graph::Value{6, 1}));
  EXPECT_EQ(imported->graph.results()[1], (graph::Value{0, 0}));
}

TEST(AtenRules, KnownOperatorsAreThoseOfTheTable) {
  EXPECT_TRUE(aten_operator_known("aten.add.Tensor"));
  EXPECT_FALSE(aten_operator_known("aten._scaled_grouped_mm.default"));
  EXPECT_FALSE(aten_operator_known("aten.add"));
  EXPECT_FALSE(aten_operator_known("zzz"));
}

struct Bad {
  std::string text;
  ErrorKind kind;
  std::string_view message;
};

TEST(AtenRules, WhatIsWrongIsNamedWithItsPlace) {
  const auto one = [](std::string_view op, std::string_view arguments, std::string_view results) {
    return document(node(op, arguments, results), R"({"value": "v"})");
  };
  const Bad bad[] = {
      {one("aten._scaled_grouped_mm.default", "", R"("f32[4,4]")"), ErrorKind::unsupported,
       "node 0 'v' (aten._scaled_grouped_mm.default), model.py:7: no rule for this operator"},
      {one("aten.neg.default", R"("self": {"value": "z"})", R"("f32[4,8]")"), ErrorKind::invalid_argument,
       "argument 'self': expected a value of an earlier node, found {\"value\":\"z\"}"},
      {one("aten.neg.default", "", R"("f32[4,8]")"), ErrorKind::invalid_argument,
       "argument 'self': expected a tensor or a number, found nothing"},
      {one("aten.sum.dim_IntList", R"("self": {"value": "x"}, "dim": [2])", R"("f32[4]")"), ErrorKind::invalid_argument,
       "argument 'dim': expected dimensions of a tensor of rank 2, found [2]"},
      {one("aten.exp.default", R"("self": {"value": "x"})", R"("f32[4,9]")"), ErrorKind::invalid_argument,
       "result 0 is declared f32[4,9], its arguments give f32[4,8]"},
      {one("aten.exp.default", R"("self": {"value": "x"})", R"("f32[4,8]", "f32[]")"), ErrorKind::invalid_argument,
       "2 results are declared, there are 1"},
      {one("aten.exp.default", R"("self": {"value": "x"})", R"("f99[4]")"), ErrorKind::parse, "nodes[0].results"},
      {one("aten.exp.default", R"("self": {"value": "x"})", ""), ErrorKind::invalid_argument, "a result at least"},
      {one("aten.index.Tensor", R"("self": {"value": "x"}, "indices": [{"value": "p"}])", R"("f32[9]")"),
       ErrorKind::unsupported, "a mask as an index"},
      {one("aten.slice_scatter.default",
           R"("self": {"value": "x"}, "src": {"value": "x"}, "dim": 0, "start": 0, "end": 4, "step": 0)",
           R"("f32[4,8]")"),
       ErrorKind::invalid_argument, "argument 'step': expected a positive step, found 0"},
      {one("aten.scatter_reduce.two",
           R"("self": {"value": "y"}, "dim": 0, "index": {"value": "i"}, "src": {"value": "y"}, "reduce": "mean")",
           R"("f32[8]")"),
       ErrorKind::unsupported, "means of what is written to an element"},
      {one("aten.scatter_reduce.two",
           R"("self": {"value": "y"}, "dim": 0, "index": {"value": "i"}, "src": {"value": "y"}, "reduce": "most")",
           R"("f32[8]")"),
       ErrorKind::invalid_argument, "argument 'reduce': expected sum, prod, amax, amin or mean"},
      {one("stitch.random_bits.default", R"("seed": {"value": "i"}, "size": [4, 8])", R"("s32[4,8]")"),
       ErrorKind::invalid_argument, "argument 'seed': expected two elements of s64"},
      {document("", R"({"value": "q"})"), ErrorKind::invalid_argument, "argument 'outputs'"},
      {document("", "null"), ErrorKind::invalid_argument, "outputs[0]: expected a value"},
      {document("7", ""), ErrorKind::invalid_argument, "nodes[0]: expected string 'name'"},
      {R"({"format": "stitch-aten", "version": 2})", ErrorKind::version_mismatch, "of version 1, found"},
      {R"({"format": 3})", ErrorKind::invalid_argument, "document: expected string 'format'"},
      {"[", ErrorKind::parse, "byte"},
  };
  for (const Bad& row : bad) {
    const auto imported = import_aten(row.text);
    ASSERT_FALSE(imported.ok()) << row.text;
    EXPECT_EQ(imported.error().kind, row.kind) << row.text << "\n" << imported.error().message;
    EXPECT_THAT(imported.error().message, HasSubstr(row.message)) << row.text;
  }
}

TEST(AtenRules, EveryRuleRefusesMissingArgumentsWithoutHarm) {
  for (const aten::Rule& rule : aten::rule_table()) {
    for (const std::string_view type : {"f32[4,8]", "pred[]", "s64[0]"}) {
      const std::string text = document(node(rule.op, "", fmt::format("\"{}\"", type)), R"({"value": "v"})");
      const auto imported = import_aten(text);
      const bool makes_tensors = rule.op.find("ones") != std::string_view::npos ||
                                 rule.op.find("zeros") != std::string_view::npos ||
                                 rule.op == "aten.arange.start_step" || rule.op == "prims.iota.default";
      if (makes_tensors) continue;
      EXPECT_FALSE(imported.ok()) << rule.op << " " << type;
    }
  }
}

}  // namespace
}  // namespace stitch::import
