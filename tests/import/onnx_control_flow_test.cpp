#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/import/onnx_model.h"

namespace stitch::import {
namespace {

using graph::Op;
using testing::ElementsAre;
using testing::HasSubstr;

::onnx::GraphProto body_graph(const Names& outputs) {
  ::onnx::GraphProto graph;
  for (const std::string& output : outputs) graph.add_output()->set_name(output);
  return graph;
}

/// y = c ? x + w : x - 1, both branches with names from outside.
OnnxModel branching(bool constant_condition) {
  OnnxModel model(17);
  if (constant_condition) {
    ::onnx::TensorProto& c = *model.graph().add_initializer();
    c.set_name("c");
    c.set_data_type(pred);
    c.add_int32_data(0);
  } else {
    model.input("c", pred, {});
  }
  model.input("x", f32, {2}).input("w", f32, {2}).output("y");
  ::onnx::NodeProto& node = model.node("If", {"c"}, {"y"});
  ::onnx::GraphProto yes = body_graph({"r"}), no = body_graph({"s"});
  add_node(yes, "Add", {"x", "w"}, {"r"});
  ::onnx::TensorProto& one = *no.add_initializer();
  one.set_name("one");
  one.set_data_type(f32);
  one.add_float_data(1.0F);
  add_node(no, "Sub", {"x", "one"}, {"s"});
  set_graph(node, "then_branch") = yes;
  set_graph(node, "else_branch") = no;
  return model;
}

TEST(OnnxControlFlow, AConditionKnownFromTheFilePicksItsBranch) {
  const Imported imported = import_good(branching(true));
  EXPECT_EQ(count_ops(imported.graph, Op::conditional), 0);
  EXPECT_THAT(evaluate(imported, {{5, 6}, {10, 20}}), ElementsAre(4, 5));
}

TEST(OnnxControlFlow, AnyOtherConditionMakesRegions) {
  const Imported imported = import_good(branching(false));
  EXPECT_EQ(count_ops(imported.graph, Op::conditional), 1);
  EXPECT_THAT(evaluate(imported, {{1}, {5, 6}, {10, 20}}), ElementsAre(15, 26));
  EXPECT_THAT(evaluate(imported, {{0}, {5, 6}, {10, 20}}), ElementsAre(4, 5));
}

TEST(OnnxControlFlow, BranchesOfDifferentShapesNeedAKnownCondition) {
  OnnxModel model(17);
  model.input("c", pred, {}).input("x", f32, {2}).output("y");
  ::onnx::NodeProto& node = model.node("If", {"c"}, {"y"});
  ::onnx::GraphProto yes = body_graph({"r"}), no = body_graph({"s"});
  add_node(yes, "Identity", {"x"}, {"r"});
  add_node(no, "Concat", {"x", "x"}, {"s"});
  set_int(*no.mutable_node(0), "axis", 0);
  set_graph(node, "then_branch") = yes;
  set_graph(node, "else_branch") = no;
  EXPECT_THAT(import_bad(model).message, HasSubstr("the branches' results differ in type"));
  ImportOptions options;
  options.known_inputs = {{"c", graph::splat({graph::DType::pred, {}}, 0)}};
  EXPECT_THAT(evaluate(import_good(model, options), {{0}, {5, 6}}), ElementsAre(5, 6, 5, 6));
}

/// Loop(trips) { s = s * w; stack s }, w from outside; `rows` also stacks.
OnnxModel powers(bool known_trips) {
  OnnxModel model(17);
  if (known_trips) {
    model.integers("n", {}, {4});
  } else {
    model.input("n", s64, {});
  }
  model.input("x", f32, {2}).input("w", f32, {2}).output("last");
  ::onnx::NodeProto& node = model.node("Loop", {"n", "", "x"}, {"last"});
  if (known_trips) {
    node.add_output("all");
    model.output("all");
  }
  ::onnx::GraphProto body = body_graph({"go", "next"});
  if (known_trips) body.add_output()->set_name("row");
  for (const char* name : {"i", "cond", "s"}) body.add_input()->set_name(name);
  add_node(body, "Identity", {"cond"}, {"go"});
  add_node(body, "Mul", {"s", "w"}, {"next"});
  if (known_trips) add_node(body, "Identity", {"next"}, {"row"});
  set_graph(node, "body") = body;
  return model;
}

TEST(OnnxControlFlow, ACountedLoopCarriesItsTripCount) {
  const Imported imported = import_good(powers(true));
  EXPECT_THAT(evaluate(imported, {{1, 1}, {2, 3}}, 0), ElementsAre(16, 81));
  EXPECT_THAT(evaluate(imported, {{1, 1}, {2, 3}}, 1), ElementsAre(2, 3, 4, 9, 8, 27, 16, 81));
  std::int64_t trips = 0;
  for (const graph::Node& node : imported.graph.nodes()) {
    if (node.op == Op::loop) trips = node.as<graph::LoopAttributes>().trip_count;
  }
  EXPECT_EQ(trips, 4);
}

TEST(OnnxControlFlow, ALimitKnownOnlyAtRunTimeIsCarried) {
  const Imported imported = import_good(powers(false));
  EXPECT_THAT(evaluate(imported, {{3}, {1, 1}, {2, 3}}), ElementsAre(8, 27));
  EXPECT_THAT(evaluate(imported, {{0}, {1, 1}, {2, 3}}), ElementsAre(1, 1));
}

TEST(OnnxControlFlow, AWhileLoopStopsWhenItsConditionFails) {
  OnnxModel model(17);
  model.input("x", f32, {}).input("bound", f32, {}).output("y");
  ::onnx::NodeProto& node = model.node("Loop", {"", "", "x"}, {"y"});
  ::onnx::GraphProto body = body_graph({"go", "next"});
  for (const char* name : {"i", "cond", "s"}) body.add_input()->set_name(name);
  add_node(body, "Add", {"s", "s"}, {"next"});
  add_node(body, "Less", {"next", "bound"}, {"go"});
  set_graph(node, "body") = body;
  const Imported imported = import_good(model);
  EXPECT_EQ(count_ops(imported.graph, Op::loop), 1);
  EXPECT_THAT(evaluate(imported, {{1}, {100}}), ElementsAre(128));
}

TEST(OnnxControlFlow, IterationsThatNeedTheirNumberAreWrittenOut) {
  // next = s + sum(x[0:i+1]): the slice's extent differs from iteration to iteration.
  OnnxModel model(17);
  model.integers("n", {}, {3}).integers("zero", {1}, {0}).integers("one", {1}, {1});
  model.input("x", f32, {3}).input("s0", f32, {1}).output("y");
  ::onnx::NodeProto& node = model.node("Loop", {"n", "", "s0"}, {"y"});
  ::onnx::GraphProto body = body_graph({"cond_out", "next"});
  for (const char* name : {"i", "cond", "s"}) body.add_input()->set_name(name);
  add_node(body, "Identity", {"cond"}, {"cond_out"});
  add_node(body, "Add", {"i", "one"}, {"end"});
  add_node(body, "Slice", {"x", "zero", "end"}, {"head"});
  add_node(body, "ReduceSum", {"head"}, {"sum"});
  add_node(body, "Add", {"s", "sum"}, {"next"});
  set_graph(node, "body") = body;
  const Imported imported = import_good(model);
  EXPECT_EQ(count_ops(imported.graph, Op::loop), 0);
  EXPECT_THAT(evaluate(imported, {{1, 10, 100}, {0}}), ElementsAre(1 + 11 + 111));
}

TEST(OnnxControlFlow, ScanRunsOverAnyAxisInEitherDirection) {
  OnnxModel model(17);
  model.input("s0", f32, {2}).input("x", f32, {2, 3}).output("last").output("sums");
  ::onnx::NodeProto& node = model.node("Scan", {"s0", "x"}, {"last", "sums"});
  set_int(node, "num_scan_inputs", 1);
  set_ints(node, "scan_input_axes", {1});
  set_ints(node, "scan_input_directions", {1});
  set_ints(node, "scan_output_axes", {-1});
  set_ints(node, "scan_output_directions", {1});
  ::onnx::GraphProto body = body_graph({"next", "row"});
  for (const char* name : {"s", "e"}) body.add_input()->set_name(name);
  add_node(body, "Add", {"s", "e"}, {"next"});
  add_node(body, "Identity", {"next"}, {"row"});
  set_graph(node, "body") = body;
  const Imported imported = import_good(model);
  EXPECT_THAT(evaluate(imported, {{0, 100}, {1, 2, 3, 4, 5, 6}}, 0), ElementsAre(6, 115));
  EXPECT_THAT(evaluate(imported, {{0, 100}, {1, 2, 3, 4, 5, 6}}, 1), ElementsAre(6, 5, 3, 115, 111, 106));
}

TEST(OnnxControlFlow, ALoopInsideABranchInsideALoopSeesEveryName) {
  OnnxModel model(17);
  model.integers("two", {}, {2}).input("c", pred, {}).input("x", f32, {1}).input("w", f32, {1}).output("y");
  ::onnx::GraphProto inner = body_graph({"go", "next"});
  for (const char* name : {"j", "inner_cond", "t"}) inner.add_input()->set_name(name);
  add_node(inner, "Identity", {"inner_cond"}, {"go"});
  add_node(inner, "Add", {"t", "w"}, {"next"});
  ::onnx::GraphProto yes = body_graph({"looped"}), no = body_graph({"kept"});
  set_graph(add_node(yes, "Loop", {"two", "", "s"}, {"looped"}), "body") = inner;
  add_node(no, "Identity", {"s"}, {"kept"});
  ::onnx::GraphProto outer = body_graph({"outer_go", "r"});
  for (const char* name : {"i", "cond", "s"}) outer.add_input()->set_name(name);
  add_node(outer, "Identity", {"cond"}, {"outer_go"});
  ::onnx::NodeProto& branch = add_node(outer, "If", {"c"}, {"r"});
  set_graph(branch, "then_branch") = yes;
  set_graph(branch, "else_branch") = no;
  set_graph(model.node("Loop", {"two", "", "x"}, {"y"}), "body") = outer;
  const Imported imported = import_good(model);
  EXPECT_THAT(evaluate(imported, {{1}, {5}, {10}}), ElementsAre(45));
  EXPECT_THAT(evaluate(imported, {{0}, {5}, {10}}), ElementsAre(5));
}

TEST(OnnxControlFlow, BoundariesInLoopsCountAsOftenAsTheyRun) {
  OnnxModel model(17);
  model.integers("n", {}, {7}).input("x", f32, {3}).output("y");
  ::onnx::GraphProto body = body_graph({"go", "next"});
  for (const char* name : {"i", "cond", "s"}) body.add_input()->set_name(name);
  add_node(body, "Identity", {"cond"}, {"go"});
  add_node(body, "RandomUniformLike", {"s"}, {"noise"});
  add_node(body, "Add", {"s", "noise"}, {"next"});
  set_graph(model.node("Loop", {"n", "", "x"}, {"y"}), "body") = body;
  const Imported imported = import_good(model);
  ASSERT_EQ(imported.boundaries.size(), 1U);
  EXPECT_EQ(imported.boundaries[0].occurrences, 7);
  EXPECT_EQ(imported.boundaries[0].place, "node 0 'y_node' body > node 1 'noise_node'");
}

}  // namespace
}  // namespace stitch::import
