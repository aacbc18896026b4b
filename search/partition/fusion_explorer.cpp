#include "search/partition/fusion_explorer.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/traffic.h"
#include "search/partition/beam_search.h"
#include "search/partition/boundary_moves.h"
#include "search/partition/merging.h"
#include "search/partition/packing.h"
#include "search/partition/part_limits.h"
#include "search/partition/part_prices.h"
#include "search/partition/partition_moves.h"
#include "search/partition/pieces.h"
#include "search/partition/quotient.h"
#include "search/partition/reread_cut.h"

namespace stitch::search {
namespace {

using graph::Graph;

// Parts that neighbours are merged of. Before packing, an optimizer's thousands are left to it; what it leaves is a
// chain, and merging halves it round by round.
constexpr std::size_t most_before_packing = 256, most_after_packing = 4096;

// Single moves are tried one by one, with two kernels to explore for each: in small fragments only, and only where
// there is something to gain.
constexpr int most_polished = 16;          ///< vertices
constexpr double as_good_as_least = 1.15;  ///< times what any plan takes at least

class PlanBuilder {
 public:
  PlanBuilder(const VertexGraph& vertices, KernelCache& cache, const FusionOptions& options)
      : vertices_(vertices),
        cache_(cache),
        options_(options),
        prices_(vertices, cache, options.excluded, options.stop),
        limits_(vertices) {}

  Result<FusionPlan> build(std::vector<std::vector<VertexSet>> partitions) {
    VertexSet everything(vertices_.size());
    for (int v = 0; v < vertices_.size(); ++v) everything.insert(v);
    if (options_.packing && vertices_.size() <= 4 * options_.patterns.max_vertices) partitions.push_back({everything});
    if (std::vector<VertexSet> stages = staged_partition(vertices_); !stages.empty())
      partitions.push_back(std::move(stages));
    partitions.emplace_back();  // nothing fused: no plan may be slower
    for (int v = 0; v < vertices_.size(); ++v) partitions.back().push_back(single(vertices_, v).vertices);
    double best_us = 0;
    std::vector<VertexSet> best;
    Status why;
    for (std::vector<VertexSet>& parts : partitions) {
      // An operator whose own kernel is excluded may still be right in another one's.
      if (const Status feasible = make_runnable(parts); !feasible) {
        if (why) why = feasible;
        continue;
      }
      const double us = prices_.total_us(parts);
      STITCH_TRY(check_stop());
      if (best.empty() || us < best_us) {
        best_us = us;
        best = parts;
      }
    }
    if (best.empty() && !why) return why.error();
    if (options_.refine) merge_neighbours(vertices_, best, most_before_packing, prices_, limits_);
    if (options_.packing) pack_independent(vertices_, best, prices_);
    if (options_.refine) {
      merge_neighbours(vertices_, best, most_after_packing, prices_, limits_);
      move_boundaries(vertices_, best, prices_, limits_);
      polish(best);
    }
    STITCH_TRY(check_stop());
    return finish(best);
  }

  Result<FusionPlan> finish(const std::vector<VertexSet>& parts) {
    FusionPlan plan;
    const std::vector<int> order = Quotient(vertices_, parts).order();
    if (order.empty() && !parts.empty())
      return make_error(ErrorKind::constraint, "the partition's kernels depend on each other in a circle");
    std::vector<std::optional<Result<PlannedKernel>>> planned(order.size());
    tbb::parallel_for(std::size_t{0}, order.size(), [&](std::size_t i) {
      if (Status going = check_stop(); !going) {
        planned[i].emplace(std::move(going).error());
        return;
      }
      planned[i].emplace(plan_kernel(vertices_, parts[order[i]], cache_, options_.stop));
    });
    for (std::optional<Result<PlannedKernel>>& each : planned) {
      STITCH_ASSIGN(PlannedKernel kernel, std::move(*each));
      if (!kernel.kernel->feasible()) return kernel.kernel->why;
      if (options_.excluded.contains(kernel.kernel->key)) return excluded_kernel(kernel.kernel->key);
      plan.predicted_us += kernel.kernel->predicted_us();
      plan.kernels.push_back(std::move(kernel));
    }
    plan.dependent_saving_us = cache_.scorer().device().dependent_saving_us();
    plan.predicted_us -= static_cast<double>(plan.dependent_launches()) * plan.dependent_saving_us;
    return plan;
  }

 private:
  [[nodiscard]] Status check_stop() const {
    if (!options_.stop.stop_requested()) return {};
    return make_error(ErrorKind::cancelled, "stopped while fusion plans were explored");
  }

  /// Makes parts kernels that fit, in an order in which they can run.
  Status make_runnable(std::vector<VertexSet>& parts) {
    STITCH_TRY(make_feasible(parts));
    if (!break_cycles(parts))
      return make_error(ErrorKind::constraint, "the partition's kernels depend on each other in a circle");
    return make_feasible(parts);
  }

  /// Splits parts that no schedule fits in two until all do.
  Status make_feasible(std::vector<VertexSet>& parts) {
    prices_.warm(parts);
    std::vector<VertexSet> done, open = parts;
    while (!open.empty()) {
      VertexSet part = std::move(open.back());
      open.pop_back();
      STITCH_TRY(check_stop());
      if (prices_.feasible_us(part)) {
        done.push_back(std::move(part));
        continue;
      }
      const std::vector<int> members = part.members();
      if (members.size() == 1) return prices_.why_not(part).within(describe(members[0]));
      VertexSet first(vertices_.size()), second = first;
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
    if (vertices_.size() > most_polished || prices_.total_us(parts) < as_good_as_least * least_us()) return;
    const auto price = [&](const std::vector<VertexSet>& sets) {
      prices_.warm(sets);
      std::vector<double> us;
      for (const VertexSet& set : sets) us.push_back(prices_.us(set));
      return us;
    };
    while (const auto better = best_move(vertices_, parts, options_.packing, price)) parts = *better;
  }

  const VertexGraph& vertices_;
  KernelCache& cache_;
  const FusionOptions& options_;
  PartPrices prices_;
  PartLimits limits_;
};

Result<FusionPlan> explore_piece(const Graph& fragment, KernelCache& cache, const FusionOptions& options) {
  const VertexGraph vertices(fragment);
  if (vertices.size() == 0) return FusionPlan{};
  const kernel::AxisAnalysis axes(fragment);
  const DeltaEvaluator evaluator(vertices, axes, options.delta.value_or(DeltaModel::of(cache.scorer().device())));
  const auto patterns = generate_patterns(vertices, evaluator, options.patterns, options.stop);
  if (options.stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while patterns were found");
  return PlanBuilder(vertices, cache, options).build(beam_search(vertices, patterns, options.beam_width));
}

}  // namespace

Result<FusionPlan> explore_fusion(const Graph& fragment, KernelCache& cache, const FusionOptions& options) {
  FusionPlan whole;
  if (operators_of(fragment) <= options.most_together) {
    STITCH_ASSIGN(whole, explore_piece(fragment, cache, options));
    take_off_unwaited(fragment, cache.scorer().device(), whole);
    return whole;
  }
  for (const kernel::KernelGraph& piece : cut_in_pieces(fragment, options.most_together)) {
    STITCH_ASSIGN(FusionPlan plan, explore_piece(piece.graph, cache, options));
    append_plan(piece, std::move(plan), whole);
  }
  take_off_unwaited(fragment, cache.scorer().device(), whole);
  return whole;
}

Result<FusionPlan> unfused_plan(const Graph& fragment, KernelCache& cache, const std::stop_token& stop) {
  const VertexGraph vertices(fragment);
  std::vector<VertexSet> parts;
  for (int v = 0; v < vertices.size(); ++v) parts.push_back(single(vertices, v).vertices);
  STITCH_ASSIGN(FusionPlan plan, plan_of_partition(vertices, parts, cache, stop));
  take_off_unwaited(fragment, cache.scorer().device(), plan);
  return plan;
}

Result<FusionPlan> plan_of_partition(const VertexGraph& vertices, const std::vector<VertexSet>& partition,
                                     KernelCache& cache, const std::stop_token& stop) {
  FusionOptions options;
  options.stop = stop;
  return PlanBuilder(vertices, cache, options).finish(partition);
}

}  // namespace stitch::search
