#include "kernel/rewrite/rewriting.h"

#include <utility>

#include "graph/builder.h"
#include "graph/passes/common_subexpressions.h"
#include "graph/passes/dead_code.h"

namespace stitch::kernel {

using graph::Graph;
using graph::Value;

Rewriting::Rewriting(const Graph& kernel) : kernel_(kernel) {
  graph_.name = kernel.name;
  graph_.constraints = kernel.constraints;
}

void Rewriting::take_over(graph::NodeId id) {
  graph::Node node = kernel_.node(id);
  for (Value& operand : node.operands) operand = at_.at(operand);
  const std::int32_t results = std::ssize(node.results);
  const Value first = graph_.add_unchecked(std::move(node));
  for (std::int32_t r = 0; r < results; ++r) at_[{id, r}] = {first.node, r};
}

Value Rewriting::add(graph::Op op, std::vector<Value> operands, graph::Attributes attributes) {
  const auto added = graph_.add(op, std::move(operands), std::move(attributes));
  failed_ = failed_ || !added;
  return added ? *added : Value{};
}

Value Rewriting::filled(graph::DType dtype, const graph::Dims& dims, double value) {
  graph::Builder one;
  const Value scalar = one.scalar(dtype, value);
  const Value constant = graph_.add_unchecked(one.graph().node(scalar.node));
  return dims.empty() ? constant : add(graph::Op::broadcast, {constant}, graph::BroadcastAttributes{dims, {}});
}

std::optional<Graph> Rewriting::finish() {
  for (const Value result : kernel_.results()) graph_.add_result(at_.at(result));
  failed_ = failed_ || !graph::remove_dead_code(graph_, {}) || !graph::merge_common_subexpressions(graph_, {});
  if (failed_) return std::nullopt;
  return std::move(graph_);
}

}  // namespace stitch::kernel
