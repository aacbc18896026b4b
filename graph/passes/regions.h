#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/passes/rewriter.h"

namespace stitch::graph {

/// Whether a node is opaque or has an opaque one in its regions: two of them may differ in what they do not say.
bool holds_opaque(const Node& node);

/// Copies the nodes of `region` into the graph under construction, with `arguments` for its parameters; returns its
/// results there.
std::vector<Value> inline_region(Rewriter& graph, const Graph& region, std::span<const Value> arguments);

/// Whether `value` depends on nothing and costs nothing: a scalar constant, an iota, or their broadcasts and reshapes.
/// Such a value can be made again inside a region instead of being passed in.
bool is_closed(const Rewriter& graph, Value value);

/// A region with other parameters: nodes of the old one are copied once what stands for its parameters is known.
class RegionCopy {
 public:
  explicit RegionCopy(const Graph& from) : from_(from), copies_(from.size()) {}

  Value add_parameter(const TensorType& type, std::string name);
  /// A closed value of the graph around, made again.
  Value add_closed(const Rewriter& outer, Value value);
  /// Zeros, for what is not used.
  Value add_zeros(const TensorType& type);
  /// `value` stands for the only result of an old node, which is not copied.
  void bind(NodeId old, Value value) { copies_[old] = value; }
  /// Copies the nodes that are not bound and returns the region with these results of the old one, without what none of
  /// them needs.
  std::shared_ptr<const Graph> finish(std::span<const Value> old_results, std::span<const Value> more_results = {});

 private:
  const Graph& from_;
  Graph to_;
  std::vector<std::optional<Value>> copies_;  // by old node: its first result
};

}  // namespace stitch::graph
