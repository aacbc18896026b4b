#include "graph/passes/regions.h"

#include <algorithm>
#include <cassert>

#include "graph/literal.h"
#include "graph/passes/dead_code.h"

namespace stitch::graph {
namespace {}  // namespace

bool holds_opaque(const Node& node) {
  return node.op == Op::opaque || std::any_of(node.regions.begin(), node.regions.end(), [](const auto& region) {
           return std::any_of(region->nodes().begin(), region->nodes().end(), holds_opaque);
         });
}

std::vector<Value> inline_region(Rewriter& graph, const Graph& region, std::span<const Value> arguments) {
  std::vector<Value> copies(region.size());  // first results
  for (std::size_t i = 0; i < arguments.size(); ++i) copies[region.parameters()[i]] = arguments[i];
  const auto copied = [&](const Value& old) {
    const Value first = copies[old.node];
    return Value{first.node, first.result + old.result};
  };
  for (NodeId id = 0; id < region.size(); ++id) {
    const Node& node = region.node(id);
    if (node.op == Op::parameter) continue;
    std::vector<Value> operands;
    for (const Value& operand : node.operands) operands.push_back(copied(operand));
    copies[id] = graph.add(node.op, std::move(operands), node.attributes, node.regions);
  }
  std::vector<Value> results;
  for (const Value& result : region.results()) results.push_back(copied(result));
  return results;
}

bool is_closed(const Rewriter& graph, Value value) {
  while (graph.is(value, Op::broadcast) || graph.is(value, Op::reshape)) value = graph.operand(value);
  return graph.is(value, Op::iota) || (graph.is(value, Op::constant) && graph.type(value).elements() == 1);
}

Value RegionCopy::add_parameter(const TensorType& type, std::string name) {
  return to_.add_unchecked({Op::parameter, {}, ParameterAttributes{type}, {type}, {}, std::move(name), 0});
}

Value RegionCopy::add_closed(const Rewriter& outer, Value value) {
  Node node = outer.node(value);
  for (Value& operand : node.operands) operand = add_closed(outer, operand);
  return to_.add_unchecked(std::move(node));
}

Value RegionCopy::add_zeros(const TensorType& type) {
  const TensorType scalar{type.dtype, {}};
  const Value zero = to_.add_unchecked({Op::constant, {}, splat(scalar, 0), {scalar}, {}, {}, 0});
  if (type.rank() == 0) return zero;
  return to_.add_unchecked({Op::broadcast, {zero}, BroadcastAttributes{type.dims, {}}, {type}, {}, {}, 0});
}

std::shared_ptr<const Graph> RegionCopy::finish(std::span<const Value> old_results,
                                                std::span<const Value> more_results) {
  const auto copied = [&](const Value& old) {
    const Value first = *copies_[old.node];
    return Value{first.node, first.result + old.result};
  };
  for (NodeId id = 0; id < from_.size(); ++id) {
    if (copies_[id]) continue;
    Node node = from_.node(id);
    for (Value& operand : node.operands) operand = copied(operand);
    copies_[id] = to_.add_unchecked(std::move(node));
  }
  for (const Value& result : old_results) to_.add_result(copied(result));
  for (const Value& result : more_results) to_.add_result(result);
  to_.name = from_.name;
  to_.constraints = from_.constraints;
  [[maybe_unused]] const Result<int> removed = remove_dead_code(to_, {});
  assert(removed.ok() && "it builds nothing that could be wrong");
  return std::make_shared<const Graph>(std::move(to_));
}

}  // namespace stitch::graph
