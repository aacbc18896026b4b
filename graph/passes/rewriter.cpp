#include "graph/passes/rewriter.h"

#include <algorithm>

#include "graph/infer.h"
#include "graph/literal.h"

namespace stitch::graph {
namespace {

// Rules that build what they rewrite converge in a few steps; deeper nesting is left to the next round of the pass.
constexpr int most_nested_rules = 12;

}  // namespace

Rewriter::Rewriter(Graph& graph, const Rule& rule) : rule_(rule) {
  from_uses_.assign(graph.size(), 0);
  std::vector<bool> has_several(graph.size(), false);
  const auto use = [&](const Value& value) {
    ++from_uses_[value.node];
    if (has_several[value.node]) from_used_[value.node][value.result] = true;
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    for (const Value& operand : node.operands) use(operand);
    if (node.results.size() < 2) continue;
    has_several[id] = true;
    from_used_[id].resize(node.results.size(), false);
  }
  for (const Value& value : graph.results()) use(value);
}

std::vector<bool> Rewriter::used_results(const Node& visited) const {
  const bool is_old = !from_.empty() && &visited >= &from_.front() && &visited <= &from_.back();
  if (!is_old || visited.results.size() < 2) return std::vector<bool>(visited.results.size(), true);
  return from_used_.at(&visited - &from_.front());
}

Value Rewriter::append(Node& node, int uses) {
  positions_.push_back(node.op == Op::parameter ? parameters_++ : -1);
  uses_.push_back(uses);
  nodes_.push_back(&node);
  return {size() - 1, 0};
}

Replacement Rewriter::apply(const Node& node) {
  if (depth_ >= most_nested_rules || error_) return {};
  ++depth_;
  Replacement replacement = rule_(*this, node);
  --depth_;
  if (!replacement) return replacement;
  std::vector<TensorType> types;
  for (const Value& value : replacement.values()) types.push_back(type(value));
  if (types != node.results && !error_) {
    error_ = make_error(ErrorKind::internal, "{} '{}' of type {} was replaced by {} of type {}", to_string(node.op),
                        node.name, to_string(node.results[0]), to_string(this->node(replacement.values()[0]).op),
                        to_string(types[0]));
  }
  return replacement;
}

Value Rewriter::add(Op op, std::vector<Value> operands, Attributes attributes,
                    std::vector<std::shared_ptr<const Graph>> regions) {
  std::vector<TensorType> types;
  types.reserve(operands.size());
  for (const Value& operand : operands) types.push_back(type(operand));
  Result<std::vector<TensorType>> results = infer(op, types, attributes, region_types(regions));
  if (!results) {
    if (!error_) error_ = results.error().within(fmt::format("{} made for '{}'", to_string(op), name_));
    results = std::vector<TensorType>{TensorType{}};
  }
  Node node{op, std::move(operands), std::move(attributes), std::move(*results), std::move(regions), name_, line_};
  if (node.results.size() == 1) {
    if (const Replacement replacement = apply(node)) return replacement.values()[0];
  }
  for (const Value& operand : node.operands) ++uses_[operand.node];
  made_.push_back(std::move(node));
  return append(made_.back(), 0);
}

Value Rewriter::scalar(DType dtype, double value) { return constant(splat({dtype, {}}, value)); }

Value Rewriter::scalar_integer(DType dtype, std::int64_t value) {
  return constant(dense_integers({dtype, {}}, std::span(&value, 1)));
}

Value Rewriter::filled(const TensorType& type, double value) {
  return broadcast(scalar(type.dtype, value), type.dims, {});
}

Value Rewriter::convert(Value x, DType to) { return dtype(x) == to ? x : add(Op::convert, {x}, ConvertAttributes{to}); }

Value Rewriter::broadcast(Value x, Dims to, Dims mapping) {
  if (dims(x) == to) return x;
  if (is(x, Op::broadcast)) {
    Dims composed = node(x).as<BroadcastAttributes>().mapping;
    for (std::int64_t& d : composed) d = mapping[d];
    return broadcast(operand(x), std::move(to), std::move(composed));
  }
  return add(Op::broadcast, {x}, BroadcastAttributes{std::move(to), std::move(mapping)});
}

Value Rewriter::reshape(Value x, Dims to) {
  while (is(x, Op::reshape)) x = operand(x);
  return dims(x) == to ? x : add(Op::reshape, {x}, ReshapeAttributes{std::move(to)});
}

Value Rewriter::transpose(Value x, Dims permutation) {
  if (is(x, Op::transpose)) {
    const Dims& inner = node(x).as<TransposeAttributes>().permutation;
    for (std::int64_t& d : permutation) d = inner[d];
    return transpose(operand(x), std::move(permutation));
  }
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  return add(Op::transpose, {x}, TransposeAttributes{std::move(permutation)});
}

Value Rewriter::reduce(ReduceKind kind, Value x, Dims dimensions) {
  if (dimensions.empty()) return x;
  return add(Op::reduce, {x}, ReduceAttributes{kind, std::move(dimensions)});
}

Value Rewriter::slice(Value x, Dims starts, Dims limits, Dims strides) {
  const bool whole = limits == dims(x) && std::all_of(starts.begin(), starts.end(), [](auto s) { return s == 0; }) &&
                     std::all_of(strides.begin(), strides.end(), [](auto s) { return s == 1; });
  if (whole) return x;
  return add(Op::slice, {x}, SliceAttributes{std::move(starts), std::move(limits), std::move(strides)});
}

Value Rewriter::concatenate(std::vector<Value> parts, std::int64_t dimension) {
  return parts.size() == 1 ? parts[0] : add(Op::concatenate, std::move(parts), ConcatenateAttributes{dimension});
}

Result<int> Rewriter::run(Graph& graph) {
  std::vector<Value> results(graph.results().begin(), graph.results().end());
  from_ = graph.release_nodes();
  nodes_.reserve(from_.size());
  uses_.reserve(from_.size());
  positions_.reserve(from_.size());
  std::vector<std::size_t> first(from_.size());  // of a node's results in `mapped`
  std::vector<Value> mapped;
  mapped.reserve(from_.size());
  const auto now = [&](const Value& old) { return mapped[first[old.node] + old.result]; };
  for (std::size_t id = 0; id < from_.size(); ++id) {
    Node& node = from_[id];
    for (Value& operand : node.operands) operand = now(operand);
    name_ = node.name;
    line_ = node.line;
    first[id] = mapped.size();
    if (const Replacement replacement = apply(node)) {
      ++changes_;
      for (const Value& operand : node.operands) --uses_[operand.node];
      for (const Value& value : replacement.values()) uses_[value.node] += from_uses_[id];
      mapped.insert(mapped.end(), replacement.values().begin(), replacement.values().end());
      continue;
    }
    const std::int32_t count = node.results.size();
    const Value value = append(node, from_uses_[id]);
    for (std::int32_t i = 0; i < count; ++i) mapped.push_back({value.node, i});
  }
  if (error_) return *error_;
  for (Value& value : results) value = now(value);
  if (changes_ == 0 && made_.empty() && !has_dead_nodes()) {  // nothing has moved
    graph.adopt_nodes(std::move(from_));
    graph.set_results(std::move(results));
  } else {
    emit_live(graph, results);
  }
  return changes_;
}

/// Whether the old graph has nodes that no result needs: the last of them are used by nobody.
bool Rewriter::has_dead_nodes() const {
  for (std::size_t id = 0; id < from_.size(); ++id) {
    if (from_uses_[id] == 0 && from_[id].op != Op::parameter) return true;
  }
  return false;
}

void Rewriter::emit_live(Graph& graph, const std::vector<Value>& results) {
  std::vector<bool> live(nodes_.size(), false);
  for (const Value& value : results) live[value.node] = true;
  std::size_t count = 0;
  for (std::size_t id = nodes_.size(); id-- > 0;) {
    if (nodes_[id]->op == Op::parameter) live[id] = true;
    if (!live[id]) continue;
    ++count;
    for (const Value& operand : nodes_[id]->operands) live[operand.node] = true;
  }
  std::vector<NodeId> position(nodes_.size(), -1);
  std::vector<Node> nodes;
  nodes.reserve(count);
  for (std::size_t id = 0; id < nodes_.size(); ++id) {
    if (!live[id]) continue;
    for (Value& operand : nodes_[id]->operands) operand.node = position[operand.node];
    position[id] = nodes.size();
    nodes.push_back(std::move(*nodes_[id]));
  }
  graph.adopt_nodes(std::move(nodes));
  for (const Value& value : results) graph.add_result({position[value.node], value.result});
}

Result<int> rewrite(Graph& graph, const Rewriter::Rule& rule) { return Rewriter(graph, rule).run(graph); }

}  // namespace stitch::graph
