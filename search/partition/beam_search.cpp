#include "search/partition/beam_search.h"

#include <algorithm>
#include <utility>

namespace stitch::search {
namespace {

/// Patterns chosen one after the other. States share what they have in common: copies of thousands would take longer
/// than all else.
struct Choice {
  const Pattern* pattern;
  std::ptrdiff_t before;  ///< position of the choice before, or -1
};

struct BeamState {
  VertexSet covered;
  std::ptrdiff_t last = -1;  ///< choice
  double gain = 0;
};

bool collides(const Pattern& a, const Pattern& b) {
  return a.reach_down.intersects(b.vertices) && b.reach_down.intersects(a.vertices);
}

}  // namespace

std::vector<std::vector<VertexSet>> beam_search(const VertexGraph& vertices,
                                                const std::vector<std::vector<Pattern>>& patterns, int width) {
  std::vector<Choice> choices;
  const auto closes_circle = [&](const BeamState& state, const Pattern& pattern) {
    if (!pattern.reach_down.intersects(state.covered)) return false;
    for (std::ptrdiff_t c = state.last; c >= 0; c = choices[c].before) {
      if (collides(*choices[c].pattern, pattern)) return true;
    }
    return false;
  };
  std::vector<BeamState> beam(1);
  beam[0].covered = VertexSet(vertices.size());
  for (int v = 0; v < vertices.size(); ++v) {
    std::vector<BeamState> next;
    for (BeamState& state : beam) {
      if (state.covered.contains(v)) {
        next.push_back(std::move(state));
        continue;
      }
      bool extended = false;
      for (const Pattern& pattern : patterns[v]) {
        if (pattern.vertices.intersects(state.covered) || closes_circle(state, pattern)) continue;
        BeamState grown = state;
        grown.covered.merge(pattern.vertices);
        choices.push_back({&pattern, grown.last});
        grown.last = std::ssize(choices) - 1;
        grown.gain += pattern.gain_us;
        next.push_back(std::move(grown));
        extended = true;
      }
      if (!extended) {
        // Every pattern overlaps what is covered: the vertex stays alone.
        BeamState grown = state;
        grown.covered.insert(v);
        next.push_back(std::move(grown));
      }
    }
    std::stable_sort(next.begin(), next.end(), [](const BeamState& a, const BeamState& b) { return a.gain > b.gain; });
    if (std::ssize(next) > width) next.resize(width);
    beam = std::move(next);
  }
  std::vector<std::vector<VertexSet>> partitions;
  for (const BeamState& state : beam) {
    std::vector<VertexSet> parts;
    VertexSet left(vertices.size());
    for (int v = 0; v < vertices.size(); ++v) left.insert(v);
    for (std::ptrdiff_t c = state.last; c >= 0; c = choices[c].before) {
      const VertexSet& chosen = choices[c].pattern->vertices;
      parts.push_back(chosen);
      left.subtract(chosen);
    }
    std::ranges::reverse(parts);
    for (const int v : left.members()) parts.push_back(single(vertices, v).vertices);
    partitions.push_back(std::move(parts));
  }
  return partitions;
}

}  // namespace stitch::search
