#include "daemon/jobs/single_flight.h"

#include <exception>

namespace stitch::daemon {
namespace {

/// Failures are remembered to spare work; a flood of different ones must not fill memory.
constexpr std::size_t most_failures = 4096;

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
}

SingleFlight::~SingleFlight() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
  for (const Task& task : queue_) task.flight.land(make_error(ErrorKind::cancelled, "the server is shutting down"));
}

Result<Flight> SingleFlight::join(const db::PlanKey& key, Work work) {
  const std::lock_guard lock(mutex_);
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
  wake_.notify_one();
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
    Status status;
    try {
      status = task.work();
    } catch (const std::exception& exception) {
      status = make_error(ErrorKind::internal, "{}", exception.what());
    }
    land(task, status);
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
