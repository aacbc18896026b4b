#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::search {

/// A set of vertices as bits.
class VertexSet {
 public:
  explicit VertexSet(std::size_t vertices = 0) : words_((vertices + 63) / 64, 0) {}

  void insert(int vertex) { words_[word(vertex)] |= bit(vertex); }
  void erase(int vertex) { words_[word(vertex)] &= ~bit(vertex); }
  [[nodiscard]] bool contains(int vertex) const { return (words_[word(vertex)] & bit(vertex)) != 0; }
  void merge(const VertexSet& other);
  void subtract(const VertexSet& other);
  [[nodiscard]] bool intersects(const VertexSet& other) const;
  /// Whether every vertex is in the other set too.
  [[nodiscard]] bool is_within(const VertexSet& other) const;
  /// Whether some vertex is in both others and not in this set.
  [[nodiscard]] bool misses_common(const VertexSet& a, const VertexSet& b) const;
  [[nodiscard]] int count() const;
  [[nodiscard]] std::vector<int> members() const;

  auto operator<=>(const VertexSet&) const = default;

 private:
  static std::size_t word(int vertex) { return static_cast<std::size_t>(vertex) / 64; }
  static std::uint64_t bit(int vertex) { return std::uint64_t{1} << (static_cast<unsigned>(vertex) % 64); }
  std::vector<std::uint64_t> words_;
};

/// The fragment as the fusion explorer sees it: vertices are the operators that can be kernels (all but attached ones,
/// see kernel_graph.h, and parameters), edges lead from producer to consumer, through attached operators too.
class VertexGraph {
 public:
  explicit VertexGraph(const graph::Graph& fragment);

  [[nodiscard]] int size() const { return nodes_.size(); }
  [[nodiscard]] graph::NodeId node(int vertex) const { return nodes_[vertex]; }
  [[nodiscard]] const std::vector<int>& consumers(int vertex) const { return consumers_[vertex]; }
  [[nodiscard]] const std::vector<int>& producers(int vertex) const { return producers_[vertex]; }
  /// Vertices that can be reached from a vertex, and those that reach it; neither holds the vertex itself.
  [[nodiscard]] const VertexSet& descendants(int vertex) const { return descendants_[vertex]; }
  [[nodiscard]] const VertexSet& ancestors(int vertex) const { return ancestors_[vertex]; }
  [[nodiscard]] const std::vector<bool>& attached() const { return attached_; }
  [[nodiscard]] const kernel::FragmentUses& uses() const { return uses_; }
  [[nodiscard]] const graph::Graph& fragment() const { return *fragment_; }

  /// Values that a vertex reads: of other vertices, or of parameters.
  [[nodiscard]] const std::vector<graph::Value>& reads(int vertex) const { return reads_[vertex]; }
  /// Vertex that computes a node, or -1.
  [[nodiscard]] int vertex_of(graph::NodeId node) const { return vertex_of_[node]; }
  [[nodiscard]] bool is_result(int vertex) const { return is_result_[vertex]; }

  [[nodiscard]] std::vector<graph::NodeId> nodes_of(const VertexSet& set) const;

 private:
  const graph::Graph* fragment_;
  kernel::FragmentUses uses_;
  std::vector<bool> attached_;
  std::vector<graph::NodeId> nodes_;
  std::vector<int> vertex_of_;
  std::vector<std::vector<int>> consumers_, producers_;
  std::vector<std::vector<graph::Value>> reads_;
  std::vector<VertexSet> descendants_, ancestors_;
  std::vector<bool> is_result_;
};

}  // namespace stitch::search
