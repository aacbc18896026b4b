#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "graph/verify.h"
#include "import/import.h"
#include "import/onnx/call.h"
#include "import/onnx/model_file.h"
#include "import/onnx/prune.h"
#include "import/onnx/walk.h"

namespace stitch::import {
namespace onnx {
namespace {

Opsets opsets_of(const pb::ModelProto& model) {
  Opsets opsets;
  for (const auto& import : model.opset_import()) {
    opsets[import.domain() == "ai.onnx" ? "" : import.domain()] = import.version();
  }
  return opsets;
}

/// Overloads came with a later version of the format: field 13 of a function.
std::string overload_of(const pb::FunctionProto& function) {
  const auto& unknown = function.GetReflection()->GetUnknownFields(function);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto& field = unknown.field(i);
    if (field.number() == 13 && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      return field.length_delimited();
    }
  }
  return {};
}

Status add_input(Scope& scope, const pb::ValueInfoProto& input) {
  State& state = *scope.state;
  STITCH_ASSIGN(std::optional<TensorType> type, stated_type(state, input, true));
  const auto& known = state.options->known_inputs;
  const auto given =
      std::find_if(known.begin(), known.end(), [&](const auto& row) { return row.first == input.name(); });
  if (given != known.end()) {
    if (type && given->second.type.dtype != type->dtype) {
      return make_error(ErrorKind::invalid_argument, "'{}' is {}, its known value {}", input.name(),
                        graph::to_string(*type), graph::to_string(given->second.type));
    }
    type = given->second.type;
  }
  if (!type) return make_error(ErrorKind::unsupported, "'{}' has no shape", input.name());
  const Value parameter = scope.frame->builder.parameter(type->dtype, type->dims, input.name());
  if (scope.frame->builder.failed()) return scope.frame->builder.finish({}).error();
  scope.values[input.name()] = parameter;
  if (given != known.end()) scope.frame->tell(parameter, given->second, Known::assumed);
  return {};
}

Status add_inputs(Scope& scope, const pb::GraphProto& graph) {
  std::set<std::string> initialised;  // up to IR version 3 initializers are listed among the inputs
  for (const pb::TensorProto& tensor : graph.initializer()) initialised.insert(tensor.name());
  for (const pb::ValueInfoProto& input : graph.input()) {
    if (initialised.contains(input.name())) continue;
    if (const Status status = add_input(scope, input); !status) return status.error().within("input");
  }
  return {};
}

void collect_boundaries(const State& state, Imported& imported) {
  for_each_region(imported.graph, [&](const graph::RegionSite& site) {
    for (const graph::Node& node : site.graph.nodes()) {
      if (node.op != graph::Op::opaque) continue;
      Boundary boundary = state.boundaries.at(node.name);
      boundary.occurrences = site.occurrences;
      imported.boundaries.push_back(std::move(boundary));
    }
  });
}

Result<Imported> finish(State& state, graph::Graph whole, std::size_t inputs) {
  Pruned pruned = prune(whole, [&](graph::NodeId id) { return static_cast<std::size_t>(id) < inputs; });
  Imported imported;
  imported.graph = std::move(pruned.graph);
  imported.format = "onnx";
  for (std::size_t i = 0; i < pruned.parameters.size(); ++i) {
    const graph::NodeId id = pruned.parameters[i];
    imported.parameters.push_back(whole.node(id).name);
    if (const auto range = state.ranges.find(id); range != state.ranges.end()) {
      imported.ranges.push_back({static_cast<std::int64_t>(i), range->second.first, range->second.second});
    }
    if (const auto weight = state.weights.find(id); weight != state.weights.end()) {
      TensorData& data = weight->second;
      imported.weights.push_back({static_cast<std::int64_t>(i),
                                  data.constant ? std::move(data.constant->data) : std::vector<std::byte>(),
                                  std::move(data.location), data.offset});
    }
  }
  imported.extents.assign(state.extents.begin(), state.extents.end());
  collect_boundaries(state, imported);
  if (const Status status = verify(imported.graph); !status) {
    return make_error(ErrorKind::internal, "ONNX model: the graph read from it is wrong: {}", status.error().message);
  }
  return imported;
}

}  // namespace
}  // namespace onnx

Result<Imported> import_onnx(std::string_view bytes, const ImportOptions& options) {
  using namespace onnx;
  STITCH_ASSIGN(const pb::ModelProto model, parse_model(bytes, options.max_bytes));
  const Opsets opsets = opsets_of(model);
  Frame root(model.graph().name());
  State state;
  state.options = &options;
  state.root = &root;
  for (const pb::FunctionProto& function : model.functions()) {
    state.functions[{function.domain() == "ai.onnx" ? "" : function.domain(), function.name(), overload_of(function)}] =
        &function;
  }
  Scope scope;
  scope.state = &state;
  scope.frame = &root;
  scope.opsets = &opsets;
  const auto within_model = [](const Error& error) { return error.within("ONNX model"); };
  if (const Status status = add_inputs(scope, model.graph()); !status) return within_model(status.error());
  const std::size_t inputs = root.builder.graph().size();
  if (const Status status = read_graph(scope, model.graph()); !status) return within_model(status.error());
  Result<Values> results = graph_outputs(scope, model.graph());
  if (!results) return within_model(results.error());
  Result<graph::Graph> whole = root.builder.finish(std::move(*results));
  if (!whole) return within_model(whole.error());
  STITCH_ASSIGN(Imported imported, finish(state, std::move(*whole), inputs));
  for (const pb::ValueInfoProto& output : model.graph().output()) imported.results.push_back(output.name());
  return imported;
}

}  // namespace stitch::import
