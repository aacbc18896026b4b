#pragma once

#include <cstdint>
#include <stop_token>

#include "graph/graph.h"
#include "search/partition/fusion_explorer.h"
#include "search/schedule/kernel_cache.h"

namespace stitch::search {

/// Whether a loop (a graph with nothing beside it: kernel/loop/row_split.h's recurrent_loop) is better run by one
/// kernel than turn by turn: it can be, and the prediction for it is below that for the plans of its body, with library
/// calls for the contractions that take no longer than a launch, in every turn. False, too, once options.stop fires.
bool runs_in_one_kernel(const graph::Graph& loop, KernelCache& cache, const FusionOptions& options);

/// A fragment with every operator in a kernel of its own; of a loop, the operators of its body in every turn.
struct UnfusedFragment {
  FusionPlan once;         ///< a loop's: the kernels of all of its body's fragments; only they and predicted_us are set
  std::int64_t turns = 1;  ///< how often `once` runs

  [[nodiscard]] std::int64_t launches() const { return turns * static_cast<std::int64_t>(once.kernels.size()); }
  [[nodiscard]] std::int64_t bytes() const { return turns * plan_bytes(once); }
  [[nodiscard]] double predicted_us() const { return static_cast<double>(turns) * once.predicted_us; }
};

/// What a plan is compared with. Errors: those of kernels that cannot be scheduled; cancelled once `stop` fires.
Result<UnfusedFragment> unfused_fragment(const graph::Graph& fragment, KernelCache& cache,
                                         const std::stop_token& stop = {});

}  // namespace stitch::search
