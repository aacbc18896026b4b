#pragma once

#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <utility>
#include <vector>

#include "search/partition/fusion_plan.h"
#include "search/partition/vertex_graph.h"
#include "search/schedule/kernel_cache.h"

namespace stitch::search {

/// The best kernel for a set of vertices. Errors: those of the kernel graph; a kernel for which nothing is legal is one
/// that is not feasible.
Result<PlannedKernel> plan_kernel(const VertexGraph& vertices, const VertexSet& set, KernelCache& cache,
                                  const std::stop_token& stop = {});

/// What stands for the time of a set that fits no kernel where prices are added up and compared: more than any plan
/// takes, and finite, so that of two partitions the one with fewer such sets is the better one.
inline constexpr double infeasible_us = 1e12;

/// Why a kernel that is excluded is in no plan.
Error excluded_kernel(const Hash128& key);

/// Predictions that differ by less than this are equal but for rounding.
inline constexpr double rounding_us = 1e-6;

/// What each set of vertices of a fragment takes as one kernel, by the full model, each explored once. Sets whose
/// kernel is among the `excluded` (by key) count as such that fit no kernel.
class PartPrices {
 public:
  /// Once `stop` fires, what is not known yet takes infeasible_us without being explored: whoever works with prices
  /// comes to an end soon, and what it found is thrown away.
  PartPrices(const VertexGraph& vertices, KernelCache& cache, const std::set<Hash128>& excluded,
             std::stop_token stop = {})
      : vertices_(vertices), cache_(cache), excluded_(excluded), stop_(std::move(stop)) {}

  /// Predicted µs, or nothing when no schedule is legal.
  std::optional<double> feasible_us(const VertexSet& part);
  /// The same, infeasible_us for nothing.
  double us(const VertexSet& part);
  /// The sum of parts.
  double total_us(const std::vector<VertexSet>& parts);
  /// Explores those of the sets that are not known yet, side by side.
  void warm(const std::vector<VertexSet>& parts);
  /// Why no schedule fits.
  [[nodiscard]] Error why_not(const VertexSet& part) const;

 private:
  [[nodiscard]] std::optional<double> explore(const VertexSet& part) const;

  const VertexGraph& vertices_;
  KernelCache& cache_;
  const std::set<Hash128>& excluded_;
  std::stop_token stop_;
  std::map<VertexSet, std::optional<double>> known_;
};

}  // namespace stitch::search
