#pragma once

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/literal.h"
#include "graph/reference/evaluate.h"
#include "graph/verify.h"
#include "import/import.h"

/// Small ONNX models for tests, assembled node by node.
namespace stitch::import {

/// Attribute values: add(node, "axis", 1), add(node, "perm", {1, 0}), add(node, "mode", "linear").
inline ::onnx::AttributeProto& new_attribute(::onnx::NodeProto& node, const std::string& name,
                                             ::onnx::AttributeProto::AttributeType type) {
  ::onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}
inline void set_int(::onnx::NodeProto& node, const std::string& name, std::int64_t value) {
  new_attribute(node, name, ::onnx::AttributeProto::INT).set_i(value);
}
inline void set_float(::onnx::NodeProto& node, const std::string& name, float value) {
  new_attribute(node, name, ::onnx::AttributeProto::FLOAT).set_f(value);
}
inline void set_text(::onnx::NodeProto& node, const std::string& name, const std::string& value) {
  new_attribute(node, name, ::onnx::AttributeProto::STRING).set_s(value);
}
inline void set_ints(::onnx::NodeProto& node, const std::string& name, const std::vector<std::int64_t>& values) {
  ::onnx::AttributeProto& attribute = new_attribute(node, name, ::onnx::AttributeProto::INTS);
  for (const std::int64_t value : values) attribute.add_ints(value);
}
inline ::onnx::GraphProto& set_graph(::onnx::NodeProto& node, const std::string& name) {
  return *new_attribute(node, name, ::onnx::AttributeProto::GRAPH).mutable_g();
}

using Names = std::vector<std::string>;

inline ::onnx::NodeProto& add_node(::onnx::GraphProto& graph, const std::string& op, const Names& inputs,
                                   const Names& outputs) {
  ::onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(outputs.empty() ? op : outputs[0] + "_node");
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}

/// A dimension is an extent, or a name for an open one.
struct Dim {
  Dim(std::int64_t extent_) : extent(extent_) {}
  Dim(int extent_) : extent(extent_) {}
  Dim(const char* name_) : name(name_) {}
  std::int64_t extent = -1;
  std::string name;
};

inline void set_value_info(::onnx::ValueInfoProto& info, const std::string& name, int type,
                           const std::vector<Dim>& dims) {
  info.set_name(name);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(type);
  auto& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const Dim& dim : dims) {
    auto& entry = *shape.add_dim();
    if (dim.name.empty()) {
      entry.set_dim_value(dim.extent);
    } else {
      entry.set_dim_param(dim.name);
    }
  }
}

constexpr int f32 = ::onnx::TensorProto::FLOAT, s64 = ::onnx::TensorProto::INT64, pred = ::onnx::TensorProto::BOOL,
              f16 = ::onnx::TensorProto::FLOAT16;

struct OnnxModel {
  explicit OnnxModel(std::int64_t opset) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(opset);
    proto.mutable_graph()->set_name("test");
  }

  ::onnx::GraphProto& graph() { return *proto.mutable_graph(); }

  OnnxModel& input(const std::string& name, int type, const std::vector<Dim>& dims) {
    set_value_info(*graph().add_input(), name, type, dims);
    return *this;
  }
  /// An output; its stated type is of no consequence.
  OnnxModel& output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }
  OnnxModel& integers(const std::string& name, const std::vector<std::int64_t>& dims,
                      const std::vector<std::int64_t>& values) {
    ::onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(s64);
    for (const std::int64_t extent : dims) tensor.add_dims(extent);
    for (const std::int64_t value : values) tensor.add_int64_data(value);
    return *this;
  }
  /// A weight whose data is not in the file.
  OnnxModel& external(const std::string& name, int type, const std::vector<std::int64_t>& dims) {
    ::onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    tensor.set_data_location(::onnx::TensorProto::EXTERNAL);
    for (const std::int64_t extent : dims) tensor.add_dims(extent);
    return *this;
  }
  ::onnx::NodeProto& node(const std::string& op, const Names& inputs, const Names& outputs) {
    return add_node(graph(), op, inputs, outputs);
  }
  [[nodiscard]] std::string bytes() const { return proto.SerializeAsString(); }

  ::onnx::ModelProto proto;
};

/// The import of a model that must be good.
inline Imported import_good(const OnnxModel& model, const ImportOptions& options = {}) {
  Result<Imported> imported = import_onnx(model.bytes(), options);
  EXPECT_TRUE(imported.ok()) << imported.error().message;
  return imported.ok() ? std::move(*imported) : Imported{};
}

/// The error of a model that must be bad.
inline Error import_bad(const OnnxModel& model, const ImportOptions& options = {}) {
  const Result<Imported> imported = import_onnx(model.bytes(), options);
  EXPECT_FALSE(imported.ok());
  return imported.ok() ? Error{} : imported.error();
}

/// Elements of result `which` for arguments given as element values, every value rounded to its type.
inline std::vector<double> evaluate(const Imported& imported, const std::vector<std::vector<double>>& arguments,
                                    std::size_t which = 0) {
  std::vector<graph::Tensor> tensors;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const graph::TensorType& type = imported.graph.node(imported.graph.parameters()[i]).type();
    tensors.push_back(graph::tensor_from(graph::dense(type, arguments[i])));
  }
  graph::EvaluateOptions options;
  options.round = true;
  const Result<std::vector<graph::Tensor>> results = graph::evaluate(imported.graph, tensors, options);
  EXPECT_TRUE(results.ok()) << results.error().message;
  std::vector<double> values;
  if (!results) return values;
  const graph::Tensor& result = (*results)[which];
  for (std::int64_t i = 0; i < result.elements(); ++i) values.push_back(result.at(i));
  return values;
}

/// How often each operator occurs, regions included.
inline int count_ops(const graph::Graph& graph, graph::Op op) {
  int count = 0;
  graph::for_each_region(graph, [&](const graph::RegionSite& site) {
    for (const graph::Node& node : site.graph.nodes()) count += node.op == op;
  });
  return count;
}

}  // namespace stitch::import
