#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "db/store.h"
#include "tuning/plans/progress.h"

namespace stitch::daemon {

struct JobRunnerOptions {
  int workers = 1;
  std::string owner;                          ///< unique among all who share the store: "stitchd 4711 @ …"
  std::int64_t lease_us = 30'000'000;         ///< a claim that is not renewed for so long is up for grabs
  std::int64_t poll_us = 1'000'000;           ///< how often the queue is looked at without being woken
  std::int64_t report_interval_us = 200'000;  ///< progress within a stage is written at most this often
  std::int64_t most_poll_us = 30'000'000;     ///< likewise while the store fails: each time twice as long as before
  /// Told of failures that no job can hold (the store is gone); of equal ones in a row once a minute.
  std::function<void(std::string_view)> complain;
  std::function<void()> changed;  ///< told when jobs, or what they keep, may have changed in the store
};

/// What a job's work gets: its record, a way to tell how far it is, and whether to stop.
class JobContext {
 public:
  JobContext(const db::Job& job, std::stop_token stop, std::function<void(const tuning::Progress&)> report)
      : job_(job), stop_(std::move(stop)), report_(std::move(report)) {}

  [[nodiscard]] const db::Job& job() const { return job_; }
  [[nodiscard]] std::stop_token stop() const { return stop_; }
  void report(const tuning::Progress& progress) const { report_(progress); }

 private:
  const db::Job& job_;
  std::stop_token stop_;
  std::function<void(const tuning::Progress&)> report_;
};

/// The work of one kind of job: its result's bytes, or why it failed. It must return soon after its stop token fires,
/// with kind cancelled, and must stand being started again after any instruction of it.
using JobWork = std::function<Result<std::string>(const JobContext&)>;

/// Threads that claim jobs, keep their leases alive, and record how they end. A job that is cancelled ends as such; one
/// that is running when the runner stops goes back to the queue; one whose claim was lost is abandoned silently.
class JobRunner {
 public:
  /// `store` and `clock` must outlive it. Kinds of jobs without an entry in `work` are left to others.
  JobRunner(db::Store& store, const Clock& clock, JobRunnerOptions options, std::map<std::string, JobWork> work);
  ~JobRunner();

  /// Starts the threads.
  void start();
  /// There may be a new job.
  void wake();
  /// The job was cancelled in the store: tells its work now instead of at the next renewal.
  void cancelled(std::int64_t job);
  /// Asks running work to stop, and waits for none of it.
  void request_stop();
  /// Asks running work to stop, waits for it, and puts unfinished jobs back into the queue. Errors: of the store.
  Status stop();

  [[nodiscard]] int running() const;

 private:
  enum class StopReason : unsigned char { none, cancelled, lost, shutdown };
  struct Active {
    std::int64_t id = 0, fence = 0;
    std::stop_source stop;
    std::atomic<StopReason> reason{StopReason::none};

    void halt(StopReason why);
  };

  void work_loop(const std::stop_token& stop);
  void renew_loop(const std::stop_token& stop);
  void run(const db::Job& job, const std::stop_token& stop);
  Result<std::string> do_work(const db::Job& job, Active& active);
  void finish(const db::Job& job, const Active& active, const Result<std::string>& result);
  void renew(Active& active);
  void complain(const Error& error);
  void tell_changed() const;

  db::Store& store_;
  const Clock& clock_;
  const JobRunnerOptions options_;
  const std::map<std::string, JobWork> work_;
  std::vector<std::string> kinds_;

  mutable std::mutex mutex_;  ///< guards what follows, up to the threads
  std::condition_variable_any wake_;
  std::int64_t wakes_ = 0;
  std::vector<std::shared_ptr<Active>> active_;
  std::string complaint_;           ///< the last one
  std::int64_t complained_us_ = 0;  ///< when that was told
  std::int64_t swallowed_ = 0;      ///< how often it would have been told again since

  std::vector<std::jthread> threads_;
};

}  // namespace stitch::daemon
