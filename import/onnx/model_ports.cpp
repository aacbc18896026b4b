#include "import/onnx/model_ports.h"

#include <onnx/onnx_pb.h>

#include <set>

#include "import/onnx/model_file.h"
#include "import/onnx/tensor.h"

namespace stitch::import {
namespace {

using onnx::pb::TypeProto;

std::string kind_of(const TypeProto& type) {
  switch (type.value_case()) {
    case TypeProto::kTensorType: return "tensor";
    case TypeProto::kSparseTensorType: return "sparse tensor";
    case TypeProto::kSequenceType: return "sequence";
    case TypeProto::kMapType: return "map";
    case TypeProto::kOptionalType: return "optional";
    default: return "";
  }
}

ModelPort port_of(const onnx::pb::ValueInfoProto& info) {
  ModelPort port{info.name(), kind_of(info.type()), {}, {}};
  if (!info.type().has_tensor_type()) return port;
  const TypeProto::Tensor& tensor = info.type().tensor_type();
  port.element = onnx::type_name(tensor.elem_type());
  if (!tensor.has_shape()) return port;
  port.shape.emplace();
  for (const auto& dim : tensor.shape().dim()) {
    const bool fixed = dim.has_dim_value() && dim.dim_value() >= 0;
    port.shape->push_back(fixed ? PortExtent{dim.dim_value(), {}} : PortExtent{-1, dim.dim_param()});
  }
  return port;
}

}  // namespace

Result<ModelPorts> onnx_ports(std::string_view bytes, std::int64_t max_bytes) {
  STITCH_ASSIGN(const onnx::pb::ModelProto model, onnx::parse_model(bytes, max_bytes));
  const onnx::pb::GraphProto& graph = model.graph();
  ModelPorts ports;
  std::set<std::string> initialised;
  for (const auto& tensor : graph.initializer()) initialised.insert(tensor.name());
  for (const auto& input : graph.input()) {
    (initialised.contains(input.name()) ? ports.overridable : ports.inputs).push_back(port_of(input));
  }
  for (const auto& output : graph.output()) ports.outputs.push_back(port_of(output));
  ports.producer = model.producer_name();
  ports.domain = model.domain();
  ports.description = model.doc_string();
  ports.graph = graph.name();
  ports.graph_description = graph.doc_string();
  ports.version = model.model_version();
  for (const auto& entry : model.metadata_props()) ports.metadata.emplace_back(entry.key(), entry.value());
  return ports;
}

}  // namespace stitch::import
