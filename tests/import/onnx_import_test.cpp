#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "import/onnx/rules.h"
#include "tests/import/onnx_model.h"

namespace stitch::import {
namespace {

using graph::Op;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string models_folder() { return std::string(STITCH_SOURCE_DIR) + "/bench/models/onnx"; }

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const FileSystem::Entry& entry : RealFileSystem().list(models_folder())) {
    if (entry.path.extension() == ".onnx") names.push_back(entry.path.stem().string());
  }
  return names;
}

class OnnxModels : public testing::TestWithParam<std::string> {};

/// Every exported model becomes a verified graph without boundaries, with the results that its file states.
TEST_P(OnnxModels, ImportWhole) {
  const Result<std::string> bytes = RealFileSystem().read(models_folder() + "/" + GetParam() + ".onnx");
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  const Result<Imported> imported = import_onnx(*bytes);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_TRUE(graph::verify(imported->graph).ok());
  EXPECT_THAT(imported->boundaries, IsEmpty());
  EXPECT_EQ(imported->format, "onnx");

  ::onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(*bytes));
  ASSERT_EQ(static_cast<std::size_t>(model.graph().output_size()), imported->graph.results().size());
  for (int i = 0; i < model.graph().output_size(); ++i) {
    graph::Dims stated;
    for (const auto& dim : model.graph().output(i).type().tensor_type().shape().dim()) {
      stated.push_back(dim.dim_value());
    }
    EXPECT_EQ(imported->graph.type(imported->graph.results()[i]).dims, stated);
  }
  ASSERT_EQ(imported->parameters.size(), imported->graph.parameters().size());
  for (int i = 0; i < model.graph().input_size(); ++i) {
    EXPECT_EQ(imported->parameters[i], model.graph().input(i).name());
  }
}

/// Every kind of contraction of the file is in the graph: nothing got lost, nothing was expanded into something else.
TEST_P(OnnxModels, KeepTheirContractions) {
  const Result<std::string> facts = RealFileSystem().read(models_folder() + "/" + GetParam() + ".json");
  const Result<std::string> bytes = RealFileSystem().read(models_folder() + "/" + GetParam() + ".onnx");
  ASSERT_TRUE(facts.ok() && bytes.ok());
  const nlohmann::json ops = nlohmann::json::parse(*facts).at("ops");
  const auto count = [&](const char* op) { return ops.value(op, 0); };
  const Result<Imported> imported = import_onnx(*bytes);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_EQ(count_ops(imported->graph, Op::convolution), count("Conv"));
  // An LSTM in two directions has a product with the inputs and one in the loop for each.
  const int dots = count("MatMul") + count("Gemm") + 2 * count("Attention") + 4 * count("LSTM");
  EXPECT_EQ(count_ops(imported->graph, Op::dot), dots);
  EXPECT_EQ(count_ops(imported->graph, Op::loop), 2 * count("LSTM"));
}

INSTANTIATE_TEST_SUITE_P(All, OnnxModels, testing::ValuesIn(model_names()), [](const auto& row) { return row.param; });

TEST(OnnxImport, RangesOfIndicesFollowFromWhatTheyIndex) {
  OnnxModel model(17);
  model.input("ids", s64, {2, 3}).external("table", f32, {50, 4}).external("small", f32, {20, 4}).output("y");
  model.node("Gather", {"table", "ids"}, {"a"});
  model.node("Gather", {"small", "ids"}, {"b"});
  model.node("Add", {"a", "b"}, {"y"});
  EXPECT_THAT(import_good(model).ranges, ElementsAre(ParameterRange{0, 0, 19}));
}

TEST(OnnxImport, WeightsBecomeParametersAndSmallConstantsStay) {
  OnnxModel model(17);
  model.input("x", f32, {4, 32}).external("w", f32, {32, 8}).external("unused", f32, {1000}).output("y");
  ::onnx::TensorProto& bias = *model.graph().add_initializer();  // present, but a weight all the same
  bias.set_name("bias");
  bias.set_data_type(f32);
  bias.add_dims(32);
  for (int i = 0; i < 32; ++i) bias.add_float_data(static_cast<float>(i));
  ::onnx::TensorProto& scale = *model.graph().add_initializer();
  scale.set_name("scale");
  scale.set_data_type(f32);
  scale.add_float_data(0.5F);
  model.node("Add", {"x", "bias"}, {"shifted"});
  model.node("Mul", {"shifted", "scale"}, {"scaled"});
  model.node("MatMul", {"scaled", "w"}, {"y"});
  const Imported imported = import_good(model);
  EXPECT_THAT(imported.parameters, ElementsAre("x", "w", "bias"));
  EXPECT_EQ(count_ops(imported.graph, Op::constant), 1);
}

TEST(OnnxImport, OpenDimensionsTakeTheirExtentsFromTheOptions) {
  OnnxModel model(17);
  model.input("x", f32, {"batch", 4, "length"}).output("y");
  model.node("Shape", {"x"}, {"shape"});
  model.node("ReduceProd", {"shape"}, {"count"});
  set_int(model.graph().mutable_node()->at(1), "keepdims", 1);
  model.node("Reshape", {"x", "count"}, {"y"});
  ImportOptions options;
  options.extents = {{"batch", 8}, {"elsewhere", 5}};
  options.default_extent = 3;
  const Imported imported = import_good(model, options);
  EXPECT_EQ(graph::to_string(imported.graph.type(imported.graph.results()[0])), "f32[96]");
  EXPECT_THAT(imported.extents, ElementsAre(testing::Pair("batch", 8), testing::Pair("length", 3)));
  // Shape arithmetic leaves nothing behind.
  EXPECT_EQ(graph::operator_count(imported.graph), 1);
}

TEST(OnnxImport, AKnownInputSpecialisesTheGraph) {
  OnnxModel model(17);
  model.input("x", f32, {2, 6}).input("shape", s64, {2}).output("y");
  model.node("Reshape", {"x", "shape"}, {"y"});
  EXPECT_THAT(import_bad(model).message, HasSubstr("input 1 must be known when the model is read"));
  ImportOptions options;
  options.known_inputs = {{"shape", graph::dense_integers({graph::DType::s64, {2}}, std::vector<std::int64_t>{3, -1})}};
  const Imported imported = import_good(model, options);
  EXPECT_EQ(graph::to_string(imported.graph.type(imported.graph.results()[0])), "f32[3,4]");
  EXPECT_THAT(imported.parameters, ElementsAre("x", "shape"));
}

TEST(OnnxImport, FunctionsAreInlinedWithTheirAttributes) {
  OnnxModel model(17);
  model.input("x", f32, {3}).output("y");
  ::onnx::FunctionProto& function = *model.proto.add_functions();
  function.set_name("Slope");
  function.set_domain("local");
  function.add_input("a");
  function.add_input("absent");
  function.add_output("r");
  function.add_attribute("alpha");
  function.add_opset_import()->set_version(17);
  ::onnx::NodeProto& inner = *function.add_node();
  inner.set_op_type("LeakyRelu");
  inner.add_input("a");
  inner.add_output("t");
  ::onnx::AttributeProto& reference = new_attribute(inner, "alpha", ::onnx::AttributeProto::FLOAT);
  reference.set_ref_attr_name("alpha");
  ::onnx::NodeProto& second = *function.add_node();
  second.set_op_type("Clip");
  second.add_input("t");
  second.add_input("absent");
  second.add_output("r");
  ::onnx::NodeProto& call = model.node("Slope", {"x"}, {"y"});
  call.set_domain("local");
  set_float(call, "alpha", 0.5F);
  EXPECT_THAT(evaluate(import_good(model), {{-4, 0, 6}}), ElementsAre(-2, 0, 6));
}

TEST(OnnxImport, ARecursiveFunctionIsAnError) {
  OnnxModel model(17);
  model.input("x", f32, {3}).output("y");
  ::onnx::FunctionProto& function = *model.proto.add_functions();
  function.set_name("Again");
  function.set_domain("local");
  function.add_input("a");
  function.add_output("r");
  ::onnx::NodeProto& inner = *function.add_node();
  inner.set_op_type("Again");
  inner.set_domain("local");
  inner.add_input("a");
  inner.add_output("r");
  model.node("Again", {"x"}, {"y"}).set_domain("local");
  EXPECT_THAT(import_bad(model).message, HasSubstr("function Again calls itself"));
}

TEST(OnnxImport, WhatIsNotGeneratedBecomesABoundaryWithItsPlace) {
  OnnxModel model(17);
  model.input("x", f32, {4, 9000}).integers("k", {1}, {3}).output("values").output("chosen");
  model.node("Relu", {"x"}, {"positive"});
  model.node("TopK", {"positive", "k"}, {"values", "chosen"});
  const Imported imported = import_good(model);
  ASSERT_EQ(imported.boundaries.size(), 1U);
  EXPECT_EQ(imported.boundaries[0].op, "TopK");
  EXPECT_EQ(imported.boundaries[0].place, "node 1 'values_node'");
  EXPECT_EQ(imported.boundaries[0].reason, "lines of 9000 elements: a block sorts at most 8192");
  EXPECT_EQ(imported.boundaries[0].occurrences, 1);
  const graph::Node& opaque = imported.graph.node(imported.graph.results()[1].node);
  EXPECT_EQ(opaque.as<graph::OpaqueAttributes>().target, "onnx.TopK");
  EXPECT_EQ(graph::to_string(opaque.type(1)), "s64[4,3]");
}

TEST(OnnxImport, AnUnknownOperatorNeedsStatedTypes) {
  OnnxModel model(17);
  model.input("x", f32, {"n", 10}).output("y");
  model.node("Fancy", {"x"}, {"t"}).set_domain("vendor");
  model.node("Relu", {"t"}, {"y"});
  const Error error = import_bad(model);
  EXPECT_EQ(error.kind, ErrorKind::unsupported);
  EXPECT_EQ(error.message,
            "ONNX model: node 0 't_node' (Fancy): there is no rule for this operator; nor does the file state static "
            "types for its outputs");
  // A dimension that an input has fixed is as good as a number.
  set_value_info(*model.graph().add_value_info(), "t", f32, {"n", 5});
  const Imported imported = import_good(model);
  ASSERT_EQ(imported.boundaries.size(), 1U);
  EXPECT_EQ(imported.boundaries[0].op, "vendor.Fancy");
  EXPECT_EQ(graph::to_string(imported.graph.type(imported.graph.results()[0])), "f32[1,5]");
}

TEST(OnnxImport, SequencesLeaveNoTrace) {
  OnnxModel model(17);
  model.input("x", f32, {4, 2}).integers("two", {}, {2}).integers("last", {}, {-1}).output("y").output("n");
  set_int(model.node("SplitToSequence", {"x", "two"}, {"halves"}), "axis", 0);
  model.node("SequenceAt", {"halves", "last"}, {"second"});
  model.node("SequenceInsert", {"halves", "second"}, {"three"});
  model.node("SequenceLength", {"three"}, {"n"});
  set_int(model.node("ConcatFromSequence", {"three"}, {"y"}), "axis", 1);
  const Imported imported = import_good(model);
  EXPECT_THAT(imported.boundaries, IsEmpty());
  EXPECT_EQ(count_ops(imported.graph, Op::opaque), 0);
  EXPECT_THAT(evaluate(imported, {{1, 2, 3, 4, 5, 6, 7, 8}}), ElementsAre(1, 2, 5, 6, 5, 6, 3, 4, 7, 8, 7, 8));
  EXPECT_THAT(evaluate(imported, {{1, 2, 3, 4, 5, 6, 7, 8}}, 1), ElementsAre(3));
}

TEST(OnnxImport, ASequenceThatLeavesTheModelIsABoundary) {
  OnnxModel model(17);
  model.input("x", f32, {4}).output("s");
  model.node("SequenceConstruct", {"x", "x"}, {"s"});
  const Imported imported = import_good(model);
  ASSERT_EQ(imported.boundaries.size(), 1U);
  EXPECT_EQ(imported.boundaries[0].op, "SequenceConstruct");
}

TEST(OnnxImport, DeadBoundariesAreNotReported) {
  OnnxModel model(17);
  model.input("x", f32, {4, 10}).integers("k", {1}, {3}).output("y");
  model.node("TopK", {"x", "k"}, {"values", "chosen"});
  model.node("Shape", {"values"}, {"shape"});
  model.node("ConstantOfShape", {"shape"}, {"y"});
  const Imported imported = import_good(model);
  EXPECT_THAT(imported.boundaries, IsEmpty());
  EXPECT_EQ(graph::to_string(imported.graph.type(imported.graph.results()[0])), "f32[4,3]");
}

struct BadModel {
  const char* name;
  void (*build)(OnnxModel& model);
  ErrorKind kind;
  const char* message;
};

const BadModel bad_models[] = {
    {"Undefined", [](OnnxModel& m) { m.node("Relu", {"nowhere"}, {"y"}); }, ErrorKind::invalid_argument,
     "ONNX model: node 0 'y_node' (Relu): input 'nowhere' is not defined before its use"},
    {"NoOutput", [](OnnxModel& m) { m.node("Relu", {"x"}, {"z"}); }, ErrorKind::invalid_argument,
     "ONNX model: output 'y' is never defined"},
    {"MissingInput", [](OnnxModel& m) { m.node("Add", {"x"}, {"y"}); }, ErrorKind::invalid_argument,
     "ONNX model: node 0 'y_node' (Add): input 1 is missing"},
    {"Shapes",
     [](OnnxModel& m) {
       m.input("z", f32, {5});
       m.node("Add", {"x", "z"}, {"y"});
     },
     ErrorKind::invalid_argument, "'y_node': shapes [2,3] and [5] do not broadcast"},
    {"AttributeKind", [](OnnxModel& m) { set_text(m.node("Softmax", {"x"}, {"y"}), "axis", "one"); }, ErrorKind::parse,
     "ONNX model: node 0 'y_node' (Softmax): attribute 'axis' is STRING, not INT"},
    {"Axis", [](OnnxModel& m) { set_int(m.node("Softmax", {"x"}, {"y"}), "axis", 2); }, ErrorKind::invalid_argument,
     "ONNX model: node 0 'y_node' (Softmax): attribute 'axis': axis 2 for rank 2"},
    {"Permutation", [](OnnxModel& m) { set_ints(m.node("Transpose", {"x"}, {"y"}), "perm", {0}); },
     ErrorKind::invalid_argument, "attribute 'perm' has 1 entries for rank 2"},
    {"Reshape",
     [](OnnxModel& m) {
       m.integers("shape", {2}, {-1, -1});
       m.node("Reshape", {"x", "shape"}, {"y"});
     },
     ErrorKind::invalid_argument, "shape [-1,-1] has two open extents"},
    {"ReshapeSize",
     [](OnnxModel& m) {
       m.integers("shape", {1}, {7});
       m.node("Reshape", {"x", "shape"}, {"y"});
     },
     ErrorKind::invalid_argument, "reshape 'y_node': attribute 'dims': [7] has 7 elements"},
    {"ReshapeBeyondAllBounds",
     [](OnnxModel& m) {
       m.integers("shape", {2}, {std::int64_t{1} << 40, std::int64_t{1} << 40});
       m.node("Reshape", {"x", "shape"}, {"y"});
     },
     ErrorKind::invalid_argument, "shape [1099511627776,1099511627776] is too large"},
    {"TensorBeyondAllBounds",
     [](OnnxModel& m) {
       m.external("w", f32, {std::int64_t{1} << 40, std::int64_t{1} << 40});
       m.node("Add", {"x", "w"}, {"y"});
     },
     ErrorKind::parse, "[1099511627776,1099511627776] is too large"},
    {"Split",
     [](OnnxModel& m) {
       m.integers("parts", {2}, {1, 5});
       m.node("Split", {"x", "parts"}, {"y", "z"});
     },
     ErrorKind::invalid_argument, "parts [1,5] of extent 2"},
    {"Groups",
     [](OnnxModel& m) {
       m.input("image", f32, {1, 3, 5, 5}).external("w", f32, {4, 1, 3, 3});
       set_int(m.node("Conv", {"image", "w"}, {"y"}), "group", 3);
     },
     ErrorKind::invalid_argument, "attribute 'group' is 3"},
    {"TensorData",
     [](OnnxModel& m) {
       m.integers("broken", {3}, {1, 2});
       m.node("Relu", {"x"}, {"y"});
     },
     ErrorKind::parse, "ONNX model: initializer: tensor 'broken': 16 bytes of data for s64[3], which needs 24"},
    {"ElementType",
     [](OnnxModel& m) {
       m.input("text", ::onnx::TensorProto::STRING, {2});
       m.node("Relu", {"x"}, {"y"});
     },
     ErrorKind::unsupported, "ONNX model: input: 'text' has element type STRING"},
    {"Equation", [](OnnxModel& m) { set_text(m.node("Einsum", {"x"}, {"y"}), "equation", "ij,jk->ik"); },
     ErrorKind::invalid_argument, "equation 'ij,jk->ik' has 2 terms for 1 inputs"},
    {"Padding", [](OnnxModel& m) { set_text(m.node("Pad", {"x"}, {"y"}), "mode", "reflect"); },
     ErrorKind::invalid_argument, "there are no pads"},
    {"RankOfMatrix",
     [](OnnxModel& m) {
       m.input("v", f32, {3});
       m.node("Gemm", {"x", "v"}, {"y"});
     },
     ErrorKind::invalid_argument, "input 1 is f32[3]: its rank must be 2"},
};

class OnnxBadModels : public testing::TestWithParam<BadModel> {};

TEST_P(OnnxBadModels, AreErrorsThatNameTheNode) {
  OnnxModel model(17);
  model.input("x", f32, {2, 3}).output("y");
  GetParam().build(model);
  const Error error = import_bad(model);
  EXPECT_EQ(error.kind, GetParam().kind) << error.message;
  EXPECT_THAT(error.message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(All, OnnxBadModels, testing::ValuesIn(bad_models),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(OnnxImport, DamageIsReportedWithItsPosition) {
  OnnxModel model(17);
  model.input("x", f32, {2, 3}).output("y");
  model.node("Relu", {"x"}, {"z"});
  model.node("Relu", {"z"}, {"y"});
  const std::string bytes = model.bytes();
  const Result<Imported> cut = import_onnx(bytes.substr(0, bytes.size() - 20));
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().kind, ErrorKind::parse);
  EXPECT_THAT(cut.error().message, HasSubstr("ONNX model: damaged or truncated at byte"));

  // The length of the second node's name, made longer than the file.
  std::string mutated = bytes;
  const std::size_t at = mutated.find("y_node");
  ASSERT_NE(at, std::string::npos);
  mutated[at - 1] = 0x7f;
  const Result<Imported> broken = import_onnx(mutated);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().message,
            fmt::format("ONNX model: damaged or truncated at byte {}, in graph.node[1].name", at - 1));

  EXPECT_EQ(import_onnx("").error().message, "ONNX model: there is no graph in its 0 bytes");
  ImportOptions small;
  small.max_bytes = 10;
  EXPECT_EQ(import_onnx(bytes, small).error().kind, ErrorKind::resource_exhausted);
}

TEST(OnnxImport, ANodeBudgetStopsRunawayModels) {
  OnnxModel model(17);
  model.input("x", f32, {2}).output("y");
  for (int i = 0; i < 50; ++i) {
    model.node("Relu", {i == 0 ? "x" : "t" + std::to_string(i - 1)}, {i == 49 ? "y" : "t" + std::to_string(i)});
  }
  ImportOptions options;
  options.max_nodes = 20;
  EXPECT_EQ(import_bad(model, options).kind, ErrorKind::resource_exhausted);
}

TEST(OnnxRules, TheTableFindsTheRowInForce) {
  const auto since = [](std::string_view op, std::int64_t version) {
    const onnx::Rule* rule = onnx::find_rule("", op, version);
    return rule == nullptr ? -1 : rule->since;
  };
  EXPECT_EQ(since("Clip", 6), 1);
  EXPECT_EQ(since("Clip", 11), 11);
  EXPECT_EQ(since("Clip", 30), 11);
  EXPECT_EQ(since("Attention", 22), -1);
  EXPECT_EQ(since("Attention", 23), 23);
  EXPECT_EQ(since("Unheard", 20), -1);
  EXPECT_EQ(onnx::find_rule("vendor", "Clip", 20), nullptr);
  for (const onnx::Rule& row : onnx::rule_table()) {
    EXPECT_NE(row.rule, nullptr) << row.op;
    EXPECT_GE(row.since, 1) << row.op;
    EXPECT_EQ(onnx::find_rule(row.domain, row.op, row.since), &row);
  }
}

}  // namespace
}  // namespace stitch::import
