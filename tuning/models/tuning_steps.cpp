#include "tuning/models/tuning_steps.h"

namespace stitch::tuning {

Status take_steps(const TuningSteps& steps, const TuningEffort& effort) {
  constexpr double searched_until = 0.9;
  if (effort.trials == 0) return steps.tune(effort.from, 1, {});
  double done = effort.from;
  if (effort.compares_plans) {
    STITCH_TRY(steps.tune(done, effort.first_until, {}));
    done = effort.first_until;
  }
  STITCH_ASSIGN(const std::set<Hash128> changed, steps.search(done, searched_until));
  return steps.tune(searched_until, 1, changed);
}

}  // namespace stitch::tuning
