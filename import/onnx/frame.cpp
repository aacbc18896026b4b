#include "import/onnx/frame.h"

#include <algorithm>

#include "graph/reference/evaluate.h"

namespace stitch::import::onnx {
namespace {

using graph::ConstantAttributes;
using graph::NodeId;
using graph::Op;
using graph::Value;

constexpr std::int64_t most_folded_elements = std::int64_t{1} << 22;
constexpr std::int64_t copied_constant_bytes = 64;

}  // namespace

void Frame::tell(Value parameter, ConstantAttributes value, Known known) {
  told_.insert_or_assign(parameter.node, std::pair{std::move(value), known});
}

Known Frame::classify(NodeId id) {
  const graph::Node& node = builder.graph().node(id);
  switch (node.op) {
    case Op::parameter: {
      if (const auto told = told_.find(id); told != told_.end()) return told->second.second;
      const auto captured = captured_.find(id);
      return captured == captured_.end() ? Known::no : parent_->known(captured->second);
    }
    // Regions are not looked into: a loop whose result decides a shape is beyond static shapes.
    case Op::opaque:
    case Op::loop:
    case Op::conditional: return Known::no;
    default: break;
  }
  Known known = Known::constant;
  for (const Value& operand : node.operands) known = std::min(known, known_[operand.node]);
  return known;
}

void Frame::classify() {
  for (NodeId id = known_.size(); id < builder.graph().size(); ++id) {
    known_.push_back(classify(id));
  }
}

Known Frame::known(Value value) {
  if (value.node < 0 || value.node >= builder.graph().size()) return Known::no;
  classify();
  return known_[value.node];
}

std::optional<ConstantAttributes> Frame::leaf(NodeId id) {
  const graph::Node& node = builder.graph().node(id);
  if (node.op == Op::constant) return node.as<ConstantAttributes>();
  if (const auto told = told_.find(id); told != told_.end()) return told->second.first;
  if (const auto captured = captured_.find(id); captured != captured_.end()) {
    return parent_->evaluate(captured->second, Known::assumed);
  }
  return std::nullopt;
}

std::optional<ConstantAttributes> Frame::evaluate(Value value, Known least) {
  if (known(value) < least || known(value) == Known::no) return std::nullopt;
  if (const auto found = evaluated_.find(value); found != evaluated_.end()) return found->second;
  if (std::optional<ConstantAttributes> constant = leaf(value.node)) return constant;

  const graph::Graph& graph = builder.graph();
  // The cone of `value`, cut where it has been evaluated before. Node numbers are a topological order.
  std::vector<Value> wanted{value};
  std::map<NodeId, Value> copies;
  std::vector<NodeId> cone;
  std::int64_t elements = 0;
  while (!wanted.empty()) {
    const Value next = wanted.back();
    wanted.pop_back();
    if (evaluated_.contains(next) || copies.contains(next.node)) continue;
    copies.emplace(next.node, Value{});
    cone.push_back(next.node);
    const graph::Node& node = graph.node(next.node);
    for (const graph::TensorType& type : node.results) elements += type.elements();
    if (elements > most_folded_elements) return std::nullopt;
    wanted.insert(wanted.end(), node.operands.begin(), node.operands.end());
  }
  std::sort(cone.begin(), cone.end());

  graph::Graph program;
  const auto copy_of = [&](const Value& operand) -> Value {
    if (const auto done = evaluated_.find(operand); done != evaluated_.end() && !copies.contains(operand.node)) {
      return program.add_unchecked({Op::constant, {}, done->second, {done->second.type}, {}, {}, 0});
    }
    return {copies.at(operand.node).node, operand.result};
  };
  for (const NodeId id : cone) {
    graph::Node node = graph.node(id);
    if (std::optional<ConstantAttributes> constant = leaf(id)) {
      node = {Op::constant, {}, std::move(*constant), node.results, {}, {}, 0};
    } else if (node.op == Op::parameter) {
      return std::nullopt;
    }
    for (Value& operand : node.operands) operand = copy_of(operand);
    copies[id] = program.add_unchecked(std::move(node));
  }
  program.set_results({{copies.at(value.node).node, value.result}});
  graph::EvaluateOptions options;
  options.round = true;
  const Result<std::vector<graph::Tensor>> results = graph::evaluate(program, {}, options);
  if (!results) return std::nullopt;
  return evaluated_.emplace(value, graph::constant_from(results->front())).first->second;
}

Value Frame::import(Frame& owner, Value value) {
  if (&owner == this || parent_ == nullptr) return value;
  const Value outer = parent_->import(owner, value);
  for (const Capture& capture : captures_) {
    if (capture.outer == outer) return capture.inner;
  }
  const graph::Node& node = parent_->builder.graph().node(outer.node);
  Value inner;
  if (node.op == Op::constant && node.type().bytes() <= copied_constant_bytes) {
    return builder.constant(node.as<ConstantAttributes>());
  }
  const graph::TensorType& type = node.type(outer.result);
  inner = builder.parameter(type.dtype, type.dims, node.name);
  if (inner.node < 0) return inner;
  captures_.push_back({outer, inner});
  captured_.emplace(inner.node, outer);
  return inner;
}

}  // namespace stitch::import::onnx
