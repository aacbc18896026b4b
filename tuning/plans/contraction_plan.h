#pragma once

#include "base/result.h"
#include "kernel/contraction/contraction_problem.h"
#include "tuning/plans/tuned_fragment.h"
#include "tuning/plans/tuning_context.h"

namespace stitch::tuning {

/// A plan of one launch for a fragment that is one product of matrices with its epilogue. Of the best schedules
/// (tuning/contractions/contraction_choice.h) it takes the first that compiles, or where it `verifies` the first that
/// is right; then four are built side by side, and those of them that spill come last. `problem` is product_of the
/// request's fragment.
/// Errors: as of Tuner::predict and Tuner::tune; constraint (no schedule is legal).
Result<TunedFragment> contraction_plan(const TuningContext& context, const PlanRequest& request,
                                       const kernel::ContractionProblem& problem, bool verifies);

}  // namespace stitch::tuning
