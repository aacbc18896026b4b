#include "daemon/jobs/single_flight.h"

#include <algorithm>
#include <exception>

namespace stitch::daemon {
namespace {

/// Failures are remembered to spare work; a flood of different ones must not fill memory.
constexpr std::size_t most_failures = 4096;

Error shutting_down() { return make_error(ErrorKind::cancelled, "the server is shutting down"); }

}  // namespace

Status Flight::get() const {
  state_->landing.wait(0, Notifier::Deadline::max());
  return state_->status;
}

void Flight::land(Status status) const {
  state_->status = std::move(status);
  state_->landing.notify();
}

SingleFlight::SingleFlight(SingleFlightOptions options, const Clock& clock) : options_(options), clock_(clock) {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work_loop(stop); });
  }
  threads_.emplace_back([this](const std::stop_token& stop) { watch_loop(stop); });
}

SingleFlight::~SingleFlight() {
  request_stop();
  threads_.clear();
}

void SingleFlight::request_stop() {
  for (std::jthread& thread : threads_) thread.request_stop();
  std::deque<Task> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Running& running : running_) running.stop.request_stop();
    dropped.swap(queue_);
  }
  for (const Task& task : dropped) land(task, shutting_down());
}

Result<Flight> SingleFlight::join(const db::PlanKey& key, Work work) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return shutting_down();
  if (const auto flight = flights_.find(key); flight != flights_.end()) return flight->second;
  if (const auto failure = failures_.find(key); failure != failures_.end()) {
    if (clock_.now_us() < failure->second.until_us) {
      const Flight failed;
      failed.land(failure->second.error);
      return failed;
    }
    failures_.erase(failure);
  }
  if (std::ssize(flights_) >= options_.most_waiting) {
    return make_error(ErrorKind::resource_exhausted, "{} predictions are under way", flights_.size());
  }
  const Flight flight;
  flights_.emplace(key, flight);
  queue_.push_back({key, std::move(work), flight});
  wake_.notify_all();
  return flight;
}

int SingleFlight::under_way() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(flights_);
}

void SingleFlight::work_loop(const std::stop_token& stop) {
  while (true) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait(lock, stop, [&] { return !queue_.empty(); }) || stop.stop_requested()) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    land(task, run(task));
  }
}

Status SingleFlight::run(const Task& task) {
  std::list<Running>::iterator running;
  {
    const std::lock_guard lock(mutex_);
    running = running_.insert(running_.end(), {{}, std::chrono::steady_clock::now() + options_.most_time});
    if (stopping_) running->stop.request_stop();
  }
  wake_.notify_all();
  Status status;
  try {
    status = task.work(running->stop.get_token());
  } catch (const std::exception& exception) {
    status = make_error(ErrorKind::internal, "{}", exception.what());
  }
  const std::lock_guard lock(mutex_);
  if (running->late && !status && status.error().kind == ErrorKind::cancelled) {
    status = make_error(ErrorKind::timeout, "a plan could not be predicted within {} s",
                        std::chrono::duration<double>(options_.most_time).count());
  }
  running_.erase(running);
  return status;
}

/// Tells work to stop when its time is over.
void SingleFlight::watch_loop(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto now = std::chrono::steady_clock::now();
    auto next = now + options_.most_time;  // what begins later ends later
    for (Running& running : running_) {
      if (running.until <= now && !running.late) {
        running.late = true;
        running.stop.request_stop();
      }
      if (!running.late) next = std::min(next, running.until);
    }
    wake_.wait_until(lock, stop, next, [] { return false; });
  }
}

void SingleFlight::land(const Task& task, const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    flights_.erase(task.key);
    if (!status) {
      if (failures_.size() >= most_failures) failures_.clear();
      failures_[task.key] = {status.error(), clock_.now_us() + options_.remember_failure_us};
    }
  }
  task.flight.land(status);
}

}  // namespace stitch::daemon
