#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/import/onnx_model.h"

/// What operators compute at the edges that the backend suites do not try.
namespace stitch::import {
namespace {

using testing::NanSensitiveDoubleNear;
using testing::Pointwise;
using List = std::vector<double>;

constexpr int u8 = ::onnx::TensorProto::UINT8, s8 = ::onnx::TensorProto::INT8, s32 = ::onnx::TensorProto::INT32;
constexpr int f8e4m3 = 17, f8e5m2 = 19;  // newer than Debian's header
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

struct EdgeRow {
  std::string name;
  std::function<void(OnnxModel&)> build;
  std::vector<List> arguments;
  List expected;  ///< of the model's last output
};

List one_hot_list(std::size_t depth, std::size_t hot) {
  List list(depth, 0.0);
  list[hot] = 1.0;
  return list;
}

std::function<void(OnnxModel&)> resized_to_nothing(const std::string& mode) {
  return [=](OnnxModel& model) {
    model.input("x", f32, {1, 1, 3}).output("y");
    ::onnx::TensorProto& scales = *model.graph().add_initializer();
    scales.set_name("scales");
    scales.set_data_type(f32);
    scales.add_dims(3);
    for (const float scale : {1.0F, 1.0F, 0.1F}) scales.add_float_data(scale);
    set_text(model.node("Resize", {"x", "", "scales"}, {"y"}), "mode", mode);
  };
}

std::function<void(OnnxModel&)> resized_to_one(const std::string& coordinates) {
  return [=](OnnxModel& model) {
    model.input("x", f32, {1, 1, 3}).integers("sizes", {3}, {1, 1, 1}).output("y");
    ::onnx::NodeProto& node = model.node("Resize", {"x", "", "", "sizes"}, {"y"});
    set_text(node, "mode", "cubic");
    set_text(node, "coordinate_transformation_mode", coordinates);
  };
}

std::function<void(OnnxModel&)> one_hot_of(int type) {
  return [=](OnnxModel& model) {
    model.input("x", type, {1}).integers("depth", {}, {300}).integers("values", {2}, {0, 1}).output("y");
    model.node("OneHot", {"x", "depth", "values"}, {"y"});
  };
}

std::function<void(OnnxModel&)> cast_of(int from, int to) {
  return [=](OnnxModel& model) {
    model.input("x", from, {3}).output("y");
    set_int(model.node("Cast", {"x"}, {"y"}), "to", to);
  };
}

std::function<void(OnnxModel&)> quantized(int saturate) {
  return [=](OnnxModel& model) {
    model.input("x", f32, {3}).input("scale", f32, {}).input("zero", f8e4m3, {}).output("y");
    set_int(model.node("QuantizeLinear", {"x", "scale", "zero"}, {"y"}), "saturate", saturate);
  };
}

std::function<void(OnnxModel&)> both_ways(const std::vector<std::string>& activations, float alpha) {
  return [=](OnnxModel& model) {
    model.input("x", f32, {1, 1, 1}).input("w", f32, {2, 1, 1}).input("r", f32, {2, 1, 1}).output("y");
    ::onnx::NodeProto& node = model.node("RNN", {"x", "w", "r"}, {"y"});
    set_int(node, "hidden_size", 1);
    set_text(node, "direction", "bidirectional");
    ::onnx::AttributeProto& names = new_attribute(node, "activations", ::onnx::AttributeProto::STRINGS);
    for (const std::string& name : activations) names.add_strings(name);
    new_attribute(node, "activation_alpha", ::onnx::AttributeProto::FLOATS).add_floats(alpha);
  };
}

std::function<void(OnnxModel&)> positions_of_maxima(int type) {
  return [=](OnnxModel& model) {
    model.input("x", type, {1, 1, 3, 3}).output("y").output("positions");
    ::onnx::NodeProto& node = model.node("MaxPool", {"x"}, {"y", "positions"});
    set_ints(node, "kernel_shape", {2, 2});
    set_ints(node, "pads", {1, 1, 0, 0});
  };
}

TEST(OnnxEdges, Values) {
  const EdgeRow rows[] = {
      {"linear Resize to nothing", resized_to_nothing("linear"), {{1, 2, 3}}, {}},
      {"cubic Resize to nothing", resized_to_nothing("cubic"), {{1, 2, 3}}, {}},
      {"cubic Resize to one element, as PyTorch has it", resized_to_one("pytorch_half_pixel"), {{7, 2, 3}}, {7}},
      {"OneHot deeper than u8 counts", one_hot_of(u8), {{3}}, one_hot_list(300, 3)},
      {"OneHot deeper than s8 counts, from its end", one_hot_of(s8), {{-1}}, one_hot_list(300, 299)},
      {"QuantizeLinear to f8", quantized(1), {{1000, -1000, 3}, {1}, {0}}, {448, -448, 3}},
      {"QuantizeLinear to f8 without saturation",
       quantized(0),
       {{1000, -1000, 3}, {1}, {0}},
       {nan_value, nan_value, 3}},
      {"Cast of integers to f8", cast_of(s32, f8e4m3), {{1000, -1000, 3}}, {448, -448, 3}},
      {"Cast of one f8 to the other", cast_of(f8e5m2, f8e4m3), {{1024, -57344, 3}}, {448, -448, 3}},
      {"RNN whose second activation takes the only alpha",
       both_ways({"Tanh", "LeakyRelu"}, 0.3F),
       {{-1}, {1, 1}, {0, 0}},
       {std::tanh(-1.0), -0.3}},
      {"RNN whose first activation takes the only alpha",
       both_ways({"LeakyRelu", "LeakyRelu"}, 0.3F),
       {{-1}, {1, 1}, {0, 0}},
       {-0.3, -0.01}},
      {"MaxPool of least integers has no positions in the padding",
       positions_of_maxima(u8),
       {List(9, 0.0)},
       {0, 0, 1, 0, 0, 1, 3, 3, 4}},
      {"MaxPool of -inf has no positions in the padding",
       positions_of_maxima(f32),
       {List(9, -infinity)},
       {0, 0, 1, 0, 0, 1, 3, 3, 4}},
  };
  for (const EdgeRow& row : rows) {
    OnnxModel model(21);
    row.build(model);
    const Imported imported = import_good(model);
    EXPECT_TRUE(imported.boundaries.empty()) << row.name;
    ASSERT_EQ(imported.graph.parameters().size(), row.arguments.size()) << row.name;
    const auto last = static_cast<std::size_t>(model.graph().output_size()) - 1;
    EXPECT_THAT(evaluate(imported, row.arguments, last), Pointwise(NanSensitiveDoubleNear(1e-6), row.expected))
        << row.name;
  }
}

}  // namespace
}  // namespace stitch::import
