#pragma once

#include <string>

#include "base/result.h"
#include "import/onnx/call.h"

namespace stitch::import::onnx {

/// Reads a graph's initializers and nodes into the scope, whose frame they are emitted to. Errors name the node.
Status read_graph(Scope& scope, const pb::GraphProto& graph);

/// The values of a graph's outputs, after read_graph.
Result<Values> graph_outputs(const Scope& scope, const pb::GraphProto& graph);

/// The type that the file states for a value. An open dimension takes its extent from ImportOptions where
/// `may_assume`, and otherwise only if an input of the model fixed it before; none when the type is not static.
/// Errors: unsupported (not a tensor, or an element type that the IR lacks).
Result<std::optional<TensorType>> stated_type(State& state, const pb::ValueInfoProto& info, bool may_assume);

}  // namespace stitch::import::onnx
