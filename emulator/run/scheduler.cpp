#include "emulator/run/scheduler.h"

#include <chrono>

namespace stitch::emulator {

Scheduler::Scheduler(LaunchContext& context)
    : context_(context), unit_count_(context.blocks.size() / context.blocks_per_unit) {}

/// A unit that can run, or null when there is none now. Called with the lock held.
std::unique_ptr<Unit> Scheduler::next(Interpreter& interpreter, std::unique_lock<std::mutex>& lock) {
  // Fresh units first: those that wait may be waiting for all of them.
  if (started_ < unit_count_) {
    const std::uint32_t first = started_++ * context_.blocks_per_unit;
    ++running_;
    lock.unlock();
    std::unique_ptr<Unit> unit = interpreter.make_unit(first);
    lock.lock();
    return unit;
  }
  const std::uint64_t version = context_.version.load(std::memory_order_acquire);
  for (auto parked = parked_.begin(); parked != parked_.end(); ++parked) {
    if ((*parked)->parked_version == version) continue;
    std::unique_ptr<Unit> unit = std::move(*parked);
    parked_.erase(parked);
    ++running_;
    return unit;
  }
  return nullptr;
}

void Scheduler::report_all_deadlocked(Interpreter& interpreter) {
  for (const auto& unit : parked_) interpreter.report_deadlock(*unit);
  context_.stop = true;
}

bool Scheduler::looks_at_host() const {
  for (const auto& unit : parked_) {
    for (const auto& block : unit->blocks) {
      for (const Warp& warp : block->warps) {
        if (warp.alive != 0 && warp.poll.unchanged && warp.poll.of_host) return true;
      }
    }
  }
  return false;
}

void Scheduler::work(Interpreter& interpreter) {
  std::unique_lock lock(mutex_);
  while (!context_.stop && finished_ < unit_count_) {
    std::unique_ptr<Unit> unit = next(interpreter, lock);
    if (unit == nullptr) {
      if (running_ == 0 && context_.wait_for_host && looks_at_host()) {
        context_.wait_for_host();
        for (const auto& parked : parked_) parked->parked_version = ~std::uint64_t{0};
        continue;
      }
      if (running_ == 0) {
        // Nobody runs, nothing was changed since everybody looked: nothing ever will be.
        report_all_deadlocked(interpreter);
        break;
      }
      // What running units do shows in the version, without a notification.
      changed_.wait_for(lock, std::chrono::microseconds(200));
      continue;
    }
    lock.unlock();
    const Interpreter::UnitState state = interpreter.run(*unit);
    lock.lock();
    --running_;
    switch (state) {
      case Interpreter::UnitState::done:
        ++finished_;
        interpreter.recycle(std::move(unit));
        break;
      case Interpreter::UnitState::parked: parked_.push_back(std::move(unit)); break;
      case Interpreter::UnitState::stuck:
        interpreter.report_deadlock(*unit);
        context_.stop = true;
        break;
      case Interpreter::UnitState::stopped: break;
    }
    changed_.notify_all();
  }
  changed_.notify_all();
}

}  // namespace stitch::emulator
