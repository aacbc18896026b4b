#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/attributes.h"
#include "graph/constraints.h"
#include "graph/infer.h"
#include "graph/op.h"
#include "graph/tensor_type.h"

// The one intermediate representation. A Graph is a list of nodes, each an operator applied to values of nodes before
// it; docs/ir.md defines the operators. Printed (graph/print.h), the mean of each of 8 rows is
//
//     %0 = parameter f32[8,768]
//     %1 = reduce f32[8] %0 {kind=sum, dimensions=[1]}
//     %2 = constant f32[] {768}
//     %3 = broadcast f32[8] %2 {dims=[8], mapping=[]}
//     %4 = divide f32[8] %1, %3
//     return %4
//
// Importers make graphs through Builder (graph/builder.h); passes (graph/simplify.h) rewrite them; cut (graph/cut.h)
// divides a model's into fragments, which search/ and codegen/ turn into kernels; the evaluator
// (graph/reference/evaluate.h) says what one computes, and canonicalise (graph/canonical.h) which are equal.

namespace stitch::graph {

class Graph;

/// Index of a node in its graph.
using NodeId = std::int32_t;

/// One result of one node.
struct Value {
  NodeId node = -1;
  std::int32_t result = 0;

  auto operator<=>(const Value&) const = default;
};

/// One operator application.
struct Node {
  Op op = Op::parameter;
  std::vector<Value> operands;
  Attributes attributes;
  std::vector<TensorType> results;                    ///< inferred; see graph/infer.h
  std::vector<std::shared_ptr<const Graph>> regions;  ///< loop: body, condition; conditional: one per branch
  std::string name;                                   ///< where it came from; never part of a key
  std::int32_t line = 0;                              ///< line of the source file, 0 when there is none

  [[nodiscard]] const TensorType& type(std::int32_t result = 0) const { return results[result]; }
  /// The attributes as the struct that the operator uses.
  template <class A>
  [[nodiscard]] const A& as() const {
    return std::get<A>(attributes);
  }
};

/// The one intermediate representation: a directed acyclic graph of operators in SSA form.
///
/// Invariants (graph/verify.h checks them):
///  1. nodes are in topological order: a node's operands come before it;
///  2. `parameters` lists every parameter node once, in argument order;
///  3. every node's attributes are the alternative of its operator, and `results` is what inference gives;
///  4. every value in `results` exists.
/// Plain value type: copying copies the nodes (regions are shared and immutable).
class Graph {
 public:
  std::string name;
  Constraints constraints;  ///< on how it is computed; regions have those of the graph around them

  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[id]; }
  [[nodiscard]] NodeId size() const { return nodes_.size(); }
  [[nodiscard]] const TensorType& type(Value value) const { return node(value.node).type(value.result); }
  [[nodiscard]] std::span<const NodeId> parameters() const { return parameters_; }
  [[nodiscard]] std::span<const Value> results() const { return results_; }

  /// Appends a node; infers its result types. Errors name the node and the attribute or operand at fault.
  Result<Value> add(Op op, std::vector<Value> operands, Attributes attributes = {}, std::string name = {},
                    std::int32_t line = 0, std::vector<std::shared_ptr<const Graph>> regions = {});

  /// Appends a node whose types the caller already knows to be right (passes that copy nodes).
  Value add_unchecked(Node node);

  void set_results(std::vector<Value> results) { results_ = std::move(results); }
  void add_result(Value value) { results_.push_back(value); }
  void set_name(NodeId id, std::string text) { nodes_[id].name = std::move(text); }

  /// The nodes, for a pass to work on; nothing but name and constraints are left in this graph. adopt_nodes takes nodes
  /// (these or others) whose types the caller knows to be right; results are set anew.
  std::vector<Node> release_nodes();
  void adopt_nodes(std::vector<Node> nodes);

 private:
  std::vector<Node> nodes_;
  std::vector<NodeId> parameters_;
  std::vector<Value> results_;
};

/// What inference has to know of regions; a null pointer is a region that is missing.
std::vector<RegionTypes> region_types(std::span<const std::shared_ptr<const Graph>> regions);

/// The dimensions of its operand that a reduce, an arg-reduce or a max-exp-sum combines; nothing of another operator.
std::optional<Dims> reduced_dimensions(const Node& node);

/// For every node, the nodes that use one of its results, ascending, without repeats.
std::vector<std::vector<NodeId>> users(const Graph& graph);

/// For every node, whether one of its results is a result of the graph.
std::vector<bool> is_result(const Graph& graph);

/// A graph or one of the regions inside it.
struct RegionSite {
  const Graph& graph;
  std::int64_t occurrences = 1;  ///< how often it runs when the outermost graph runs once
  std::string path;              ///< "/name of the node.number of the region", from the outside in
  bool is_loop_body = false;
};

/// Calls `visit` for the graph and, depth first, for the regions of its nodes. A loop's body occurs by the trip count
/// (1 when unknown), times the occurrences of the graph around it; its condition as often while the count is unknown
/// and 0 times when it is known. An associative-scan's combiner is none of them. Regions of nodes for which `enters`,
/// asked after the visit of their graph, says no are left out.
void for_each_region(const Graph& graph, const std::function<void(const RegionSite&)>& visit,
                     const std::function<bool(const Graph&, NodeId)>& enters = {});

/// Number of operators, regions included, leaving out parameters and constants.
std::int64_t operator_count(const Graph& graph);

}  // namespace stitch::graph
