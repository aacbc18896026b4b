#include "import/onnx/model_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/import/onnx_model.h"

namespace stitch::import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(OnnxPorts, AreWhatTheFileDeclares) {
  OnnxModel model(17);
  model.input("x", f32, {"batch", 4}).input("w", f32, {4}).output("y");
  model.node("Mul", {"x", "w"}, {"y"});
  ::onnx::TensorProto& weight = *model.graph().add_initializer();
  weight.set_name("w");
  weight.set_data_type(f32);
  weight.add_dims(4);
  model.graph().set_name("scaled");
  model.proto.set_producer_name("tests");
  model.proto.set_model_version(7);
  ::onnx::StringStringEntryProto& entry = *model.proto.add_metadata_props();
  entry.set_key("owner");
  entry.set_value("nobody");

  const Result<ModelPorts> ports = onnx_ports(model.proto.SerializeAsString());
  ASSERT_TRUE(ports.ok()) << ports.error().message;
  ASSERT_EQ(ports->inputs.size(), 1U) << "what has an initializer need not be fed";
  EXPECT_EQ(ports->inputs[0].name, "x");
  EXPECT_EQ(ports->inputs[0].kind, "tensor");
  EXPECT_EQ(ports->inputs[0].element, "FLOAT");
  EXPECT_THAT(*ports->inputs[0].shape, ElementsAre(PortExtent{-1, "batch"}, PortExtent{4, ""}));
  ASSERT_EQ(ports->overridable.size(), 1U);
  EXPECT_EQ(ports->overridable[0].name, "w");
  ASSERT_EQ(ports->outputs.size(), 1U);
  EXPECT_EQ(ports->outputs[0].name, "y");
  EXPECT_EQ(ports->graph, "scaled");
  EXPECT_EQ(ports->producer, "tests");
  EXPECT_EQ(ports->version, 7);
  EXPECT_THAT(ports->metadata, ElementsAre(Pair("owner", "nobody")));
}

TEST(OnnxPorts, DamageIsNamed) {
  OnnxModel model(17);
  model.input("x", f32, {4}).output("y");
  model.node("Relu", {"x"}, {"y"});
  const std::string bytes = model.proto.SerializeAsString();
  const Result<ModelPorts> cut = onnx_ports(std::string_view(bytes).substr(0, bytes.size() - 3));
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().kind, ErrorKind::parse);
  EXPECT_THAT(cut.error().message, HasSubstr("damaged or truncated at byte"));
  EXPECT_EQ(onnx_ports("").error().kind, ErrorKind::parse);
  EXPECT_EQ(onnx_ports(bytes, 8).error().kind, ErrorKind::resource_exhausted);
}

TEST(OnnxWeights, AreKeptWhereTheyAreAskedFor) {
  OnnxModel model(17);
  model.input("x", f32, {4, 32}).external("w", f32, {32, 8}).output("y");
  ::onnx::TensorProto& stored = *model.graph().mutable_initializer(0);
  stored.clear_external_data();
  for (const auto& [key, value] : {std::pair("location", "weights.bin"), std::pair("offset", "4096")}) {
    ::onnx::StringStringEntryProto& entry = *stored.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  ::onnx::TensorProto& bias = *model.graph().add_initializer();
  bias.set_name("bias");
  bias.set_data_type(f32);
  bias.add_dims(32);
  for (int i = 0; i < 32; ++i) bias.add_float_data(static_cast<float>(i));
  model.node("Add", {"x", "bias"}, {"shifted"});
  model.node("MatMul", {"shifted", "w"}, {"y"});

  EXPECT_TRUE(import_good(model).weights.empty());
  ImportOptions options;
  options.keep_weights = true;
  const Imported imported = import_good(model, options);
  EXPECT_THAT(imported.parameters, ElementsAre("x", "w", "bias"));
  ASSERT_EQ(imported.weights.size(), 2U);
  EXPECT_EQ(imported.weights[0].parameter, 1);
  EXPECT_EQ(imported.weights[0].location, "weights.bin");
  EXPECT_EQ(imported.weights[0].offset, 4096);
  EXPECT_TRUE(imported.weights[0].data.empty());
  EXPECT_EQ(imported.weights[1].parameter, 2);
  ASSERT_EQ(imported.weights[1].data.size(), 32 * sizeof(float));
  float last = 0;
  std::memcpy(&last, imported.weights[1].data.data() + 31 * sizeof(float), sizeof last);
  EXPECT_EQ(last, 31);

  stored.mutable_external_data(1)->set_value("-8");
  EXPECT_THAT(import_bad(model, options).message, HasSubstr("tensor 'w': offset '-8' into external data"));
}

}  // namespace
}  // namespace stitch::import
