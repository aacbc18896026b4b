#include "graph/canonical_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/hash.h"

namespace stitch::graph {
namespace {

using Vertices = std::vector<int>;  // ascending, i.e. in topological order

/// One end of an edge, seen from the other.
struct Arc {
  int other;
  std::uint64_t label;
};

/// Arcs by vertex in one array.
class Arcs {
 public:
  Arcs(std::size_t vertices, const std::vector<ColouredGraph::Edge>& edges, bool incoming) : first_(vertices + 1) {
    for (const auto& edge : edges) ++first_[(incoming ? edge.to : edge.from) + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    arcs_.resize(edges.size());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (const auto& edge : edges) {
      arcs_[next[incoming ? edge.to : edge.from]++] = {incoming ? edge.from : edge.to, edge.label};
    }
  }
  [[nodiscard]] const Arc* begin(int vertex) const { return arcs_.data() + first_[vertex]; }
  [[nodiscard]] const Arc* end(int vertex) const { return arcs_.data() + first_[vertex + 1]; }

 private:
  std::vector<std::size_t> first_;
  std::vector<Arc> arcs_;
};

/// Union-find over vertices, made when it is needed.
class Orbits {
 public:
  explicit Orbits(const Vertices& members) : members_(members), parent_(members.size()) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  void join(int a, int b) { parent_[root(a)] = root(b); }
  void join(const std::vector<std::pair<int, int>>& pairs) {
    for (const auto& [a, b] : pairs) join(a, b);
  }
  bool together(int a, int b) { return root(a) == root(b); }
  /// Every member with another of its orbit.
  std::vector<std::pair<int, int>> pairs() {
    std::vector<std::pair<int, int>> result;
    for (const int v : members_) {
      if (const int other = members_[root(v)]; other != v) result.emplace_back(v, other);
    }
    return result;
  }

 private:
  std::size_t root(int vertex) {
    std::size_t x = std::lower_bound(members_.begin(), members_.end(), vertex) - members_.begin();
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  const Vertices& members_;
  std::vector<std::size_t> parent_;
};

/// A labelling of some vertices: their order, what it certifies (equal certificates: the position-wise map between the
/// orders is an isomorphism), and pairs of vertices that some automorphism maps onto each other.
struct Labelling {
  std::vector<int> order;
  std::uint64_t certificate = 0;
  std::vector<std::pair<int, int>> orbit_pairs;
};

class Search {
 public:
  Search(const ColouredGraph& graph, int budget)
      : in_(graph.colours.size(), graph.edges, true),
        out_(graph.colours.size(), graph.edges, false),
        colours_(graph.colours),
        part_(graph.colours.size(), 0),
        position_(graph.colours.size(), 0),
        budget_(budget) {}

  CanonicalOrder run() {
    Vertices all(colours_.size());
    std::iota(all.begin(), all.end(), 0);
    refine(all);
    Labelling result = label(all, false, 0);
    return {std::move(result.order), exact_};
  }

 private:
  /// Sweeps along and against the edges among `vertices` until no colour class splits any more.
  void refine(const Vertices& vertices) {
    mark(vertices);
    std::size_t classes = count_classes(vertices);
    while (classes < vertices.size()) {
      for (const int v : vertices) absorb(v, in_);
      for (auto v = vertices.rbegin(); v != vertices.rend(); ++v) absorb(*v, out_);
      const std::size_t now = count_classes(vertices);
      if (now == classes) break;
      classes = now;
    }
  }

  void absorb(int v, const Arcs& arcs) {
    std::uint64_t sum = 0;  // commutative: arcs are a multiset
    for (const Arc* arc = arcs.begin(v); arc != arcs.end(v); ++arc) {
      if (part_[arc->other] == stamp_) sum += mix(arc->label, colours_[arc->other]);
    }
    colours_[v] = mix(colours_[v], sum);
  }

  void mark(const Vertices& vertices) {
    ++stamp_;
    for (const int v : vertices) part_[v] = stamp_;
  }

  std::size_t count_classes(const Vertices& vertices) {
    scratch_.clear();
    for (const int v : vertices) scratch_.push_back(colours_[v]);
    std::sort(scratch_.begin(), scratch_.end());
    return std::unique(scratch_.begin(), scratch_.end()) - scratch_.begin();
  }

  /// Labels `vertices`, whose colours are stable under refinement. `greedy` takes the first of what cannot be told
  /// apart: one leaf of the search tree instead of the least one.
  Labelling label(const Vertices& vertices, bool greedy, int depth) {
    Vertices by_colour = vertices;
    std::sort(by_colour.begin(), by_colour.end(),
              [&](int a, int b) { return std::pair(colours_[a], a) < std::pair(colours_[b], b); });
    Labelling result;
    Vertices rest;
    for (std::size_t i = 0; i < by_colour.size();) {
      std::size_t end = i + 1;
      while (end < by_colour.size() && colours_[by_colour[end]] == colours_[by_colour[i]]) ++end;
      auto& target = end == i + 1 ? result.order : rest;
      target.insert(target.end(), by_colour.begin() + i, by_colour.begin() + end);
      i = end;
    }
    if (!rest.empty()) {
      // Stable colours: members of one class have the same edges to every unique vertex, so that without those the
      // components are independent and those with equal certificates are interchangeable.
      std::sort(rest.begin(), rest.end());
      const std::vector<Vertices> components = split(rest);
      if (components.size() == 1 && result.order.empty()) return branch(rest, greedy, depth);
      append_components(components, greedy, depth, result);
    }
    certify(vertices, result);
    return result;
  }

  void append_components(const std::vector<Vertices>& components, bool greedy, int depth, Labelling& result) {
    std::vector<Labelling> parts;
    for (const Vertices& component : components) parts.push_back(label(component, greedy, depth));
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Labelling& a, const Labelling& b) { return a.certificate < b.certificate; });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      result.order.insert(result.order.end(), parts[i].order.begin(), parts[i].order.end());
      if (depth == 0) continue;  // orbits only prune a branching
      result.orbit_pairs.insert(result.orbit_pairs.end(), parts[i].orbit_pairs.begin(), parts[i].orbit_pairs.end());
      if (i == 0 || parts[i - 1].certificate != parts[i].certificate) continue;
      const auto swapped = position_pairs(parts[i - 1], parts[i]);
      result.orbit_pairs.insert(result.orbit_pairs.end(), swapped.begin(), swapped.end());
    }
  }

  static std::vector<std::pair<int, int>> position_pairs(const Labelling& a, const Labelling& b) {
    std::vector<std::pair<int, int>> pairs;
    for (std::size_t i = 0; i < a.order.size(); ++i) pairs.emplace_back(a.order[i], b.order[i]);
    return pairs;
  }

  std::vector<Vertices> split(const Vertices& vertices) {
    mark(vertices);
    const std::uint64_t inside = stamp_;
    std::vector<Vertices> components;
    for (const int start : vertices) {
      if (part_[start] != inside) continue;
      Vertices component = {start};
      part_[start] = 0;
      for (std::size_t i = 0; i < component.size(); ++i) {
        for (const Arcs* arcs : {&in_, &out_}) {
          for (const Arc* arc = arcs->begin(component[i]); arc != arcs->end(component[i]); ++arc) {
            if (part_[arc->other] != inside) continue;
            part_[arc->other] = 0;
            component.push_back(arc->other);
          }
        }
      }
      std::sort(component.begin(), component.end());
      components.push_back(std::move(component));
    }
    return components;
  }

  /// Two or more of every colour, all connected: individualise each member of the smallest class in turn and keep the
  /// labelling with the least certificate. Members in one orbit give the same, so one of each orbit is enough.
  Labelling branch(const Vertices& vertices, bool greedy, int depth) {
    const Vertices cell = target_cell(vertices);
    if (greedy) return individualise(vertices, cell.front(), true, depth);
    Orbits orbits(vertices);
    std::vector<std::pair<int, Labelling>> leaves;  // one greedy labelling per orbit tried so far
    Labelling best;
    for (const int candidate : cell) {
      const bool known = std::any_of(leaves.begin(), leaves.end(),
                                     [&](const auto& leaf) { return orbits.together(leaf.first, candidate); });
      if (known) continue;
      if (budget_ <= 0) exact_ = false;
      if (budget_ <= 0 && !best.order.empty()) break;
      Labelling leaf = individualise(vertices, candidate, true, depth);
      const auto same = std::find_if(leaves.begin(), leaves.end(),
                                     [&](const auto& other) { return other.second.certificate == leaf.certificate; });
      orbits.join(leaf.orbit_pairs);
      if (same != leaves.end()) {
        orbits.join(position_pairs(leaf, same->second));
        continue;
      }
      Labelling child = budget_ > 0 ? individualise(vertices, candidate, false, depth) : leaf;
      orbits.join(child.orbit_pairs);
      if (!best.order.empty() && child.certificate == best.certificate) orbits.join(position_pairs(child, best));
      leaves.emplace_back(candidate, std::move(leaf));
      if (best.order.empty() || child.certificate < best.certificate) best = std::move(child);
    }
    best.orbit_pairs = orbits.pairs();
    return best;
  }

  Vertices target_cell(const Vertices& vertices) {
    std::vector<std::pair<std::uint64_t, int>> sorted;
    for (const int v : vertices) sorted.emplace_back(colours_[v], v);
    std::sort(sorted.begin(), sorted.end());
    std::size_t best = 0, best_size = sorted.size() + 1;
    for (std::size_t i = 0; i < sorted.size();) {
      std::size_t end = i + 1;
      while (end < sorted.size() && sorted[end].first == sorted[i].first) ++end;
      if (end - i < best_size) {
        best = i;
        best_size = end - i;
      }
      i = end;
    }
    Vertices cell;
    for (std::size_t i = best; i < best + best_size; ++i) cell.push_back(sorted[i].second);
    return cell;
  }

  Labelling individualise(const Vertices& vertices, int chosen, bool greedy, int depth) {
    --budget_;
    std::vector<std::uint64_t> saved;
    for (const int v : vertices) saved.push_back(colours_[v]);
    colours_[chosen] = mix(colours_[chosen], 0x1d1f1d);
    refine(vertices);
    Labelling result = label(vertices, greedy, depth + 1);
    for (std::size_t i = 0; i < vertices.size(); ++i) colours_[vertices[i]] = saved[i];
    return result;
  }

  /// Colours by position and the edges among positions; edges that leave the set are implied by the colours.
  void certify(const Vertices& vertices, Labelling& result) {
    mark(vertices);
    for (std::size_t i = 0; i < result.order.size(); ++i) position_[result.order[i]] = i;
    std::uint64_t hash = result.order.size();
    for (const int v : result.order) {
      std::uint64_t sum = 0;
      for (const Arc* arc = in_.begin(v); arc != in_.end(v); ++arc) {
        if (part_[arc->other] == stamp_) sum += mix(arc->label, position_[arc->other]);
      }
      hash = mix(mix(hash, colours_[v]), sum);
    }
    result.certificate = hash;
  }

  Arcs in_, out_;
  std::vector<std::uint64_t> colours_;
  std::vector<std::uint64_t> part_;  // equals stamp_: belongs to the set last marked
  std::uint64_t stamp_ = 0;
  std::vector<std::size_t> position_;
  std::vector<std::uint64_t> scratch_;
  int budget_;
  bool exact_ = true;
};

}  // namespace

CanonicalOrder canonical_order(const ColouredGraph& graph, int budget) { return Search(graph, budget).run(); }

}  // namespace stitch::graph
