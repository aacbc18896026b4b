#pragma once

#include <optional>
#include <set>
#include <stop_token>

#include "base/result.h"
#include "graph/graph.h"
#include "search/partition/delta_evaluator.h"
#include "search/partition/fusion_plan.h"
#include "search/partition/patterns.h"
#include "search/schedule/kernel_cache.h"

namespace stitch::search {

struct FusionOptions {
  PatternOptions patterns;
  int beam_width = 3;
  bool packing = true;              ///< join independent kernels into one launch
  bool refine = true;               ///< merge kernels of the best plan while the full model approves
  std::optional<DeltaModel> delta;  ///< constants of the fast score; from the device when not given
  /// Keys of kernels that no plan may have: nothing that was made of them was right.
  std::set<Hash128> excluded = {};
  std::stop_token stop = {};  ///< ends the exploring: error cancelled
  /// Operators that are explored together: what it takes grows faster than their number, and memory with its square.
  /// A larger fragment is explored piece by piece, in the order of its operators, and no kernel has some of two pieces.
  int most_together = 12'000;
};

/// The fusion explorer (FusionStitching §5): patterns per vertex by the delta evaluator, plans by beam search over the
/// vertices, the best plan by the full model; then kernels are merged, neighbours first, then independent ones (remote
/// fusion, packing), as long as the full model predicts a gain. The result does not depend on the number of threads.
///
/// Errors: constraint when an operator fits no kernel by itself, and correctness when the kernels it is in are excluded
/// (the message names it); cancelled.
Result<FusionPlan> explore_fusion(const graph::Graph& fragment, KernelCache& cache, const FusionOptions& options);

/// The plan with every operator in a kernel of its own: what "unfused" means in every table. Errors: as of
/// plan_of_partition.
Result<FusionPlan> unfused_plan(const graph::Graph& fragment, KernelCache& cache, const std::stop_token& stop = {});

/// The plan for a given partition (sets of vertices of VertexGraph). Errors: constraint; cancelled once `stop` fires.
Result<FusionPlan> plan_of_partition(const VertexGraph& vertices, const std::vector<VertexSet>& partition,
                                     KernelCache& cache, const std::stop_token& stop = {});

}  // namespace stitch::search
