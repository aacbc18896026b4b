#pragma once

#include <cstdint>
#include <string>

#include "api/protocol.h"
#include "base/result.h"
#include "client/executor.h"
#include "graph/graph.h"
#include "profiler/verify/input_source.h"

namespace stitch::cli {

struct PlanCheckOptions {
  std::uint64_t seed = 1;
  std::vector<profiler::Distribution> distributions = {profiler::Distribution::mixed, profiler::Distribution::offset};
  /// Outputs larger than this are compared in boxes of up to 1024 neighbours, drawn by the seed until about as many
  /// elements are covered; the first and last elements always.
  std::int64_t most_compared = std::int64_t{1} << 14;
};

struct PlanCheck {
  bool correct = false;
  std::string failure;        ///< of a wrong plan: which result, element, values, inputs
  std::int64_t compared = 0;  ///< elements, over all inputs
};

/// Runs a whole plan as a client would, on inputs of several distributions, and compares its results with the float64
/// reference of the fragment. Unlike the verification of single kernels it needs nothing but what is stored, and it
/// covers how the kernels hand values to one another. `fragment`: canonical, the plan's. A plan that faults is a wrong
/// one, not an error. Errors: those of loading the plan and of the reference.
Result<PlanCheck> check_plan(const api::Plan& plan, const graph::Graph& fragment,
                             const client::ArtifactSource& artifacts, client::Executor& executor,
                             const PlanCheckOptions& options);

}  // namespace stitch::cli
