#pragma once

#include "base/result.h"
#include "tuning/plans/tuned_fragment.h"
#include "tuning/plans/tuning_context.h"

// From a canonical fragment to a plan: explore (search/partition), generate and compile (tuning/kernels), verify and
// measure where that is wanted, lay the workspace out (tuning/plans/plan_builder.h), and write down what was found
// (tuning/plans/tuning_records.h). Both run inside the context's arena, and need its workshop.
namespace stitch::tuning {

/// As Tuner::predict.
Result<TunedFragment> predict_plan(const TuningContext& context, const PlanRequest& request);
/// As Tuner::tune.
Result<TunedFragment> tune_plan(const TuningContext& context, const PlanRequest& request);

}  // namespace stitch::tuning
