#pragma once

#include "base/result.h"
#include "tuning/plans/tuned_fragment.h"
#include "tuning/plans/tuning_context.h"

// Work on one kernel beyond the first few candidates. Both run inside the context's arena, and need its workshop.
namespace stitch::tuning {

/// As Tuner::measure_headroom.
Result<double> measure_headroom(const TuningContext& context, const search::SharedKernel& kernel,
                                const std::stop_token& stop);
/// As Tuner::search.
Result<SearchedKernel> search_candidates(const TuningContext& context, const SearchRequest& request);

}  // namespace stitch::tuning
