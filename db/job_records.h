#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "db/records.h"

// Background work that survives the process that does it.
namespace stitch::db {

enum class JobState : std::uint8_t { queued, running, done, failed, cancelled };

/// A job. States: queued → running → done | failed | cancelled; running → queued when its owner is gone.
struct Job {
  std::int64_t id = 0;     ///< given by the store; never used twice
  std::string kind;        ///< "tune", …
  std::string dedupe_key;  ///< at most one unfinished job per non-empty key: single flight
  int priority = 0;        ///< higher goes first, then the older
  std::string payload;     ///< any bytes; left empty by list_jobs
  JobState state = JobState::queued;
  double progress = 0;         ///< 0 … 1
  std::string message;         ///< of the last progress
  std::string result;          ///< any bytes, of a job that is done; left empty by list_jobs
  std::optional<Error> error;  ///< of a job that failed

  int attempts = 0;        ///< claims so far
  int stalled = 0;         ///< claims since progress last rose; a job is given up when it would exceed max_stalled
  int max_stalled = 10;    ///< a job that kills its owner must not do so for ever; ≥ 1
  std::string owner;       ///< who has claimed it
  std::int64_t fence = 0;  ///< number of the claim; a holder with an older one has lost the job
  std::int64_t lease_until_us = 0;
  bool cancel_requested = false;

  std::int64_t created_us = 0;
  std::int64_t started_us = 0;   ///< of the first claim; 0: not yet
  std::int64_t finished_us = 0;  ///< 0: not yet
  Provenance provenance;

  bool finished() const { return state != JobState::queued && state != JobState::running; }
  bool operator==(const Job&) const = default;
};

/// Something that happened to a job. Sequence numbers rise over all jobs; a follower passes the last one it saw.
struct JobEvent {
  std::int64_t sequence = 0;
  std::int64_t job = 0;
  std::int64_t wall_us = 0;
  std::string kind;  ///< "queued", "claimed", "progress", "requeued", "cancel", "done", "failed", "cancelled", or the
                     ///< caller's own
  double progress = 0;
  std::string detail;  ///< text, or JSON of the caller's

  bool operator==(const JobEvent&) const = default;
};

std::string_view to_string(JobState state);
std::optional<JobState> job_state_of(std::string_view text);

/// What the store checks before it enqueues a job; invalid_argument names the field.
Status validate(const Job& job);

}  // namespace stitch::db
