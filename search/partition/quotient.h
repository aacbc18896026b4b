#pragma once

#include <set>
#include <vector>

#include "search/partition/vertex_graph.h"

namespace stitch::search {

/// The quotient graph of a partition: which parts must run before which. Parts that are empty, and vertices of none,
/// are allowed.
class Quotient {
 public:
  Quotient(const VertexGraph& vertices, const std::vector<VertexSet>& parts);

  [[nodiscard]] bool has_edge(int a, int b) const { return next_[a].contains(b); }
  /// Whether a and b can be one part: no way leads from one to the other through some third.
  [[nodiscard]] bool mergeable(int a, int b) const { return !indirect(a, b) && !indirect(b, a); }
  /// Makes b a part of a; b is empty from now on.
  void join(int a, int b);
  /// Parts in an order in which they can run; empty when there is a cycle. Ties by number.
  [[nodiscard]] std::vector<int> order() const;
  /// Longest way from a part without predecessors.
  [[nodiscard]] std::vector<int> depths() const;

 private:
  [[nodiscard]] bool indirect(int a, int b) const;

  std::vector<std::set<int>> next_;
};

}  // namespace stitch::search
