#pragma once

#include <stop_token>
#include <vector>

#include "search/partition/delta_evaluator.h"
#include "search/partition/vertex_graph.h"

namespace stitch::search {

/// A candidate kernel: a convex set of vertices and its score.
struct Pattern {
  VertexSet vertices;
  VertexSet reach_down, reach_up;  ///< union of its members' descendants and ancestors
  double gain_us = 0;

  /// No way leads out of the pattern and back in.
  [[nodiscard]] bool is_convex() const { return !vertices.misses_common(reach_down, reach_up); }
};

struct PatternOptions {
  int per_vertex = 3;      ///< patterns kept per vertex (FusionStitching's k)
  int group = 3;           ///< consumers whose combinations are enumerated together
  int max_vertices = 192;  ///< of one pattern
};

/// Patterns that start at each vertex, best first, found in post-order: a vertex's patterns extend those of its
/// consumers. Pattern reduction keeps it linear: consumers are taken in small groups, the best combinations of each are
/// kept and merged pairwise (FusionStitching §5.2). Vertices of equal height are handled in parallel; the result does
/// not depend on the number of threads. When `stop` fires, what is found is of no use.
std::vector<std::vector<Pattern>> generate_patterns(const VertexGraph& vertices, const DeltaEvaluator& evaluator,
                                                    const PatternOptions& options, const std::stop_token& stop = {});

/// The pattern of one vertex.
Pattern single(const VertexGraph& vertices, int vertex);
/// Union of two patterns, unscored.
Pattern united(const Pattern& a, const Pattern& b);

}  // namespace stitch::search
