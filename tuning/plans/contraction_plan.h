#pragma once

#include "base/result.h"
#include "tuning/plans/tuned_fragment.h"
#include "tuning/plans/tuning_context.h"

namespace stitch::tuning {

/// A plan of one launch for a fragment of the matmul class: a product of matrices with its epilogue, or an attention.
/// Of the best schedules (tuning/contractions/product_kernels.h) it takes the first that compiles, or where it
/// `verifies` the first that is right; then four are built side by side, and those of them that spill where it is
/// missed come last. Errors: as of Tuner::predict and Tuner::tune; unsupported (the fragment is none); constraint (no
/// schedule is legal).
Result<TunedFragment> contraction_plan(const TuningContext& context, const PlanRequest& request, bool verifies);

}  // namespace stitch::tuning
