#include "search/partition/fusion_explorer.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/traffic.h"
#include "kernel/structure/kernel_graph.h"
#include "search/partition/boundary.h"
#include "search/partition/partition_moves.h"
#include "search/partition/quotient.h"
#include "search/partition/reread_cut.h"

namespace stitch::search {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Value;

Result<PlannedKernel> plan_kernel(const VertexGraph& vertices, const VertexSet& set, KernelCache& cache) {
  const kernel::KernelGraph extracted =
      kernel::extract_kernel(vertices.fragment(), vertices.attached(), vertices.uses(), vertices.nodes_of(set));
  STITCH_ASSIGN(KernelCache::Entry entry, cache.explore(extracted.graph));
  PlannedKernel planned{std::move(entry.kernel), {}, {}, extracted.nodes};
  for (const int i : entry.parameter_order) planned.arguments.push_back(extracted.arguments[i]);
  for (const int i : entry.result_order) planned.results.push_back(extracted.results[i]);
  return planned;
}

// ---- beam search --------------------------------------------------------------------------------------------------

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

/// Plans as partitions, best first by the delta evaluator.
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
  beam[0].covered = VertexSet(static_cast<std::size_t>(vertices.size()));
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
        grown.last = static_cast<std::ptrdiff_t>(choices.size()) - 1;
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
    if (next.size() > static_cast<std::size_t>(width)) next.resize(width);
    beam = std::move(next);
  }
  std::vector<std::vector<VertexSet>> partitions;
  for (const BeamState& state : beam) {
    std::vector<VertexSet> parts;
    VertexSet left(static_cast<std::size_t>(vertices.size()));
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

// ---- plans by the full model --------------------------------------------------------------------------------------

// Of what is merged step by step. Index propagation recurses along the operators of a kernel: a chain of ten thousand
// in one kernel overflows the stack.
constexpr int most_depth = 2048;

// Parts that neighbours are merged of. Before packing, an optimizer's thousands are left to it; what it leaves is a
// chain, and merging halves it round by round.
constexpr std::size_t most_before_packing = 256, most_after_packing = 4096;

// Vertices of a union that fits no kernel because of its size; a small one may have other reasons.
constexpr int large = 128;

// Single moves are tried one by one, with two kernels to explore for each: in small fragments only, and only where
// there is something to gain.
constexpr int most_polished = 16;          ///< vertices
constexpr double as_good_as_least = 1.15;  ///< times what any plan takes at least

class PlanBuilder {
 public:
  PlanBuilder(const VertexGraph& vertices, KernelCache& cache, const FusionOptions& options)
      : vertices_(vertices), cache_(cache), options_(options) {}

  Result<FusionPlan> build(std::vector<std::vector<VertexSet>> partitions) {
    VertexSet everything(static_cast<std::size_t>(vertices_.size()));
    for (int v = 0; v < vertices_.size(); ++v) everything.insert(v);
    if (options_.packing && vertices_.size() <= 4 * options_.patterns.max_vertices) partitions.push_back({everything});
    if (std::vector<VertexSet> stages = staged_partition(vertices_); !stages.empty())
      partitions.push_back(std::move(stages));
    partitions.emplace_back();  // nothing fused: no plan may be slower
    for (int v = 0; v < vertices_.size(); ++v) partitions.back().push_back(single(vertices_, v).vertices);
    double best_us = 0;
    std::vector<VertexSet> best;
    for (std::vector<VertexSet>& parts : partitions) {
      STITCH_TRY(make_feasible(parts));
      if (!break_cycles(parts)) continue;
      STITCH_TRY(make_feasible(parts));
      const double us = total(parts);
      if (best.empty() || us < best_us) {
        best_us = us;
        best = parts;
      }
    }
    if (options_.refine) refine(best, most_before_packing);
    if (options_.packing) pack(best);
    if (options_.refine) {
      refine(best, most_after_packing);
      move_boundaries(best);
      polish(best);
    }
    return finish(best);
  }

  Result<FusionPlan> finish(const std::vector<VertexSet>& parts) {
    FusionPlan plan;
    const std::vector<int> order = Quotient(vertices_, parts).order();
    if (order.empty() && !parts.empty())
      return make_error(ErrorKind::constraint, "the partition's kernels depend on each other in a circle");
    std::vector<std::optional<Result<PlannedKernel>>> planned(order.size());
    tbb::parallel_for(std::size_t{0}, order.size(),
                      [&](std::size_t i) { planned[i].emplace(plan_kernel(vertices_, parts[order[i]], cache_)); });
    for (std::optional<Result<PlannedKernel>>& each : planned) {
      STITCH_ASSIGN(PlannedKernel kernel, std::move(*each));
      if (!kernel.kernel->feasible()) return kernel.kernel->why;
      plan.predicted_us += kernel.kernel->predicted_us();
      plan.kernels.push_back(std::move(kernel));
    }
    return plan;
  }

 private:
  /// Predicted time of one kernel, or nothing when no schedule is legal.
  std::optional<double> cost(const VertexSet& part) {
    if (const auto found = cost_.find(part); found != cost_.end()) return found->second;
    Result<PlannedKernel> planned = plan_kernel(vertices_, part, cache_);
    std::optional<double> us;
    if (planned && planned->kernel->feasible()) us = planned->kernel->predicted_us();
    cost_[part] = us;
    return us;
  }

  /// Why no schedule fits.
  Error why_not(const VertexSet& part) {
    Result<PlannedKernel> planned = plan_kernel(vertices_, part, cache_);
    return planned ? planned->kernel->why : planned.error();
  }

  void warm(const std::vector<VertexSet>& parts) {
    std::vector<const VertexSet*> missing;
    for (const VertexSet& part : parts) {
      if (part.count() > 0 && !cost_.contains(part)) missing.push_back(&part);
    }
    std::vector<std::optional<double>> costs(missing.size());
    tbb::parallel_for(std::size_t{0}, missing.size(), [&](std::size_t i) {
      const Result<PlannedKernel> planned = plan_kernel(vertices_, *missing[i], cache_);
      if (planned && planned->kernel->feasible()) costs[i] = planned->kernel->predicted_us();
    });
    for (std::size_t i = 0; i < missing.size(); ++i) cost_[*missing[i]] = costs[i];
  }

  double total(const std::vector<VertexSet>& parts) {
    double us = 0;
    for (const VertexSet& part : parts) us += cost(part).value_or(1e12);
    return us;
  }

  /// Splits parts that no schedule fits in two until all do.
  Status make_feasible(std::vector<VertexSet>& parts) {
    warm(parts);
    std::vector<VertexSet> done, open = parts;
    while (!open.empty()) {
      VertexSet part = std::move(open.back());
      open.pop_back();
      if (cost(part)) {
        done.push_back(std::move(part));
        continue;
      }
      const std::vector<int> members = part.members();
      if (members.size() == 1) return why_not(part).within(describe(members[0]));
      VertexSet first(static_cast<std::size_t>(vertices_.size())), second = first;
      for (std::size_t i = 0; i < members.size(); ++i) (i < members.size() / 2 ? first : second).insert(members[i]);
      open.push_back(std::move(first));
      open.push_back(std::move(second));
    }
    std::sort(done.begin(), done.end());
    parts = std::move(done);
    return {};
  }

  [[nodiscard]] std::string describe(int vertex) const {
    const graph::Node& node = vertices_.fragment().node(vertices_.node(vertex));
    return fmt::format("{} '{}' {}", to_string(node.op), node.name, to_string(node.type()));
  }

  /// Longer cycles between patterns are rare: the largest part is taken apart until none is left.
  bool break_cycles(std::vector<VertexSet>& parts) const {
    for (int attempt = 0; attempt < 64; ++attempt) {
      if (parts.empty() || !Quotient(vertices_, parts).order().empty()) return true;
      const auto largest = std::max_element(
          parts.begin(), parts.end(), [](const VertexSet& a, const VertexSet& b) { return a.count() < b.count(); });
      const std::vector<int> members = largest->members();
      parts.erase(largest);
      for (const int v : members) parts.push_back(single(vertices_, v).vertices);
    }
    return false;
  }

  /// One launch that moves every parameter and result once, in µs.
  [[nodiscard]] double least_us() const {
    const DeviceSpec& device = cache_.scorer().device();
    const double bytes = graph::interface_bytes(vertices_.fragment());
    return device.launch_us + bytes / device.reachable_bandwidth() * 1e6;
  }

  /// What merging cannot mend: an operator that would be better off in another kernel, or in one of its own.
  void polish(std::vector<VertexSet>& parts) {
    if (vertices_.size() > most_polished || total(parts) < as_good_as_least * least_us()) return;
    const auto price = [&](const std::vector<VertexSet>& sets) {
      warm(sets);
      std::vector<double> us;
      for (const VertexSet& set : sets) us.push_back(cost(set).value_or(1e12));
      return us;
    };
    while (const auto better = best_move(vertices_, parts, options_.packing, price)) parts = *better;
  }

  /// Patterns take what they can reach; what a later kernel could compute for less traffic is handed over to it.
  void move_boundaries(std::vector<VertexSet>& parts) {
    if (parts.size() > 256) return;
    constexpr int rounds = 4;
    bool changed = true;
    for (int round = 0; round < rounds && changed; ++round) {
      changed = false;
      const Quotient quotient(vertices_, parts);
      for (int a = 0; a < std::ssize(parts); ++a) {
        for (int b = 0; b < std::ssize(parts); ++b) {
          if (quotient.has_edge(a, b)) changed = move_boundary(parts, a, b) || changed;
        }
      }
      std::erase(parts, nothing());
    }
  }

  bool move_boundary(std::vector<VertexSet>& parts, int a, int b) {
    VertexSet &first = parts[a], &second = parts[b];
    const auto price = [&](const VertexSet& part) { return part == nothing() ? 0.0 : cost(part).value_or(1e12); };
    for (auto& [before, after] : best_boundaries(vertices_, first, second)) {
      if (too_deep(before) || too_deep(after) || holds_infeasible(before) || holds_infeasible(after)) continue;
      const double us = price(first) + price(second);
      std::swap(first, before);
      std::swap(second, after);
      if (!Quotient(vertices_, parts).order().empty()) {
        warm({first, second});  // side by side
        if (price(first) + price(second) < us - 1e-6) return true;
      }
      std::swap(first, before);
      std::swap(second, after);
    }
    return false;
  }

  struct Merge {
    int a = 0, b = 0;  ///< parts, a < b
    VertexSet together;
    double gain_us = 0;
  };

  /// Merges neighbours (producer and consumer, or readers of the same value) while the full model predicts a gain. Each
  /// round merges as many pairs as do not touch one another, best first, so that the number of rounds grows with the
  /// logarithm of the parts.
  void refine(std::vector<VertexSet>& parts, std::size_t most_parts) {
    if (parts.size() > most_parts) return;
    while (parts.size() > 1) {
      Quotient quotient(vertices_, parts);
      std::vector<Merge> merges = gainful_merges(parts, quotient);
      if (merges.empty()) return;
      std::vector<bool> touched(parts.size(), false);
      for (Merge& merge : merges) {
        const std::size_t a = merge.a, b = static_cast<std::size_t>(merge.b);
        if (touched[a] || touched[b]) continue;
        touched[a] = touched[b] = true;
        // An earlier merge of this round may have closed a way around this pair.
        if (!quotient.mergeable(merge.a, merge.b)) continue;
        quotient.join(merge.a, merge.b);
        parts[a] = std::move(merge.together);
        parts[b] = nothing();
      }
      std::erase(parts, nothing());
    }
  }

  /// Pairs worth merging, most gain first.
  std::vector<Merge> gainful_merges(const std::vector<VertexSet>& parts, const Quotient& quotient) {
    std::vector<Merge> merges;
    for (const auto& [a, b] : related_pairs(parts)) {
      if (!quotient.mergeable(a, b)) continue;
      Merge merge{a, b, parts[a], 0};
      merge.together.merge(parts[b]);
      if (too_deep(merge.together) || holds_infeasible(merge.together)) continue;
      merges.push_back(std::move(merge));
    }
    std::vector<VertexSet> unions;
    for (const Merge& merge : merges) unions.push_back(merge.together);
    warm(unions);
    for (Merge& merge : merges) {
      const std::optional<double> us = cost(merge.together);
      if (!us) {
        if (merge.together.count() >= large) infeasible_.push_back(std::move(merge.together));
        continue;
      }
      merge.gain_us = *cost(parts[merge.a]) + *cost(parts[merge.b]) - *us;
    }
    std::erase_if(merges, [](const Merge& merge) { return merge.gain_us <= 1e-6; });
    std::stable_sort(merges.begin(), merges.end(),
                     [](const Merge& x, const Merge& y) { return x.gain_us > y.gain_us; });
    return merges;
  }

  /// Whether some way through a set has more operators than a kernel may have in a row.
  [[nodiscard]] bool too_deep(const VertexSet& set) const {
    if (set.count() <= most_depth) return false;
    std::vector<int> depth(vertices_.size(), 0);
    int deepest = 0;
    for (const int v : set.members()) {  // producers come first
      const int own = ++depth[v];
      deepest = std::max(deepest, own);
      for (const int consumer : vertices_.consumers(v)) {
        int& other = depth[consumer];
        other = std::max(other, own);
      }
    }
    return deepest > most_depth;
  }

  /// Whether a set holds one that fits no kernel for its size: with more operators it would not fit either. In the last
  /// rounds of a packed optimizer most pairs are such, and exploring one takes as long as exploring a kernel that fits.
  [[nodiscard]] bool holds_infeasible(const VertexSet& set) const {
    return std::ranges::any_of(infeasible_, [&](const VertexSet& part) { return part.is_within(set); });
  }

  [[nodiscard]] VertexSet nothing() const { return VertexSet(static_cast<std::size_t>(vertices_.size())); }

  /// Pairs of parts that hand values to one another or read the same ones; per part the few that share most bytes.
  [[nodiscard]] std::vector<std::pair<int, int>> related_pairs(const std::vector<VertexSet>& parts) const {
    const std::size_t most_partners = parts.size() > 64 ? 3 : 6;
    constexpr std::int64_t least_bytes = 4096;  // of a value that is only read by both
    std::map<Value, std::vector<int>> readers;
    std::map<Value, int> writer;
    for (int p = 0; p < std::ssize(parts); ++p) {
      for (const int v : parts[p].members()) {
        const NodeId node = vertices_.node(v);
        for (int r = 0; r < static_cast<int>(vertices_.fragment().node(node).results.size()); ++r)
          writer[{node, r}] = p;
        for (const Value value : vertices_.reads(v)) {
          std::vector<int>& list = readers[value];
          if (list.empty() || list.back() != p) list.push_back(p);
        }
      }
    }
    std::map<std::pair<int, int>, std::int64_t> shared;
    for (const auto& [value, list] : readers) {
      const std::int64_t bytes = vertices_.fragment().type(value).bytes();
      if (const auto from = writer.find(value); from != writer.end()) {
        for (const int p : list) {
          if (p != from->second) shared[std::minmax(p, from->second)] += bytes + 1;
        }
      }
      // A value that very many read (a scalar, a table) is no reason to join any two of them.
      if (bytes < least_bytes || list.size() > 16) continue;
      for (std::size_t i = 0; i < list.size(); ++i) {
        for (std::size_t j = i + 1; j < list.size(); ++j) shared[std::minmax(list[i], list[j])] += bytes;
      }
    }
    std::vector<std::vector<std::pair<std::int64_t, int>>> partners(parts.size());
    for (const auto& [pair, bytes] : shared) {
      partners[pair.first].emplace_back(-bytes, pair.second);
      partners[pair.second].emplace_back(-bytes, pair.first);
    }
    std::set<std::pair<int, int>> pairs;
    for (int p = 0; p < std::ssize(parts); ++p) {
      auto& list = partners[p];
      std::sort(list.begin(), list.end());
      for (std::size_t i = 0; i < std::min(most_partners, list.size()); ++i)
        pairs.insert(std::minmax(p, list[i].second));
    }
    return {pairs.begin(), pairs.end()};
  }

  /// Remote fusion: a virtual vertex that produces everything has the kernels as consumers; independent ones are joined
  /// when one launch of all is predicted to be faster. Kernels of one depth are tried together, then in halves.
  void pack(std::vector<VertexSet>& parts) {
    std::vector<int> depths = Quotient(vertices_, parts).depths();
    for (int depth = 0; depth <= *std::ranges::max_element(depths); ++depth) {
      // Likes with likes first: kernels of similar cost fill a launch evenly.
      std::vector<std::pair<double, VertexSet>> level;
      std::vector<VertexSet> others;
      for (std::size_t p = 0; p < parts.size(); ++p) {
        if (depths[p] == depth)
          level.emplace_back(*cost(parts[p]), parts[p]);
        else
          others.push_back(parts[p]);
      }
      if (level.size() < 2) continue;
      std::ranges::stable_sort(level, {}, &std::pair<double, VertexSet>::first);
      std::vector<VertexSet> members;
      for (auto& [us, part] : level) members.push_back(std::move(part));
      pack_run(members, 0, members.size(), others);
      parts = std::move(others);
      std::ranges::sort(parts);
      depths = Quotient(vertices_, parts).depths();
    }
  }

  void pack_run(const std::vector<VertexSet>& members, std::size_t first, std::size_t last,
                std::vector<VertexSet>& out) {
    if (last - first == 1) {
      out.push_back(members[first]);
      return;
    }
    VertexSet all = members[first];
    double apart = *cost(members[first]);
    for (std::size_t i = first + 1; i < last; ++i) {
      all.merge(members[i]);
      apart += *cost(members[i]);
    }
    if (const std::optional<double> together = cost(all); together && *together < apart) {
      out.push_back(std::move(all));
      return;
    }
    const std::size_t middle = (first + last) / 2;
    pack_run(members, first, middle, out);
    pack_run(members, middle, last, out);
  }

  const VertexGraph& vertices_;
  KernelCache& cache_;
  const FusionOptions& options_;
  std::map<VertexSet, std::optional<double>> cost_;
  std::vector<VertexSet> infeasible_;  ///< large unions of neighbours
};

}  // namespace

Result<FusionPlan> explore_fusion(const Graph& fragment, KernelCache& cache, const FusionOptions& options) {
  const VertexGraph vertices(fragment);
  if (vertices.size() == 0) return FusionPlan{};
  const kernel::AxisAnalysis axes(fragment);
  const DeltaEvaluator evaluator(vertices, axes, options.delta.value_or(DeltaModel::of(cache.scorer().device())));
  const auto patterns = generate_patterns(vertices, evaluator, options.patterns);
  return PlanBuilder(vertices, cache, options).build(beam_search(vertices, patterns, options.beam_width));
}

Result<FusionPlan> unfused_plan(const Graph& fragment, KernelCache& cache) {
  const VertexGraph vertices(fragment);
  std::vector<VertexSet> parts;
  for (int v = 0; v < vertices.size(); ++v) parts.push_back(single(vertices, v).vertices);
  return plan_of_partition(vertices, parts, cache);
}

Result<FusionPlan> plan_of_partition(const VertexGraph& vertices, const std::vector<VertexSet>& partition,
                                     KernelCache& cache) {
  const FusionOptions options;
  return PlanBuilder(vertices, cache, options).finish(partition);
}

}  // namespace stitch::search
