#include "search/partition/patterns.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>

namespace stitch::search {
namespace {

/// Best first; equal gains by content, so that the order never depends on how candidates were found.
bool better(const Pattern& a, const Pattern& b) {
  if (a.gain_us != b.gain_us) return a.gain_us > b.gain_us;
  return a.vertices < b.vertices;
}

class Reducer {
 public:
  Reducer(const VertexGraph& vertices, const DeltaEvaluator& evaluator, const PatternOptions& options)
      : vertices_(vertices), evaluator_(evaluator), options_(options) {}

  std::vector<Pattern> reduce(int vertex, const std::vector<std::vector<Pattern>>& known) const {
    const std::vector<int>& consumers = vertices_.consumers(vertex);
    std::vector<Pattern> best = {single(vertices_, vertex)};
    for (std::size_t first = 0; first < consumers.size(); first += static_cast<std::size_t>(options_.group)) {
      const std::size_t last = std::min(consumers.size(), first + static_cast<std::size_t>(options_.group));
      // Combinations within the group, always with the vertex itself.
      std::vector<Pattern> group = {single(vertices_, vertex)};
      for (std::size_t c = first; c < last; ++c) {
        const std::size_t before = group.size();
        for (const Pattern& pattern : known[consumers[c]]) {
          for (std::size_t i = 0; i < before; ++i) extend(group, group[i], pattern);
        }
      }
      keep(group);
      // Pairwise with what earlier groups gave.
      std::vector<Pattern> merged = best;
      merged.insert(merged.end(), group.begin(), group.end());
      for (const Pattern& a : best) {
        for (const Pattern& b : group) extend(merged, a, b);
      }
      keep(merged);
      best = std::move(merged);
    }
    return best;
  }

 private:
  void extend(std::vector<Pattern>& list, const Pattern& a, const Pattern& b) const {
    Pattern both = united(a, b);
    if (both.vertices == a.vertices || both.vertices.count() > options_.max_vertices || !both.is_convex()) return;
    both.gain_us = evaluator_.gain_us(both.vertices);
    list.push_back(std::move(both));
  }

  void keep(std::vector<Pattern>& list) const {
    std::sort(list.begin(), list.end(), better);
    list.erase(std::unique(list.begin(), list.end(),
                           [](const Pattern& a, const Pattern& b) { return a.vertices == b.vertices; }),
               list.end());
    if (std::ssize(list) > options_.per_vertex) list.resize(options_.per_vertex);
  }

  const VertexGraph& vertices_;
  const DeltaEvaluator& evaluator_;
  const PatternOptions& options_;
};

}  // namespace

Pattern single(const VertexGraph& vertices, int vertex) {
  Pattern pattern{VertexSet(vertices.size()), vertices.descendants(vertex), vertices.ancestors(vertex), 0};
  pattern.vertices.insert(vertex);
  return pattern;
}

Pattern united(const Pattern& a, const Pattern& b) {
  Pattern both = a;
  both.vertices.merge(b.vertices);
  both.reach_down.merge(b.reach_down);
  both.reach_up.merge(b.reach_up);
  return both;
}

std::vector<std::vector<Pattern>> generate_patterns(const VertexGraph& vertices, const DeltaEvaluator& evaluator,
                                                    const PatternOptions& options, const std::stop_token& stop) {
  const int n = vertices.size();
  std::vector<std::vector<Pattern>> patterns(n);
  // Height: longest way to a vertex without consumers. All consumers of a vertex are lower than it.
  std::vector<int> height(n, 0);
  int highest = 0;
  for (int v = n; v-- > 0;) {
    for (const int consumer : vertices.consumers(v)) height[v] = std::max(height[v], height[consumer] + 1);
    highest = std::max(highest, height[v]);
  }
  std::vector<std::vector<int>> by_height(highest + 1);
  for (int v = 0; v < n; ++v) by_height[height[v]].push_back(v);
  const Reducer reducer(vertices, evaluator, options);
  for (const std::vector<int>& level : by_height) {
    if (stop.stop_requested()) break;
    tbb::parallel_for(std::size_t{0}, level.size(),
                      [&](std::size_t i) { patterns[level[i]] = reducer.reduce(level[i], patterns); });
  }
  return patterns;
}

}  // namespace stitch::search
