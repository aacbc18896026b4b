#pragma once

#include <cstdint>
#include <vector>

namespace stitch::search {

/// Minimum s-t cut of a small directed network (Dinic's algorithm); boundary.cpp divides two kernels by it.
///
/// kernel/program/holding.cpp has a cut of its own: it cuts one large network, the items of a group, many times, once
/// between every two sweeps, and finds each cut near the boundary without building or looking at the network as a
/// whole. Here networks are small and each is cut once.
class MinCut {
 public:
  static constexpr std::int64_t infinite = std::int64_t{1} << 50;

  explicit MinCut(int nodes) : first_(nodes) {}
  void edge(int from, int to, std::int64_t capacity);
  /// Whether each node is on the source's side of a minimum cut (the side nearest the source).
  std::vector<bool> source_side(int source, int sink);
  /// After source_side: whether each node is on the source's side of the minimum cut that is nearest the sink.
  [[nodiscard]] std::vector<bool> far_source_side(int sink) const;

 private:
  struct Edge {
    int to;
    std::int64_t left;
  };
  bool label(int source, int sink);
  std::int64_t push(int node, int sink, std::int64_t limit);

  std::vector<Edge> edges_;  ///< edge 2i and its reverse 2i + 1
  std::vector<std::vector<int>> first_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

}  // namespace stitch::search
