#include "daemon/jobs/job_runner.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace stitch::daemon {
namespace {

/// Jobs are work for when nobody waits: the thread, and those it starts, yield to those that answer requests. On Linux
/// a thread has a niceness of its own.
void yield_to_requests() {
  constexpr int yields = 10, most = 19;
  const auto thread = static_cast<id_t>(::gettid());
  ::setpriority(PRIO_PROCESS, thread, std::min(most, ::getpriority(PRIO_PROCESS, thread) + yields));
}

}  // namespace

void JobRunner::Active::halt(StopReason why) {
  StopReason none = StopReason::none;
  reason.compare_exchange_strong(none, why);  // the first reason stands
  stop.request_stop();
}

JobRunner::JobRunner(db::Store& store, const Clock& clock, JobRunnerOptions options,
                     std::map<std::string, JobWork> work)
    : store_(store), clock_(clock), options_(std::move(options)), work_(std::move(work)) {
  for (const auto& [kind, unused] : work_) kinds_.push_back(kind);
}

JobRunner::~JobRunner() {
  if (const Status stopped = stop(); !stopped) complain(stopped.error());
}

void JobRunner::start() {
  for (int i = 0; i < options_.workers; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work_loop(stop); });
  }
  threads_.emplace_back([this](const std::stop_token& stop) { renew_loop(stop); });
}

void JobRunner::wake() {
  {
    const std::lock_guard lock(mutex_);
    ++wakes_;
  }
  wake_.notify_all();
}

void JobRunner::cancelled(std::int64_t job) {
  const std::lock_guard lock(mutex_);
  for (const auto& active : active_) {
    if (active->id == job) active->halt(StopReason::cancelled);
  }
}

void JobRunner::request_stop() {
  for (std::jthread& thread : threads_) thread.request_stop();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& active : active_) active->halt(StopReason::shutdown);
  }
  wake_.notify_all();
}

Status JobRunner::stop() {
  if (threads_.empty()) return {};
  request_stop();
  threads_.clear();
  const auto touched = store_.requeue_orphans({.everyone = false, .owner = options_.owner});
  tell_changed();
  return touched ? Status() : Status(touched.error());
}

int JobRunner::running() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(active_);
}

void JobRunner::work_loop(const std::stop_token& stop) {
  yield_to_requests();
  std::int64_t pause_us = options_.poll_us;
  while (!stop.stop_requested()) {
    std::int64_t seen = 0;
    {
      const std::lock_guard lock(mutex_);
      seen = wakes_;
    }
    const auto job = store_.claim_job(options_.owner, options_.lease_us, kinds_);
    if (job && *job) {
      tell_changed();
      run(**job, stop);
      pause_us = options_.poll_us;
      continue;
    }
    if (!job) complain(job.error());
    // New jobs are no reason to ask a store again that has just failed (a full disk).
    pause_us = job ? options_.poll_us : std::min(2 * pause_us, options_.most_poll_us);
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, std::chrono::microseconds(pause_us), [&] { return job && wakes_ != seen; });
  }
}

void JobRunner::renew_loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<std::shared_ptr<Active>> active;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, std::chrono::microseconds(options_.lease_us / 3), [] { return false; });
      active = active_;
    }
    if (stop.stop_requested()) return;
    for (const auto& one : active) renew(*one);
    // Jobs of others whose lease ran out are put back, so that somebody takes them.
    if (const auto touched = store_.requeue_orphans({}); !touched) {
      complain(touched.error());
    } else if (!touched->empty()) {
      tell_changed();
      wake();
    }
  }
}

void JobRunner::renew(Active& active) {
  const Result<bool> cancel = store_.renew_job(active.id, active.fence, options_.lease_us);
  if (cancel) {
    if (*cancel) active.halt(StopReason::cancelled);
  } else if (cancel.error().kind == ErrorKind::cancelled) {
    active.halt(StopReason::lost);
  } else {
    complain(cancel.error());
  }
}

void JobRunner::run(const db::Job& job, const std::stop_token& stop) {
  const auto active = std::make_shared<Active>();
  active->id = job.id;
  active->fence = job.fence;
  {
    const std::lock_guard lock(mutex_);
    active_.push_back(active);
  }
  // Whoever stopped the runner or cancelled the job between claim and registration did not see it.
  if (stop.stop_requested()) active->halt(StopReason::shutdown);
  renew(*active);
  const Result<std::string> result = do_work(job, *active);
  finish(job, *active, result);
  const std::lock_guard lock(mutex_);
  std::erase(active_, active);
}

Result<std::string> JobRunner::do_work(const db::Job& job, Active& active) {
  std::int64_t reported_us = 0;
  std::string stage;
  std::mutex reporting;
  const JobContext context(job, active.stop.get_token(), [&](const tuning::Progress& progress) {
    const std::lock_guard lock(reporting);
    const std::int64_t now = clock_.now_us();
    if (progress.stage == stage && now - reported_us < options_.report_interval_us) return;
    stage = progress.stage;
    reported_us = now;
    const std::string detail = progress.detail.empty() ? stage : fmt::format("{}: {}", stage, progress.detail);
    const double share = std::clamp(progress.share, 0.0, 1.0);
    const Status written = store_.report_progress(job.id, active.fence, share, detail, "");
    if (written) {
      tell_changed();
    } else if (written.error().kind == ErrorKind::cancelled) {
      active.halt(StopReason::lost);
    } else {
      complain(written.error());
    }
  });
  try {
    return work_.at(job.kind)(context);
  } catch (const std::exception& exception) {
    return make_error(ErrorKind::internal, "{}", exception.what());
  }
}

void JobRunner::finish(const db::Job& job, const Active& active, const Result<std::string>& result) {
  const StopReason reason = active.reason;
  db::JobEnd end;
  if (result) {
    end.result = *result;
  } else if (reason == StopReason::cancelled) {
    end.state = db::JobState::cancelled;
  } else if (reason == StopReason::none) {
    end.state = db::JobState::failed;
    end.error = result.error();
  } else {
    return;  // lost: another's now. Shutdown: stop() puts it back.
  }
  const Status written = store_.finish_job(job.id, active.fence, end);
  if (!written && written.error().kind != ErrorKind::cancelled) complain(written.error());
  tell_changed();
}

void JobRunner::tell_changed() const {
  if (options_.changed) options_.changed();
}

void JobRunner::complain(const Error& error) {
  if (!options_.complain) return;
  constexpr std::int64_t again_us = 60'000'000;
  std::string message = error.message;
  {
    const std::lock_guard lock(mutex_);
    const bool known = message == complaint_ && clock_.now_us() - complained_us_ < again_us;
    if (known) {
      ++swallowed_;
      return;
    }
    complaint_ = message;
    complained_us_ = clock_.now_us();
    if (const std::int64_t times = std::exchange(swallowed_, 0); times > 0) {
      message += fmt::format(" (the last such failure was met {} more times)", times);
    }
  }
  options_.complain(message);
}

}  // namespace stitch::daemon
