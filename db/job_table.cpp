#include "db/job_table.h"

#include <algorithm>
#include <cmath>

#include "db/listing.h"
#include "db/record_columns.h"

namespace stitch::db::tables {
namespace {

using sqlite::Blob;
using sqlite::Connection;
using sqlite::Statement;

/// Columns of a job. Listings leave payload and result out.
std::string job_columns(bool with_bytes) {
  Columns columns = Columns::of<Job>(Columns::Purpose::select);
  if (!with_bytes) columns.instead_of("payload", "x''").instead_of("result", "x''");
  return columns.list();
}

Result<Job> read_job(const Statement& rows) { return read_record<Job>(rows, "job"); }

Status add_event(Connection& connection, std::int64_t job, std::string_view kind, double progress,
                 std::string_view detail, std::int64_t now_us) {
  const JobEvent event{0, job, now_us, std::string(kind), progress, std::string(detail)};
  STITCH_TRY(insert(connection, {.table = "job_event"}, event));
  return {};
}

/// The job, if the holder of this fence still holds it.
Result<Job> held_job(Connection& connection, std::int64_t id, std::int64_t fence) {
  STITCH_ASSIGN(Job job, select_job(connection, id));
  if (job.state == JobState::running && job.fence == fence) return job;
  if (job.state == JobState::running)
    return make_error(ErrorKind::cancelled, "job {}: claim {} is lost, \"{}\" holds it by claim {}", id, fence,
                      job.owner, job.fence);
  return make_error(ErrorKind::cancelled, "job {}: claim {} is lost, the job is {}", id, fence, to_string(job.state));
}

/// Writes the end of a job and its event.
Status end_job(Connection& connection, const Job& job, const JobEnd& end, std::int64_t now_us) {
  const bool done = end.state == JobState::done;
  const bool failed = end.state == JobState::failed;
  const double progress = done ? 1.0 : job.progress;
  std::optional<std::string> kind, message;
  if (failed) {
    kind = std::string(to_string(end.error->kind));
    message = end.error->message;
  }
  STITCH_TRY(connection.execute(
      "UPDATE job SET state = ?, progress = ?, result = ?, error_kind = ?, error_message = ?, "
      "owner = '', lease_until_us = 0, finished_us = ? WHERE id = ?",
      to_string(end.state), progress, Blob{done ? end.result : std::string_view()}, kind, message, now_us, job.id));
  return add_event(connection, job.id, to_string(end.state), progress, message.value_or(""), now_us);
}

/// An unfinished job that a new one joins; a higher priority moves it forward.
Result<EnqueuedJob> join(Connection& connection, Job existing, const Job& wanted) {
  if (wanted.priority > existing.priority) {
    STITCH_TRY(connection.execute("UPDATE job SET priority = ? WHERE id = ?", wanted.priority, existing.id));
    existing.priority = wanted.priority;
  }
  return EnqueuedJob{std::move(existing), true};
}

Status requeue(Connection& connection, const Job& job, std::int64_t now_us) {
  if (job.cancel_requested) return end_job(connection, job, {JobState::cancelled, {}, {}}, now_us);
  if (job.stalled >= job.max_stalled) {
    Error error = make_error(ErrorKind::runtime, "given up after {} attempts without progress, the last by \"{}\"",
                             job.stalled, job.owner);
    return end_job(connection, job, {JobState::failed, {}, std::move(error)}, now_us);
  }
  STITCH_TRY(
      connection.execute("UPDATE job SET state = 'queued', owner = '', lease_until_us = 0 WHERE id = ?", job.id));
  return add_event(connection, job.id, "requeued", job.progress, fmt::format("\"{}\" is gone", job.owner), now_us);
}

}  // namespace

Result<EnqueuedJob> enqueue_job(Connection& connection, const Job& job, std::int64_t max_queued, std::int64_t now_us) {
  STITCH_TRY(validate(job));
  STITCH_ASSIGN(std::optional<Job> existing, select_unfinished_job(connection, job.dedupe_key));
  if (existing) return join(connection, std::move(*existing), job);
  STITCH_ASSIGN(const std::int64_t queued, connection.integer("SELECT count(*) FROM job WHERE state = 'queued'"));
  if (queued >= max_queued)
    return make_error(ErrorKind::resource_exhausted, "the queue is full: {} jobs are waiting", queued);
  Job fresh;
  fresh.kind = job.kind;
  fresh.dedupe_key = job.dedupe_key;
  fresh.priority = job.priority;
  fresh.payload = job.payload;
  fresh.max_stalled = job.max_stalled;
  fresh.created_us = now_us;
  fresh.provenance = job.provenance;
  STITCH_TRY(insert(connection, {.table = "job"}, fresh));
  const std::int64_t id = connection.last_row();
  STITCH_TRY(add_event(connection, id, "queued", 0, "", now_us));
  STITCH_ASSIGN(Job stored, select_job(connection, id));
  return EnqueuedJob{std::move(stored), false};
}

Result<std::optional<Job>> claim_job(Connection& connection, std::string_view owner, std::int64_t lease_us,
                                     std::span<const std::string> kinds, std::int64_t now_us) {
  std::int64_t id = 0;
  {
    STITCH_ASSIGN(Statement queue,
                  connection.query("SELECT id, kind FROM job WHERE state = 'queued' ORDER BY priority DESC, id"));
    while (id == 0) {
      STITCH_ASSIGN(const bool more, queue.step());
      if (!more) return std::optional<Job>();
      if (kinds.empty() || std::find(kinds.begin(), kinds.end(), queue.bytes(1)) != kinds.end()) id = queue.integer(0);
    }
  }
  STITCH_TRY(connection.execute(
      "UPDATE job SET state = 'running', owner = ?, fence = fence + 1, attempts = attempts + 1, stalled = stalled + 1, "
      "lease_until_us = ?, started_us = CASE WHEN started_us = 0 THEN ? ELSE started_us END WHERE id = ?",
      owner, now_us + lease_us, now_us, id));
  STITCH_ASSIGN(Job job, select_job(connection, id));
  STITCH_TRY(add_event(connection, id, "claimed", job.progress, owner, now_us));
  return std::optional<Job>(std::move(job));
}

Result<bool> renew_job(Connection& connection, std::int64_t id, std::int64_t fence, std::int64_t lease_us,
                       std::int64_t now_us) {
  STITCH_ASSIGN(const Job job, held_job(connection, id, fence));
  STITCH_TRY(connection.execute("UPDATE job SET lease_until_us = ? WHERE id = ?", now_us + lease_us, id));
  return job.cancel_requested;
}

Status report_progress(Connection& connection, std::int64_t id, std::int64_t fence, double progress,
                       std::string_view detail, std::string_view event_kind, std::int64_t now_us) {
  if (!(progress >= 0 && progress <= 1))
    return make_error(ErrorKind::invalid_argument, "job {}: progress {} is not between 0 and 1", id, progress);
  STITCH_ASSIGN(const Job job, held_job(connection, id, fence));
  const double reached = std::max(progress, job.progress);
  const int stalled = reached > job.progress ? 0 : job.stalled;
  STITCH_TRY(connection.execute("UPDATE job SET progress = ?, message = ?, stalled = ? WHERE id = ?", reached, detail,
                                stalled, id));
  return add_event(connection, id, event_kind.empty() ? "progress" : event_kind, reached, detail, now_us);
}

Status finish_job(Connection& connection, std::int64_t id, std::int64_t fence, const JobEnd& end, std::int64_t now_us) {
  if (end.state == JobState::queued || end.state == JobState::running)
    return make_error(ErrorKind::invalid_argument, "job {}: {} is no end", id, to_string(end.state));
  if ((end.state == JobState::failed) != end.error.has_value())
    return make_error(ErrorKind::invalid_argument, "job {}: an error goes with state failed only", id);
  STITCH_ASSIGN(const Job job, held_job(connection, id, fence));
  return end_job(connection, job, end, now_us);
}

Result<Job> cancel_job(Connection& connection, std::int64_t id, std::int64_t now_us) {
  STITCH_ASSIGN(const Job job, select_job(connection, id));
  if (job.state == JobState::queued) {
    STITCH_TRY(end_job(connection, job, {JobState::cancelled, {}, {}}, now_us));
  } else if (job.state == JobState::running && !job.cancel_requested) {
    STITCH_TRY(connection.execute("UPDATE job SET cancel_requested = 1 WHERE id = ?", id));
    STITCH_TRY(add_event(connection, id, "cancel", job.progress, "", now_us));
  }
  return select_job(connection, id);
}

Result<std::vector<std::int64_t>> requeue_orphans(Connection& connection, const OrphanRule& rule, std::int64_t now_us) {
  std::vector<Job> orphans;
  {
    const std::string sql = fmt::format(
        "SELECT {} FROM job WHERE state = 'running' AND (lease_until_us < ? OR ? OR (owner = ? AND owner <> '')) "
        "ORDER BY id",
        job_columns(false));
    STITCH_ASSIGN(Statement rows, connection.query(sql, now_us, rule.everyone, rule.owner));
    STITCH_ASSIGN(orphans, read_records<Job>(rows, "job"));
  }
  std::vector<std::int64_t> touched;
  for (const Job& job : orphans) {
    STITCH_TRY(requeue(connection, job, now_us));
    touched.push_back(job.id);
  }
  return touched;
}

Result<Job> select_job(Connection& connection, std::int64_t id) {
  STITCH_ASSIGN(Statement rows,
                connection.query(fmt::format("SELECT {} FROM job WHERE id = ?", job_columns(true)), id));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no job {}", id);
  return read_job(rows);
}

Result<std::optional<Job>> select_unfinished_job(Connection& connection, std::string_view dedupe_key) {
  if (dedupe_key.empty()) return std::optional<Job>();
  const std::string sql =
      fmt::format("SELECT {} FROM job WHERE dedupe_key = ? AND dedupe_key <> '' AND state IN ('queued', 'running')",
                  job_columns(true));
  STITCH_ASSIGN(Statement rows, connection.query(sql, dedupe_key));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<Job>();
  STITCH_ASSIGN(Job job, read_job(rows));
  return std::optional<Job>(std::move(job));
}

Result<Listing<Job>> select_jobs(Connection& connection, const JobFilter& filter, const Page& page) {
  std::optional<std::string> state;
  if (filter.state) state = std::string(to_string(*filter.state));
  const std::string sql = fmt::format("SELECT {} FROM job WHERE {} AND (?2 = '' OR kind = ?2)", job_columns(false),
                                      filter.state ? "state = ?1" : "?1 IS NULL");
  return list_page<Job>(connection, sql, "id", page, read_job, state, filter.kind);
}

Result<Listing<JobEvent>> select_job_events(Connection& connection, std::int64_t job, const Page& page) {
  const std::string sql =
      fmt::format("SELECT {} FROM job_event WHERE {}", columns_of<JobEvent>(), job == 0 ? "?1 = 0" : "job = ?1");
  return list_page<JobEvent>(
      connection, sql, "sequence", page, [](const Statement& rows) { return read_record<JobEvent>(rows, "job_event"); },
      job);
}

}  // namespace stitch::db::tables
