#include "graph/passes/loops/loop_invariants.h"

#include <algorithm>

#include "graph/passes/regions.h"

namespace stitch::graph {
namespace {

enum class Kind : std::uint8_t {
  changing,
  closed,     ///< depends on nothing: left where it is (constants have been folded)
  invariant,  ///< depends on invariant parameters
};

/// Made from its operand for nothing: its operand is carried rather than it.
bool is_free(Op op) {
  return op == Op::broadcast || op == Op::reshape || op == Op::slice || op == Op::parameter ||
         op == Op::bitcast_convert;
}

}  // namespace

std::vector<Value> hoistable_values(const Graph& body, const std::vector<bool>& invariant_parameters) {
  std::vector<Kind> kinds(body.size(), Kind::closed);
  for (std::size_t i = 0; i < invariant_parameters.size(); ++i) {
    kinds[body.parameters()[i]] = invariant_parameters[i] ? Kind::invariant : Kind::changing;
  }
  std::vector<bool> wanted(body.size(), false);
  const auto want = [&](NodeId id) {
    while (is_free(body.node(id).op) && !body.node(id).operands.empty()) id = body.node(id).operands[0].node;
    if (!is_free(body.node(id).op) && kinds[id] == Kind::invariant) wanted[id] = true;
  };
  for (NodeId id = 0; id < body.size(); ++id) {
    const Node& node = body.node(id);
    for (const Value& operand : node.operands) {
      const Kind kind = kinds[operand.node];
      if (kind == Kind::changing || kinds[id] == Kind::changing)
        kinds[id] = Kind::changing;
      else if (kind == Kind::invariant)
        kinds[id] = Kind::invariant;
    }
    if (holds_opaque(node)) kinds[id] = Kind::changing;
    if (kinds[id] != Kind::changing) continue;
    for (const Value& operand : node.operands) want(operand.node);
  }
  for (const Value& result : body.results()) want(result.node);
  std::vector<Value> values;
  for (NodeId id = 0; id < body.size(); ++id) {
    if (wanted[id] && body.node(id).results.size() == 1) values.push_back({id, 0});
  }
  return values;
}

std::vector<Value> hoisted_outside(Rewriter& graph, const Graph& body, std::span<const Value> arguments,
                                   std::span<const Value> values) {
  std::vector<bool> needed(body.size(), false);
  for (const Value& value : values) needed[value.node] = true;
  for (NodeId id = body.size(); id-- > 0;) {
    if (!needed[id]) continue;
    for (const Value& operand : body.node(id).operands) needed[operand.node] = true;
  }
  std::vector<Value> copies(body.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) copies[body.parameters()[i]] = arguments[i];
  for (NodeId id = 0; id < body.size(); ++id) {
    const Node& node = body.node(id);
    if (!needed[id] || node.op == Op::parameter) continue;
    std::vector<Value> operands;
    for (const Value& operand : node.operands) {
      const Value first = copies[operand.node];
      operands.push_back({first.node, first.result + operand.result});
    }
    copies[id] = graph.add(node.op, std::move(operands), node.attributes, node.regions);
  }
  std::vector<Value> results;
  for (const Value& value : values) results.push_back(copies[value.node]);
  return results;
}

}  // namespace stitch::graph
