#include "driver/state/stream_clock.h"

#include <algorithm>

namespace stitch::driver {
namespace {

using Entry = std::pair<std::uint32_t, std::uint64_t>;

}  // namespace

std::uint64_t StreamClock::at(std::uint32_t queue) const {
  const auto found = std::ranges::lower_bound(times_, queue, {}, &Entry::first);
  return found != times_.end() && found->first == queue ? found->second : 0;
}

void StreamClock::advance(std::uint32_t queue, std::uint64_t time) {
  if (time == 0) return;  // a queue that nothing was given knows, and makes wait for, nothing
  const auto found = std::ranges::lower_bound(times_, queue, {}, &Entry::first);
  if (found != times_.end() && found->first == queue) {
    found->second = std::max(found->second, time);
  } else {
    times_.insert(found, {queue, time});
  }
}

void StreamClock::join(const StreamClock& other) {
  for (const auto& [queue, time] : other.times_) advance(queue, time);
}

}  // namespace stitch::driver
