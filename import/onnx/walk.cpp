#include "import/onnx/walk.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "graph/literal.h"
#include "import/onnx/rules.h"
#include "import/onnx/tensor.h"

namespace stitch::import::onnx {
namespace {

/// Floating-point tensors of more elements than this are weights and become parameters, so that layers which differ
/// only in them stay equal; integers are usually indices and shapes.
constexpr std::int64_t largest_constant_weight = 16;
constexpr std::int64_t largest_constant_bytes = 4096;
constexpr std::size_t deepest_inlining = 64;

std::string normal_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

/// Text of a string field that the library's version of the format does not know yet.
std::string unknown_text(const google::protobuf::Message& message, int field) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto& entry = unknown.field(i);
    if (entry.number() == field && entry.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      return entry.length_delimited();
    }
  }
  return {};
}

std::string place_of(const Scope& scope, const pb::NodeProto& node, int index) {
  return node.name().empty() ? fmt::format("{}node {}", scope.path, index)
                             : fmt::format("{}node {} '{}'", scope.path, index, node.name());
}

std::string name_of(const pb::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

/// A weight becomes a parameter of the model even when a subgraph holds it: a region has no parameters of its own.
Result<Value> add_weight(Scope& scope, const std::string& name, TensorData data) {
  Frame& root = *scope.state->root;
  const Value parameter = root.builder.parameter(data.type.dtype, data.type.dims, name);
  if (root.builder.failed()) return root.builder.finish({}).error();
  if (scope.state->options->keep_weights) scope.state->weights.emplace(parameter.node, data);
  if (data.constant) root.tell(parameter, std::move(*data.constant), Known::constant);
  return scope.frame->import(root, parameter);
}

bool stays_constant(const TensorData& data) {
  if (!data.constant) return false;
  if (graph::is_splat(*data.constant) && data.type.bytes() <= largest_constant_bytes) return true;
  if (graph::is_floating(data.type.dtype) && data.type.elements() > largest_constant_weight) return false;
  return data.type.bytes() <= largest_constant_bytes;
}

Status read_initializer(Scope& scope, const pb::TensorProto& tensor) {
  STITCH_ASSIGN(TensorData data, read_tensor(tensor));
  scope.frame->builder.at(tensor.name());
  if (stays_constant(data)) {
    scope.values[tensor.name()] = scope.frame->builder.constant(std::move(*data.constant));
    return {};
  }
  STITCH_ASSIGN(scope.values[tensor.name()], add_weight(scope, tensor.name(), std::move(data)));
  return {};
}

/// What a rule gave, checked and bound to the names of the node's outputs.
Status bind_outputs(Scope& scope, const pb::NodeProto& node, const Values& values) {
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    const std::size_t at = i;
    if (at >= values.size() || values[at].node < 0) {
      return make_error(ErrorKind::unsupported, "output {} is not computed", i);
    }
    scope.values[node.output(i)] = values[at];
  }
  return {};
}

/// The body of a function in a scope of its own, with the call's inputs and attributes.
Result<Values> inline_function(Call& call, const pb::FunctionProto& function, const FunctionName& name) {
  State& state = call.state;
  if (std::find(state.inlining.begin(), state.inlining.end(), name) != state.inlining.end()) {
    return Call::wrong("function {} calls itself", function.name());
  }
  if (state.inlining.size() >= deepest_inlining) return Call::wrong("functions are nested too deeply");
  AttributeBindings bindings;
  std::vector<pb::AttributeProto> defaults;  // field 11, newer than the library
  const auto& unknown = function.GetReflection()->GetUnknownFields(function);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto& field = unknown.field(i);
    if (field.number() != 11 || field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) continue;
    pb::AttributeProto attribute;
    if (!attribute.ParseFromString(field.length_delimited())) return Call::wrong("a default attribute is damaged");
    defaults.push_back(std::move(attribute));
  }
  for (const pb::AttributeProto& attribute : defaults) bindings[attribute.name()] = &attribute;
  for (const pb::AttributeProto& attribute : call.node.proto().attribute()) {
    bindings[attribute.name()] = call.node.find(attribute.name());
  }
  Opsets opsets;
  for (const auto& import : function.opset_import()) opsets[normal_domain(import.domain())] = import.version();
  if (opsets.empty()) opsets = *call.scope.opsets;

  Scope scope{&state, &call.frame, nullptr, &opsets, &bindings, {}, {}, call.place + " > "};
  for (int i = 0; i < function.input_size(); ++i) {
    const std::size_t at = i;
    if (call.has(at)) scope.values[function.input(i)] = call.in(at);
  }
  state.inlining.push_back(name);
  pb::GraphProto body;
  *body.mutable_node() = function.node();
  const Status status = read_graph(scope, body);
  state.inlining.pop_back();
  STITCH_TRY(status);
  Values values;
  for (const std::string& output : function.output()) {
    const std::optional<Value> value = scope.find(output);
    if (!value) return Call::wrong("function output '{}' is never defined", output);
    values.push_back(*value);
  }
  return values;
}

/// The outputs by the operator's rule, by its function, or as a boundary.
Result<Values> lower(Call& call) {
  const pb::NodeProto& node = call.node.proto();
  const std::string domain = normal_domain(node.domain());
  const FunctionName name{domain, node.op_type(), unknown_text(node, 8)};
  if (const auto function = call.state.functions.find(name); function != call.state.functions.end()) {
    return inline_function(call, *function->second, name);
  }
  Result<Values> result = Call::unsupported("there is no rule for this operator");
  if (const Rule* rule = find_rule(domain, node.op_type(), call.version)) {
    for (int i = 0; i < rule->inputs; ++i) {
      if (!call.has(i)) return Call::wrong("input {} is missing", i);
    }
    result = rule->rule(call);
  }
  if (result || result.error().kind != ErrorKind::unsupported || call.b.failed()) return result;
  const std::optional<std::vector<TensorType>> types = call.declared();
  if (!types) {
    return Call::unsupported("{}; nor does the file state static types for its outputs", result.error().message);
  }
  return call.opaque(*types, result.error().message);
}

Status read_node(Scope& scope, const pb::NodeProto& node, int index) {
  State& state = *scope.state;
  const std::string place = place_of(scope, node, index);
  if (++state.calls > state.options->max_nodes || scope.frame->builder.graph().size() > state.options->max_nodes) {
    return make_error(ErrorKind::resource_exhausted, "{}: more than {} nodes", place, state.options->max_nodes);
  }
  const auto version = scope.opsets->find(normal_domain(node.domain()));
  Call call(scope, NodeView(node, scope.bindings), version == scope.opsets->end() ? 1 : version->second, place);
  const std::string context = fmt::format("{} ({})", place, node.op_type());
  for (const std::string& name : node.input()) {
    if (name.empty()) {
      call.inputs.emplace_back();
      continue;
    }
    call.inputs.push_back(scope.find(name));
    // Inside a function an input that the call left out has a name but no value.
    if (!call.inputs.back() && scope.bindings == nullptr) {
      return make_error(ErrorKind::invalid_argument, "{}: input '{}' is not defined before its use", context, name);
    }
  }
  call.b.at(name_of(node));
  const Result<Values> values = lower(call);
  if (!values) return values.error().within(context);
  if (call.b.failed()) return call.b.finish({}).error().within(context);
  if (const Status bound = bind_outputs(scope, node, *values); !bound) return bound.error().within(context);
  return {};
}

}  // namespace

Result<std::optional<TensorType>> stated_type(State& state, const pb::ValueInfoProto& info, bool may_assume) {
  if (!info.has_type() || !info.type().has_tensor_type()) {
    return make_error(ErrorKind::unsupported, "'{}' is not a tensor", info.name());
  }
  const pb::TypeProto::Tensor& stated = info.type().tensor_type();
  const std::optional<DType> dtype = dtype_of(stated.elem_type());
  if (!dtype) {
    return make_error(ErrorKind::unsupported, "'{}' has element type {}", info.name(), type_name(stated.elem_type()));
  }
  if (!stated.has_shape()) return std::optional<TensorType>{};
  TensorType type{*dtype, {}};
  for (const auto& dim : stated.shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      type.dims.push_back(dim.dim_value());
      continue;
    }
    const std::string name =
        dim.dim_param().empty() ? fmt::format("{}.{}", info.name(), type.dims.size()) : dim.dim_param();
    auto known = state.extents.find(name);
    if (known == state.extents.end()) {
      if (!may_assume) return std::optional<TensorType>{};
      const auto& given = state.options->extents;
      const auto match = std::find_if(given.begin(), given.end(), [&](const auto& row) { return row.first == name; });
      const std::int64_t extent = match == given.end() ? state.options->default_extent : match->second;
      known = state.extents.emplace(name, extent).first;
    }
    type.dims.push_back(known->second);
  }
  return std::optional<TensorType>{std::move(type)};
}

Status read_graph(Scope& scope, const pb::GraphProto& graph) {
  for (const auto* list : {&graph.value_info(), &graph.output()}) {
    for (const pb::ValueInfoProto& info : *list) {
      // What is stated about sequences and the like is of no use, and no error until somebody asks for it.
      const Result<std::optional<TensorType>> type = stated_type(*scope.state, info, false);
      if (type && *type) scope.declared[info.name()] = **type;
    }
  }
  for (const pb::TensorProto& tensor : graph.initializer()) {
    if (const Status status = read_initializer(scope, tensor); !status) {
      return status.error().within(scope.path + "initializer");
    }
  }
  if (graph.sparse_initializer_size() > 0) {
    return make_error(ErrorKind::unsupported, "{}sparse initializer '{}'", scope.path,
                      graph.sparse_initializer(0).values().name());
  }
  for (int i = 0; i < graph.node_size(); ++i) STITCH_TRY(read_node(scope, graph.node(i), i));
  return {};
}

Result<Values> graph_outputs(const Scope& scope, const pb::GraphProto& graph) {
  Values values;
  for (const pb::ValueInfoProto& output : graph.output()) {
    const std::optional<Value> value = scope.find(output.name());
    if (!value) {
      return make_error(ErrorKind::invalid_argument, "{}output '{}' is never defined", scope.path, output.name());
    }
    values.push_back(*value);
  }
  return values;
}

}  // namespace stitch::import::onnx
