#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "base/hash.h"
#include "base/result.h"

namespace stitch::tuning {

/// What the tuning of a fragment and of a model consist of. Each reports its progress from one share of the whole to
/// another.
struct TuningSteps {
  /// Makes plans for what is not settled, and for what has one of the kernels that changed.
  std::function<Status(double from, double until, const std::set<Hash128>& changed)> tune;
  /// Tries further candidates of the kernels; gives the kernels of which another candidate is the fastest now.
  std::function<Result<std::set<Hash128>>(double from, double until)> search;
};

struct TuningEffort {
  std::int64_t trials = 0;      ///< of the search; 0: there is none
  bool compares_plans = false;  ///< whether a plan that is measured later can take the place of an earlier one
  double from = 0;              ///< share of the whole that is done already
  double first_until = 0.4;     ///< share that is done when the first plans are made
};

/// Takes the steps: first plans, a search, and plans again where the search changed something. Somebody may wait for a
/// plan that is measured at all, and so the first plans come before the search. Where plans cannot be compared, the
/// first one stays, and so it is made last. Errors: those of the steps.
Status take_steps(const TuningSteps& steps, const TuningEffort& effort);

}  // namespace stitch::tuning
