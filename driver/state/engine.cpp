#include "driver/state/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace stitch::driver {

std::uint64_t Engine::submit(std::uint32_t queue, StreamClock after, std::function<void()> run,
                             std::function<bool()> may_run) {
  const std::lock_guard guard(mutex_);
  if (!started_) {
    started_ = true;
    std::thread thread([this] { work(); });
    thread_id_ = thread.get_id();
    thread.detach();
  }
  Queue& into = queues_[queue];
  const std::uint64_t time = ++into.submitted;
  into.waiting.push_back({queue, time, ++submissions_, std::move(after), std::move(may_run), std::move(run)});
  ++pending_;
  submitted_.notify_one();
  return time;
}

bool Engine::has_ended(const StreamClock& clock) const {
  return std::ranges::all_of(clock.times(), [this](const auto& entry) {
    const auto queue = queues_.find(entry.first);
    return queue != queues_.end() && queue->second.ended >= entry.second;
  });
}

Engine::Queue* Engine::choose() {
  std::vector<Queue*> ready;
  polls_ = false;
  for (auto& [id, queue] : queues_) {
    if (queue.waiting.empty() || !has_ended(queue.waiting.front().after)) continue;
    const auto& may_run = queue.waiting.front().may_run;
    if (!may_run || may_run()) {
      ready.push_back(&queue);
    } else {
      polls_ = true;
    }
  }
  if (ready.empty()) return nullptr;
  if (shuffled_) return ready[random_.below(ready.size())];
  return *std::ranges::min_element(ready, {}, [](const Queue* queue) { return queue->waiting.front().order; });
}

void Engine::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    Queue* next = choose();
    if (next == nullptr && polls_) {
      submitted_.wait_for(lock, std::chrono::milliseconds(1));
      continue;
    }
    if (next == nullptr) {
      submitted_.wait(lock);
      continue;
    }
    Operation operation = std::move(next->waiting.front());
    next->waiting.pop_front();
    lock.unlock();
    operation.run();
    operation.run = nullptr;  // what it holds is let go before anybody learns that it has ended
    lock.lock();
    ++next->ended;
    --pending_;
    ended_.notify_all();
  }
}

void Engine::wait(const StreamClock& clock) {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return has_ended(clock); });
}

bool Engine::is_done(const StreamClock& clock) {
  const std::lock_guard guard(mutex_);
  return has_ended(clock);
}

bool Engine::wait_for_all(double seconds) {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return pending_ == 0; });
}

std::uint64_t Engine::last(std::uint32_t queue) {
  const std::lock_guard guard(mutex_);
  const auto found = queues_.find(queue);
  return found == queues_.end() ? 0 : found->second.submitted;
}

StreamClock Engine::all() {
  const std::lock_guard guard(mutex_);
  StreamClock clock;
  for (const auto& [id, queue] : queues_) clock.advance(id, queue.submitted);
  return clock;
}

}  // namespace stitch::driver
