#include "client/plan_watcher.h"

#include <algorithm>

namespace stitch::client {

void PlanWatcher::add(std::weak_ptr<PlanHandle> handle) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  handles_.push_back(std::move(handle));
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void PlanWatcher::stop() {
  std::jthread ending;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    ending = std::move(thread_);
  }
}

std::size_t PlanWatcher::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(handles_, [](const auto& each) { return !each.expired(); }));
}

void PlanWatcher::watch(const std::stop_token& stop) {
  using std::chrono::steady_clock;
  while (!stop.stop_requested()) {
    std::vector<std::weak_ptr<PlanHandle>> round;
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(handles_, [](const auto& each) { return each.expired(); });
      round = handles_;
    }
    const auto began = steady_clock::now();
    for (const std::weak_ptr<PlanHandle>& each : round) {
      if (stop.stop_requested()) return;
      // What fails is asked again in the next round.
      if (const std::shared_ptr<PlanHandle> handle = each.lock()) (void)handle->check_for_update().ok();
    }
    const auto rest = std::max<steady_clock::duration>(rest_, 19 * (steady_clock::now() - began));
    std::unique_lock lock(mutex_);
    resting_.wait_for(lock, stop, rest, [] { return false; });
  }
}

}  // namespace stitch::client
