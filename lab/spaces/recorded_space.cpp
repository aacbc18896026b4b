#include "lab/spaces/recorded_space.h"

#include <algorithm>

namespace stitch::lab {

std::optional<std::size_t> RecordedSpace::fastest() const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (!trials[i].failure && (!best || trials[i].time_us < trials[*best].time_us)) best = i;
  }
  return best;
}

std::size_t RecordedSpace::failures() const {
  return std::ranges::count_if(trials, [](const RecordedTrial& trial) { return trial.failure.has_value(); });
}

}  // namespace stitch::lab
