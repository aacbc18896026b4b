#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/sqlite.h"
#include "db/store_types.h"

// Rows of tables `job` and `job_event`: a queue with leases and fences. Callers hold the transaction and tell the
// time: `now_us` is wall time.
namespace stitch::db::tables {

Result<EnqueuedJob> enqueue_job(sqlite::Connection& connection, const Job& job, std::int64_t max_queued,
                                std::int64_t now_us);
Result<std::optional<Job>> claim_job(sqlite::Connection& connection, std::string_view owner, std::int64_t lease_us,
                                     std::span<const std::string> kinds, std::int64_t now_us);
Result<bool> renew_job(sqlite::Connection& connection, std::int64_t id, std::int64_t fence, std::int64_t lease_us,
                       std::int64_t now_us);
Status report_progress(sqlite::Connection& connection, std::int64_t id, std::int64_t fence, double progress,
                       std::string_view detail, std::string_view event_kind, std::int64_t now_us);
Status finish_job(sqlite::Connection& connection, std::int64_t id, std::int64_t fence, const JobEnd& end,
                  std::int64_t now_us);
Result<Job> cancel_job(sqlite::Connection& connection, std::int64_t id, std::int64_t now_us);
Result<std::vector<std::int64_t>> requeue_orphans(sqlite::Connection& connection, const OrphanRule& rule,
                                                  std::int64_t now_us);

Result<Job> select_job(sqlite::Connection& connection, std::int64_t id);
Result<std::optional<Job>> select_unfinished_job(sqlite::Connection& connection, std::string_view dedupe_key);
Result<Listing<Job>> select_jobs(sqlite::Connection& connection, const JobFilter& filter, const Page& page);
Result<Listing<JobEvent>> select_job_events(sqlite::Connection& connection, std::int64_t job, const Page& page);

}  // namespace stitch::db::tables
