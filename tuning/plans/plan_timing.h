#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "tuning/plans/tuned_fragment.h"
#include "tuning/plans/tuning_context.h"

namespace stitch::tuning {

/// Times the whole plan of `tuned`, and the one that is served now beside it, on the context's timer, which there must
/// be; `built` are its kernels by launch. What was measured is added to `tuned`. A plan that could not be timed keeps
/// its label. Errors: those of the device but unsupported and unavailable.
Status time_plan(const TuningContext& context, const PlanRequest& request,
                 const std::vector<std::shared_ptr<const BuiltKernel>>& built, TunedFragment& tuned);

}  // namespace stitch::tuning
