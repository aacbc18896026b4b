#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace stitch::graph {

/// What a rule puts in place of a node: nothing (the node stays), or one value per result.
class Replacement {
 public:
  Replacement() = default;
  Replacement(std::nullopt_t) {}
  Replacement(Value value) : values_{value} {}
  Replacement(std::vector<Value> values) : values_(std::move(values)) {}

  explicit operator bool() const { return !values_.empty(); }
  [[nodiscard]] const std::vector<Value>& values() const { return values_; }

 private:
  std::vector<Value> values_;
};

/// The graph under construction, as a rule sees it.
///
/// References returned by node() and type() stay valid while nodes are added. Values are those of the new graph.
class Rewriter {
 public:
  /// Replaces a node whose operands are already values of the new graph. Must preserve the result types.
  using Rule = std::function<Replacement(Rewriter&, const Node&)>;

  [[nodiscard]] const Node& node(Value value) const { return *nodes_[value.node]; }
  [[nodiscard]] const TensorType& type(Value value) const { return node(value).type(value.result); }
  [[nodiscard]] const Dims& dims(Value value) const { return type(value).dims; }
  [[nodiscard]] DType dtype(Value value) const { return type(value).dtype; }
  [[nodiscard]] bool is(Value value, Op op) const { return node(value).op == op; }
  [[nodiscard]] Value operand(Value value, std::size_t i = 0) const { return node(value).operands[i]; }
  /// Nodes made so far; the next node gets this id.
  [[nodiscard]] NodeId size() const { return nodes_.size(); }
  /// How many operands and results of the graph refer to the node that makes `value`, those of nodes not yet visited
  /// included. What has been replaced in this rebuild may still be counted.
  [[nodiscard]] int uses(Value value) const { return uses_[value.node]; }

  /// Which results of the node that is being visited are used; all of them for a node that a rule has made.
  [[nodiscard]] std::vector<bool> used_results(const Node& visited) const;
  /// Which argument of the graph a parameter is; -1 for any other node.
  [[nodiscard]] int parameter_position(Value value) const { return positions_[value.node]; }

  /// Adds an operator. The rule is tried on it first, so that a rule may build what another of its cases simplifies;
  /// operators with several results stay as they are, {value.node, i} is result i.
  Value add(Op op, std::vector<Value> operands, Attributes attributes = {},
            std::vector<std::shared_ptr<const Graph>> regions = {});

  // Shorthands for add. Those that would do nothing return their operand; reshape, transpose and broadcast look
  // through an operand of their own kind.
  Value constant(ConstantAttributes value) { return add(Op::constant, {}, std::move(value)); }
  Value scalar(DType dtype, double value);
  Value scalar_integer(DType dtype, std::int64_t value);
  Value filled(const TensorType& type, double value);  ///< broadcast scalar
  Value unary(Op op, Value x) { return add(op, {x}); }
  Value binary(Op op, Value x, Value y) { return add(op, {x, y}); }
  Value convert(Value x, DType dtype);
  Value compare(Comparison direction, Value x, Value y) {
    return add(Op::compare, {x, y}, CompareAttributes{direction});
  }
  Value select(Value condition, Value yes, Value no) { return add(Op::select, {condition, yes, no}); }
  Value broadcast(Value x, Dims dims, Dims mapping);
  Value reshape(Value x, Dims dims);
  Value transpose(Value x, Dims permutation);
  Value reduce(ReduceKind kind, Value x, Dims dimensions);
  Value slice(Value x, Dims starts, Dims limits, Dims strides);
  Value concatenate(std::vector<Value> parts, std::int64_t dimension);

 private:
  friend Result<int> rewrite(Graph& graph, const Rule& rule);
  Rewriter(Graph& graph, const Rule& rule);

  Result<int> run(Graph& graph);
  Replacement apply(const Node& node);
  Value append(Node& node, int uses);
  [[nodiscard]] bool has_dead_nodes() const;
  void emit_live(Graph& graph, const std::vector<Value>& results);

  const Rule& rule_;
  std::vector<Node> from_;  // of the old graph; those kept stay here until the end
  std::vector<int> from_uses_;
  std::unordered_map<NodeId, std::vector<bool>> from_used_;  // per result, of nodes with several
  std::deque<Node> made_;                                    // by rules; stable references
  std::vector<Node*> nodes_;                                 // of the new graph, in from_ and made_
  std::vector<int> uses_;
  std::vector<int> positions_;
  int parameters_ = 0;
  std::string name_;  // of the node being rewritten: what is added for it inherits them
  std::int32_t line_ = 0;
  int depth_ = 0;
  int changes_ = 0;
  std::optional<Error> error_;
};

/// Rebuilds `graph`: calls `rule` for every node in topological order, its operands already replaced, and maps old
/// values to new ones; nodes that no result needs vanish, parameters stay. Returns how many nodes were replaced.
/// Names and lines go to what replaces a node. Error (internal): a rule built something ill-typed; the graph is gone.
Result<int> rewrite(Graph& graph, const Rewriter::Rule& rule);

}  // namespace stitch::graph
