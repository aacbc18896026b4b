#include "base/time_budget.h"

#include <algorithm>
#include <chrono>

namespace stitch {

TimeBudget::TimeBudget(std::optional<double> seconds, const std::stop_token& other)
    : other_(other, [this] { source_.request_stop(); }) {
  if (!seconds) return;
  // Of longer ones a clock would overflow; nobody waits that long.
  constexpr double longest = 1e8;
  const std::chrono::duration<double> length(std::clamp(*seconds, 0.0, longest));
  clock_ = std::jthread([this, length](const std::stop_token& ended) {
    std::unique_lock lock(mutex_);
    never_.wait_for(lock, ended, length, [] { return false; });
    if (!ended.stop_requested()) source_.request_stop();
  });
}

}  // namespace stitch
