#include "graph/verify.h"

#include "graph/infer.h"

namespace stitch::graph {
namespace {

/// What a kernel can compute between two elements: nothing but element-wise operators on scalars.
Status verify_combiner(const Graph& combiner) {
  for (const Node& node : combiner.nodes()) {
    const bool scalar = node.results.size() == 1 && node.type().rank() == 0;
    if (scalar && (is_elementwise(node.op) || node.op == Op::parameter || node.op == Op::constant)) continue;
    return make_error(ErrorKind::invalid_argument,
                      "the combiner has a {}; it may have element-wise operators on scalars only", to_string(node.op));
  }
  return {};
}

Status verify_node(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::vector<TensorType> operands;
  for (const Value& operand : node.operands) {
    if (operand.node < 0 || operand.node >= id) {
      return make_error(ErrorKind::invalid_argument, "operand {} is node {}, which does not come before it",
                        operands.size(), operand.node);
    }
    const Node& producer = graph.node(operand.node);
    if (operand.result < 0 || operand.result >= std::ssize(producer.results)) {
      return make_error(ErrorKind::invalid_argument, "operand {} is result {} of a node that has {}", operands.size(),
                        operand.result, producer.results.size());
    }
    operands.push_back(graph.type(operand));
  }
  for (std::size_t i = 0; i < node.regions.size(); ++i) {
    if (node.regions[i] == nullptr) return make_error(ErrorKind::invalid_argument, "region {} is missing", i);
    if (const Status status = verify(*node.regions[i]); !status) {
      return status.error().within(fmt::format("region {}", i));
    }
  }
  if (node.op == Op::associative_scan && !node.regions.empty()) STITCH_TRY(verify_combiner(*node.regions[0]));
  STITCH_ASSIGN(const std::vector<TensorType> types,
                infer(node.op, operands, node.attributes, region_types(node.regions)));
  if (types != node.results)
    return make_error(ErrorKind::invalid_argument, "its recorded types are not what inference gives");
  return {};
}

}  // namespace

Status verify(const Graph& graph) {
  std::size_t parameters = 0;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (const Status status = verify_node(graph, id); !status) {
      return status.error().within(
          fmt::format("node {} ({} '{}')", id, to_string(graph.node(id).op), graph.node(id).name));
    }
    if (graph.node(id).op != Op::parameter) continue;
    if (parameters >= graph.parameters().size() || graph.parameters()[parameters] != id) {
      return make_error(ErrorKind::invalid_argument, "parameter node {} is not listed as argument {}", id, parameters);
    }
    ++parameters;
  }
  if (parameters != graph.parameters().size()) {
    return make_error(ErrorKind::invalid_argument, "{} parameter nodes, {} listed", parameters,
                      graph.parameters().size());
  }
  for (const Value& value : graph.results()) {
    if (value.node < 0 || value.node >= graph.size() || value.result < 0 ||
        value.result >= std::ssize(graph.node(value.node).results)) {
      return make_error(ErrorKind::invalid_argument, "result {}.{} does not exist", value.node, value.result);
    }
  }
  return {};
}

}  // namespace stitch::graph
