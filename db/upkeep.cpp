#include "db/upkeep.h"

#include "db/artifact_table.h"
#include "db/migrations.h"
#include "db/plan_table.h"
#include "db/record_columns.h"

namespace stitch::db::tables {
namespace {

using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

/// Adds the counts of a query for (word, count) to an array indexed by the word's enumeration.
template <class Enum>
Status count_by(Connection& connection, std::string_view sql, std::optional<Enum> (*parse)(std::string_view),
                std::int64_t* counts) {
  STITCH_ASSIGN(Statement rows, connection.query(sql));
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return {};
    Row row(rows, "statistics");
    const Enum value = row.word(parse);
    STITCH_TRY(row.status());
    counts[static_cast<std::size_t>(value)] = row.integer();
  }
}

/// One line per row of a query whose rows are problems.
Status collect(Connection& connection, std::string_view sql, std::vector<std::string>& problems) {
  STITCH_ASSIGN(Statement rows, connection.query(sql));
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return {};
    if (std::string text(rows.bytes(0)); text != "ok") problems.push_back(std::move(text));
  }
}

/// The first column of a query's rows, each a name by content or by fields.
template <class Name>
Result<std::vector<Name>> names(Connection& connection, std::string_view sql) {
  STITCH_ASSIGN(Statement rows, connection.query(sql));
  std::vector<Name> all;
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return all;
    Row row(rows, "integrity check");
    RowReader reader(row);
    reader("", all.emplace_back());
    STITCH_TRY(row.status());
  }
}

/// Reads every record of a kind that can be checked against its own hash.
template <class Name, class Read>
Status check_each(Connection& connection, std::string_view sql, const Read& read, IntegrityReport& report) {
  STITCH_ASSIGN(const std::vector<Name> all, names<Name>(connection, sql));
  for (const Name& name : all) {
    const auto record = read(connection, name);
    if (record) continue;
    if (record.error().kind != ErrorKind::corrupt) return record.error();
    report.problems.push_back(record.error().message);
  }
  return {};
}

// What must hold between rows and no constraint says.
constexpr std::string_view false_claims =
    "SELECT 'plan ' || lower(hex(p.id)) || ' is labelled measured without a measurement of device time' FROM plan p "
    "WHERE p.label = 'measured' AND NOT EXISTS (SELECT 1 FROM measurement m WHERE m.subject = p.id "
    "AND m.subject_kind = 'plan' AND m.kind = 'device time')";
constexpr std::string_view lost_promotions =
    "SELECT 'plan ' || lower(hex(p.id)) || ' is served without a promotion' FROM plan p WHERE p.status = 'incumbent' "
    "AND NOT EXISTS (SELECT 1 FROM promotion o WHERE o.sequence = p.sequence AND o.plan = p.id)";

}  // namespace

Result<StoreStatistics> count_records(Connection& connection) {
  StoreStatistics statistics;
  const std::pair<const char*, std::int64_t*> counts[] = {
      {"SELECT count(*) FROM device", &statistics.devices},
      {"SELECT count(*) FROM fragment", &statistics.fragments},
      {"SELECT count(*) FROM workload", &statistics.workloads},
      {"SELECT count(*) FROM plan", &statistics.plans},
      {"SELECT count(*) FROM plan WHERE status = 'incumbent'", &statistics.incumbents},
      {"SELECT count(*) FROM kernel", &statistics.kernels},
      {"SELECT count(*) FROM artifact", &statistics.artifacts},
      {"SELECT count(*) FROM candidate", &statistics.candidates},
      {"SELECT count(*) FROM measurement", &statistics.measurements},
      {"SELECT count(*) FROM model", &statistics.models},
      {"SELECT count(*) FROM promotion", &statistics.promotions},
      {"SELECT coalesce(sum(raw_bytes), 0) FROM (SELECT raw_bytes FROM artifact UNION ALL SELECT raw_bytes FROM "
       "upload)",
       &statistics.artifact_raw_bytes},
      {"SELECT coalesce(sum(stored_bytes), 0) FROM "
       "(SELECT stored_bytes FROM artifact UNION ALL SELECT stored_bytes FROM upload)",
       &statistics.artifact_stored_bytes},
  };
  for (const auto& [sql, count] : counts) {
    STITCH_ASSIGN(*count, connection.integer(sql));
  }
  STITCH_TRY(count_by(connection, "SELECT state, count(*) FROM job GROUP BY state", job_state_of, statistics.jobs));
  STITCH_TRY(count_by(connection, "SELECT label, count(*) FROM plan WHERE status = 'incumbent' GROUP BY label",
                      label_of, statistics.incumbents_by_label));
  return statistics;
}

Result<PruneReport> prune(Connection& connection, const PrunePolicy& policy) {
  PruneReport report;
  STITCH_ASSIGN(report.jobs, connection.execute("DELETE FROM job WHERE state NOT IN ('queued', 'running') "
                                                "AND finished_us < ?",
                                                policy.jobs_before_us));
  // Measured plans stay: what a GPU once told is not thrown away.
  STITCH_ASSIGN(report.plans,
                connection.execute("DELETE FROM plan WHERE status IN ('superseded', 'withdrawn') AND wall_us < ? "
                                   "AND NOT EXISTS (SELECT 1 FROM measurement m WHERE m.subject = plan.id)",
                                   policy.plans_before_us));
  STITCH_ASSIGN(report.kernels,
                connection.execute("DELETE FROM kernel WHERE wall_us < ? "
                                   "AND NOT EXISTS (SELECT 1 FROM plan_step s WHERE s.kernel = kernel.hash) "
                                   "AND NOT EXISTS (SELECT 1 FROM candidate c WHERE c.kernel = kernel.hash) "
                                   "AND NOT EXISTS (SELECT 1 FROM measurement m WHERE m.subject = kernel.hash)",
                                   policy.plans_before_us));
  STITCH_ASSIGN(report.artifacts,
                connection.execute(
                    "DELETE FROM artifact WHERE wall_us < ? AND kind IN ('source', 'ptx', 'cubin', 'graph', 'log') "
                    "AND NOT EXISTS (SELECT 1 FROM kernel k WHERE k.source = artifact.hash) "
                    "AND NOT EXISTS (SELECT 1 FROM kernel k WHERE k.ptx = artifact.hash) "
                    "AND NOT EXISTS (SELECT 1 FROM kernel k WHERE k.cubin = artifact.hash) "
                    "AND NOT EXISTS (SELECT 1 FROM fragment f WHERE f.graph = artifact.hash)",
                    policy.plans_before_us));
  // A job names the file that it is about in its payload (daemon/jobs/service.cpp).
  STITCH_ASSIGN(report.models,
                connection.execute("DELETE FROM upload WHERE wall_us < ? "
                                   "AND NOT EXISTS (SELECT 1 FROM job j WHERE j.state IN ('queued', 'running') "
                                   "AND instr(j.payload, lower(hex(upload.hash))) > 0)",
                                   policy.models_before_us));
  return report;
}

Result<IntegrityReport> check_integrity(Connection& connection, bool deep) {
  IntegrityReport report;
  STITCH_TRY(collect(connection, "PRAGMA integrity_check", report.problems));
  STITCH_TRY(collect(connection,
                     "SELECT 'table ' || \"table\" || ' refers to a row of ' || parent || ' that is not there' "
                     "FROM pragma_foreign_key_check",
                     report.problems));
  STITCH_TRY(collect(connection, false_claims, report.problems));
  STITCH_TRY(collect(connection, lost_promotions, report.problems));
  if (Status schema = check_schema(connection, schema_version()); !schema)
    report.problems.push_back(schema.error().message);
  if (!deep) return report;
  STITCH_TRY(check_each<Sha256>(connection, "SELECT hash FROM artifact ORDER BY row", select_artifact, report));
  STITCH_TRY(check_each<Sha256>(connection, "SELECT hash FROM upload ORDER BY row", select_upload, report));
  STITCH_TRY(check_each<Hash128>(connection, "SELECT hash FROM kernel ORDER BY row", select_kernel, report));
  STITCH_TRY(check_each<Hash128>(connection, "SELECT id FROM plan ORDER BY row", select_plan, report));
  STITCH_ASSIGN(report.artifacts_checked, connection.integer("SELECT count(*) FROM artifact"));
  return report;
}

}  // namespace stitch::db::tables
