#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "tuning/plans/remembering_tuner.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// A distinct kernel of a model's plans.
struct ModelKernel {
  search::SharedKernel kernel;
  Hash128 fragment, family;             ///< of the first fragment that has it
  const graph::Graph* graph = nullptr;  ///< that fragment, canonical
  std::string name;                     ///< where that fragment first stands
  std::int64_t occurrences = 0;         ///< how often the kernel runs in one run of the model
};

/// Adds a plan's kernels to those of a model; one that is there already runs more often then. `fragment` says where the
/// plan is and how often that runs; its kernel is not looked at.
void add_kernels(const search::FusionPlan& plan, ModelKernel fragment, std::vector<ModelKernel>& kernels);

/// What a model's budget of trials went into, and what it brought.
struct ModelSearch {
  std::int64_t trials = 0;   ///< candidates that were tried
  std::int64_t failed = 0;   ///< candidates that were tried and failed
  std::int64_t kernels = 0;  ///< kernels that were searched
  std::int64_t settled = 0;  ///< kernels that were searched until nothing worth a trial was left
  /// Time of one run of the model, by medians of its kernels; counts are no times and save none.
  double saved_us = 0;
  double seconds = 0;
  std::set<Hash128> changed;  ///< kernels of which another candidate is the fastest now
};

/// Shares `trials` among the kernels by what they may gain (Tuner::measure_headroom × occurrences) and searches one
/// after the other, the largest gain first. What one leaves, because its search settles or its space ends, goes to
/// those behind it. `memory` (may be null) knows what was tried before, and keeps what is. A kernel whose search fails
/// is passed over. Errors: cancelled; those of the store.
Result<ModelSearch> search_kernels(std::span<const ModelKernel> kernels, const Tuner& tuner, RememberingTuner* memory,
                                   std::int64_t trials, const ProgressSink& progress, const std::stop_token& stop);

}  // namespace stitch::tuning
