#pragma once

#include <vector>

#include "search/partition/vertex_graph.h"

namespace stitch::search {

/// Sets of vertices that are not worth exploring as one kernel: those with too long a chain of operators, and those
/// that hold a set which was found to be too large.
class PartLimits {
 public:
  explicit PartLimits(const VertexGraph& vertices) : vertices_(vertices) {}

  [[nodiscard]] bool allows(const VertexSet& set) const { return !is_too_deep(set) && !holds_infeasible(set); }
  /// Remembers a union of neighbours that fits no kernel, if it is for its size: a small one may have other reasons.
  void note_infeasible(VertexSet set);

 private:
  [[nodiscard]] bool is_too_deep(const VertexSet& set) const;
  [[nodiscard]] bool holds_infeasible(const VertexSet& set) const;

  const VertexGraph& vertices_;
  std::vector<VertexSet> infeasible_;
};

}  // namespace stitch::search
