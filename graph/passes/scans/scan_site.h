#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "graph/passes/scans/scan_combiner.h"

namespace stitch::graph {

/// A slice of one dimension, all of the others.
struct LineSlice {
  std::size_t dimension;
  std::int64_t start, stride, count;
};
std::optional<LineSlice> line_slice(const Graph& graph, const Node& node);

/// Whether a scalar is the constant 0.
bool fills_with_zero(const Graph& graph, Value scalar);

/// Values of one shape whose neighbours along a dimension are combined with one another: where a scan may begin that is
/// written out as a recursion.
struct Neighbours {
  std::size_t dimension = 0;
  std::vector<Value> components;  ///< in order of their nodes
  std::map<Value, int> leaves;    ///< slices of even elements by component, of odd ones behind them
  std::vector<NodeId> operators;  ///< element-wise ones on nothing but the leaves and splats
  [[nodiscard]] std::int64_t length(const Graph& graph) const { return graph.type(components[0]).dims[dimension]; }
};

/// By node, whether the graph's results need it once each of these values is computed from the values given for it.
std::vector<bool> still_needed(const Graph& graph, const std::map<Value, std::vector<Value>>& replaced);

/// All neighbours that a graph combines, the longest lines first.
std::vector<Neighbours> find_neighbours(const Graph& graph);

/// The scanned elements, first to last, of which one element of a value is the combination; first -1: the zero of a
/// pad.
struct Range {
  std::int32_t first, last;
  bool operator==(const Range&) const = default;
};
struct Followed {
  int component;
  std::vector<Range> ranges;  ///< along the scanned dimension
};

/// Follows the elements of the components through the graph: slices, concatenations and pads move them, the combiner
/// joins them. The references must outlive it.
class RangeWalk {
 public:
  RangeWalk(const Graph& graph, const Neighbours& site, const ScanCombiner& combiner)
      : graph_(graph), site_(site), combiner_(combiner) {}

  /// Follows the components; the values that are the scan, by component.
  std::map<Value, int> scans();
  /// Follows the elements of another value of the components' shape, which is component number `components()` from
  /// then on; nothing combines it. What an earlier call has followed is forgotten.
  void follow(Value other);
  [[nodiscard]] int components() const { return combiner_.components(); }
  /// What is known of a value; null when nothing is.
  [[nodiscard]] const Followed* of(Value value) const;

 private:
  [[nodiscard]] Followed whole(int component) const;
  [[nodiscard]] std::optional<Followed> moved(const Node& node) const;
  [[nodiscard]] std::optional<Followed> combined(NodeId id) const;
  [[nodiscard]] std::optional<Followed> slice(const Node& node) const;
  [[nodiscard]] std::optional<Followed> concatenate(const Node& node) const;
  [[nodiscard]] std::optional<Followed> pad(const Node& node) const;
  [[nodiscard]] std::optional<Followed> interleave(const Node& node) const;
  [[nodiscard]] std::optional<Followed> join(int component, Value root) const;

  const Graph& graph_;
  const Neighbours& site_;
  const ScanCombiner& combiner_;
  std::map<Value, Followed> followed_;
};

}  // namespace stitch::graph
