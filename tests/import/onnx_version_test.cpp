#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/import/onnx_model.h"

/// What an operator means at the operator-set versions that the backend suites no longer have.
namespace stitch::import {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::ElementsAreArray;

std::vector<double> iota(int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(i);
  return values;
}

/// One node on x (and a), with attributes set by `attributes`.
std::vector<double> run(std::int64_t opset, const std::string& op, const std::vector<Dim>& dims,
                        const std::vector<double>& x, const std::function<void(OnnxModel&, ::onnx::NodeProto&)>& more,
                        const Names& inputs = {"x"}) {
  OnnxModel model(opset);
  model.input("x", f32, dims).output("y");
  ::onnx::NodeProto& node = model.node(op, inputs, {"y"});
  more(model, node);
  return evaluate(import_good(model), {x});
}

void nothing(OnnxModel&, ::onnx::NodeProto&) {}

TEST(OnnxVersions, SoftmaxUpTo12CountsTheTrailingAxesAsOne) {
  // [2,2,2] with the default axis 1: each half of the eight elements is one row.
  const std::vector<double> old = run(11, "Softmax", {2, 2, 2}, {0, 0, 0, 0, 1, 1, 1, 1}, nothing);
  for (const double value : old) EXPECT_NEAR(value, 0.25, 1e-6);
  // From 13 on one axis, the last by default.
  const std::vector<double> now = run(13, "Softmax", {2, 2, 2}, {0, 0, 0, 0, 1, 1, 1, 1}, nothing);
  for (const double value : now) EXPECT_NEAR(value, 0.5, 1e-6);
}

TEST(OnnxVersions, HardmaxUpTo12LikewiseTakesOneElementOfTheRow) {
  EXPECT_THAT(run(11, "Hardmax", {1, 2, 2}, {1, 4, 2, 3}, nothing), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(run(13, "Hardmax", {1, 2, 2}, {1, 4, 2, 3}, nothing), ElementsAre(0, 1, 0, 1));
}

TEST(OnnxVersions, BroadcastingUpTo6IsAskedForAndAligned) {
  OnnxModel model(6);
  model.input("x", f32, {2, 3}).input("a", f32, {2}).output("y");
  ::onnx::NodeProto& node = model.node("Add", {"x", "a"}, {"y"});
  set_int(node, "broadcast", 1);
  set_int(node, "axis", 0);
  EXPECT_THAT(evaluate(import_good(model), {iota(6), {10, 20}}), ElementsAre(10, 11, 12, 23, 24, 25));
}

TEST(OnnxVersions, AxesAndShapesFromAttributesOrInputs) {
  const auto axes_attribute = [](OnnxModel&, ::onnx::NodeProto& node) { set_ints(node, "axes", {1}); };
  const auto axes_input = [](OnnxModel& model, ::onnx::NodeProto& node) {
    model.integers("axes", {1}, {1});
    node.add_input("axes");
  };
  EXPECT_THAT(run(11, "ReduceSum", {2, 2}, {1, 2, 3, 4}, axes_attribute), ElementsAre(3, 7));
  EXPECT_THAT(run(13, "ReduceSum", {2, 2}, {1, 2, 3, 4}, axes_input), ElementsAre(3, 7));
  EXPECT_THAT(run(13, "ReduceMean", {2, 2}, {1, 2, 3, 4}, axes_attribute), ElementsAre(1.5, 3.5));
  EXPECT_THAT(run(18, "ReduceMean", {2, 2}, {1, 2, 3, 4}, axes_input), ElementsAre(1.5, 3.5));
  EXPECT_THAT(run(1, "Reshape", {2, 2}, {1, 2, 3, 4},
                  [](OnnxModel&, ::onnx::NodeProto& node) { set_ints(node, "shape", {4}); }),
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(run(9, "Slice", {4}, {1, 2, 3, 4},
                  [](OnnxModel&, ::onnx::NodeProto& node) {
                    set_ints(node, "starts", {1});
                    set_ints(node, "ends", {-1});
                  }),
              ElementsAre(2, 3));
  EXPECT_THAT(run(2, "Pad", {2}, {1, 2},
                  [](OnnxModel&, ::onnx::NodeProto& node) {
                    set_ints(node, "pads", {1, 0});
                    set_float(node, "value", 9.0F);
                  }),
              ElementsAre(9, 1, 2));
  EXPECT_THAT(run(6, "Clip", {3}, {-5, 0, 5},
                  [](OnnxModel&, ::onnx::NodeProto& node) {
                    set_float(node, "min", -1.0F);
                    set_float(node, "max", 2.0F);
                  }),
              ElementsAre(-1, 0, 2));
}

TEST(OnnxVersions, ReductionsWithoutAxesReduceAllOrNothing) {
  EXPECT_THAT(run(18, "ReduceMax", {2, 2}, {1, 2, 3, 4}, nothing), ElementsAre(4));
  EXPECT_THAT(run(18, "ReduceSumSquare", {2, 2}, {1, 2, 3, 4},
                  [](OnnxModel&, ::onnx::NodeProto& node) { set_int(node, "noop_with_empty_axes", 1); }),
              ElementsAre(1, 4, 9, 16));
}

TEST(OnnxVersions, UpsampleBecameResize) {
  const auto scales = [](OnnxModel&, ::onnx::NodeProto& node) {
    ::onnx::AttributeProto& attribute = new_attribute(node, "scales", ::onnx::AttributeProto::FLOATS);
    for (const float scale : {1.0F, 1.0F, 1.0F, 2.0F}) attribute.add_floats(scale);
  };
  EXPECT_THAT(run(7, "Upsample", {1, 1, 1, 2}, {5, 7}, scales), ElementsAre(5, 5, 7, 7));
  const auto linear = [&](OnnxModel& model, ::onnx::NodeProto& node) {
    scales(model, node);
    set_text(node, "mode", "linear");
  };
  EXPECT_THAT(run(7, "Upsample", {1, 1, 1, 2}, {5, 7}, linear), ElementsAre(5, 6, 7, 7));
}

TEST(OnnxVersions, GroupNormalizationScalesGroupsThenChannels) {
  // Two groups of two channels with one element each: every pair becomes -1, 1.
  const auto build = [](std::int64_t opset, const std::vector<std::int64_t>& dims) {
    OnnxModel model(opset);
    model.input("x", f32, {1, 4, 1}).input("scale", f32, {dims[0]}).input("bias", f32, {dims[0]}).output("y");
    ::onnx::NodeProto& node = model.node("GroupNormalization", {"x", "scale", "bias"}, {"y"});
    set_int(node, "num_groups", 2);
    set_float(node, "epsilon", 0.0F);
    return import_good(model);
  };
  EXPECT_THAT(evaluate(build(18, {2}), {{1, 3, 2, 6}, {1, 10}, {0, 5}}), ElementsAre(-1, 1, -5, 15));
  EXPECT_THAT(evaluate(build(21, {4}), {{1, 3, 2, 6}, {1, 2, 3, 4}, {0, 0, 5, 5}}), ElementsAre(-1, 2, 2, 9));
}

TEST(OnnxVersions, SplitIntoANumberOfParts) {
  OnnxModel model(18);
  model.input("x", f32, {7}).output("a").output("b").output("c");
  set_int(model.node("Split", {"x"}, {"a", "b", "c"}), "num_outputs", 3);
  const Imported imported = import_good(model);
  EXPECT_THAT(evaluate(imported, {iota(7)}, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(evaluate(imported, {iota(7)}, 2), ElementsAre(6));
}

TEST(OnnxVersions, SixteenBitNormsComputeInF32) {
  OnnxModel model(17);
  model.input("x", f16, {1, 4}).input("scale", f16, {4}).output("y");
  set_float(model.node("LayerNormalization", {"x", "scale"}, {"y"}), "epsilon", 0.0F);
  const Imported imported = import_good(model);
  // The squares of these differences overflow f16.
  EXPECT_THAT(evaluate(imported, {{-1000, -1000, 1000, 1000}, {1, 1, 1, 1}}), ElementsAre(-1, -1, 1, 1));
}

TEST(OnnxVersions, GroupedQueryAttentionRepeatsNoKeys) {
  OnnxModel model(23);
  model.input("q", f32, {1, 4, 2, 3}).input("k", f32, {1, 2, 5, 3}).input("v", f32, {1, 2, 5, 3}).output("y");
  set_int(model.node("Attention", {"q", "k", "v"}, {"y"}), "is_causal", 1);
  const Imported imported = import_good(model);
  for (const graph::Node& node : imported.graph.nodes()) {
    if (node.op != graph::Op::dot) continue;
    EXPECT_EQ(imported.graph.type(node.operands[1]).dims, (graph::Dims{1, 2, 5, 3}));
  }
  // Queries of zeros see the first key, then two keys evenly.
  std::vector<double> values;
  for (int head = 0; head < 2; ++head) {
    for (int key = 0; key < 5; ++key) values.insert(values.end(), 3, 100.0 * head + key);
  }
  const std::vector<double> y = evaluate(imported, {std::vector<double>(24, 0), std::vector<double>(30, 1), values});
  std::vector<double> expected;
  for (const double head : {0.0, 0.0, 100.0, 100.0}) {
    expected.insert(expected.end(), 3, head);
    expected.insert(expected.end(), 3, head + 0.5);
  }
  EXPECT_THAT(y, testing::Pointwise(DoubleNear(1e-5), expected));
}

}  // namespace
}  // namespace stitch::import
