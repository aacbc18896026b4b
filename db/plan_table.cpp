#include "db/plan_table.h"

#include <set>

#include "db/artifact_table.h"
#include "db/incumbency.h"
#include "db/listing.h"
#include "db/measurement_table.h"
#include "db/record_columns.h"

namespace stitch::db::tables {
namespace {

using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

/// A SELECT whose columns are row and those of a plan; listings leave its document out.
std::string select_from_plans(bool with_document) {
  Columns columns = Columns::of<PlanRecord>(Columns::Purpose::select, "p.");
  if (!with_document) columns.instead_of("p.document", "'{}'");
  return fmt::format("SELECT p.row, {} FROM plan p JOIN target t ON t.row = p.target", columns.list());
}

Result<PlanRecord> read_plan(const Statement& rows) { return read_record<PlanRecord>(rows, "plan", 1); }

/// The plan of the current row with its steps, checked against its id.
Result<PlanRecord> read_whole_plan(Connection& connection, const Statement& rows) {
  static const std::string sql =
      fmt::format("SELECT {} FROM plan_step WHERE plan = ? ORDER BY position", columns_of<PlanStep>());
  STITCH_ASSIGN(PlanRecord plan, read_plan(rows));
  STITCH_ASSIGN(Statement steps, connection.query(sql, rows.integer(0)));
  STITCH_ASSIGN(plan.steps, read_records<PlanStep>(steps, "plan_step"));
  if (const Hash128 id = plan_id(plan); id != plan.id)
    return make_error(ErrorKind::corrupt, "plan {}: the stored rows have id {}", plan.id.hex(), id.hex());
  return plan;
}

constexpr std::string_view is_incumbent =
    " WHERE p.fragment = ? AND p.status = 'incumbent' "
    "AND t.device = ? AND t.architecture = ? AND t.toolkit = ? AND t.version = ?";

Result<Statement> query_by_key(Connection& connection, const std::string& sql, const PlanKey& key) {
  const Target& target = key.target;
  return connection.query(sql, key.fragment, target.device, target.architecture, target.toolkit, target.version);
}

Status require_references(Connection& connection, const PlanRecord& plan) {
  STITCH_ASSIGN(const bool known, connection.exists("SELECT 1 FROM fragment WHERE key = ?", plan.key.fragment));
  if (!known)
    return make_error(ErrorKind::invalid_argument, "plan: fragment {} is not stored", plan.key.fragment.hex());
  for (const PlanStep& step : plan.steps) {
    STITCH_ASSIGN(const bool there, connection.exists("SELECT 1 FROM kernel WHERE hash = ?", step.kernel));
    if (!there) return make_error(ErrorKind::invalid_argument, "plan: kernel {} is not stored", step.kernel.hex());
  }
  return {};
}

/// Whether a plan's identity covers the same in both.
bool same_plan(const PlanRecord& a, const PlanRecord& b) {
  return a.key == b.key && a.steps == b.steps && a.document == b.document && a.bytes == b.bytes;
}

Status insert_measurements(Connection& connection, const PlanBundle& bundle, const Hash128& id) {
  for (MeasurementRecord measurement : bundle.measurements) {
    if (measurement.subject_kind == MeasurementRecord::Subject::plan) measurement.subject = id;
    STITCH_TRY(insert_measurement(connection, measurement));
  }
  if (bundle.plan.label != Label::measured) return {};
  STITCH_ASSIGN(Statement rows, connection.query("SELECT label FROM plan WHERE id = ?", id));
  STITCH_ASSIGN(const bool found, rows.step());
  if (found && rows.bytes(0) == to_string(Label::measured)) return {};
  return make_error(ErrorKind::invalid_argument, "plan: labelled measured, but without a measurement of device time");
}

template <class... Arguments>
Result<Listing<PlanRecord>> page_of_plans(Connection& connection, const std::string& condition, const Page& page,
                                          const Arguments&... arguments) {
  return list_page<PlanRecord>(connection, fmt::format("{} WHERE {}", select_from_plans(false), condition), "p.row",
                               page, read_plan, arguments...);
}

}  // namespace

Result<std::int64_t> target_row(Connection& connection, const Target& target) {
  const auto find = [&] {
    return connection.integer(
        "SELECT row FROM target WHERE device = ? AND architecture = ? AND toolkit = ? AND version = ?", target.device,
        target.architecture, target.toolkit, target.version);
  };
  if (Result<std::int64_t> row = find(); row || row.error().kind != ErrorKind::not_found) return row;
  STITCH_TRY(validate(target));
  STITCH_TRY(insert(connection, {.table = "target"}, target));
  return connection.last_row();
}

Result<bool> insert_plan_rows(Connection& connection, const PlanRecord& plan) {
  STITCH_TRY(validate(plan));
  PlanRecord stored = plan;
  stored.id = plan_id(plan);
  STITCH_ASSIGN(const bool known, connection.exists("SELECT 1 FROM plan WHERE id = ?", stored.id));
  if (known) {
    // Rows that do not fit their id any more are told of when they are read.
    const Result<PlanRecord> before = select_plan(connection, stored.id);
    if (!before || same_plan(*before, plan)) return false;
    return make_error(ErrorKind::corrupt, "plan {}: another one is stored under this id", stored.id.hex());
  }
  STITCH_TRY(require_references(connection, plan));
  STITCH_ASSIGN(const std::int64_t target, target_row(connection, plan.key.target));
  // Recording the measurement is what makes a plan measured, promoting it what makes it the incumbent.
  if (plan.label == Label::measured) stored.label = Label::predicted;
  stored.measured_us.reset();
  stored.status = PlanStatus::challenger;
  stored.sequence = 0;
  STITCH_TRY(insert(connection, {.table = "plan", .target = target}, stored));
  const std::int64_t row = connection.last_row();
  int position = 0;
  for (const PlanStep& step : plan.steps) {
    STITCH_TRY(insert(connection, {.table = "plan_step", .more_columns = {"plan", "position"}}, step, row, position++));
  }
  return true;
}

Result<PutPlan> insert_plan(Connection& connection, const PlanBundle& bundle, Admission admission) {
  for (const Artifact& artifact : bundle.artifacts) STITCH_TRY(insert_artifact(connection, artifact));
  for (const Kernel& kernel : bundle.kernels) STITCH_TRY(insert_kernel(connection, kernel));
  PutPlan put;
  put.id = plan_id(bundle.plan);
  STITCH_ASSIGN(put.inserted, insert_plan_rows(connection, bundle.plan));
  STITCH_TRY(insert_measurements(connection, bundle, put.id));
  STITCH_ASSIGN(put.incumbent, admit(connection, put.id, admission, bundle.plan.provenance));
  return put;
}

Result<PlanRecord> select_plan(Connection& connection, const Hash128& id) {
  static const std::string sql = select_from_plans(true) + " WHERE p.id = ?";
  STITCH_ASSIGN(Statement rows, connection.query(sql, id));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no plan {}", id.hex());
  return read_whole_plan(connection, rows);
}

Result<std::optional<PlanRecord>> select_incumbent(Connection& connection, const PlanKey& key) {
  static const std::string sql = select_from_plans(true) + std::string(is_incumbent);
  STITCH_ASSIGN(Statement rows, query_by_key(connection, sql, key));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<PlanRecord>();
  STITCH_ASSIGN(PlanRecord plan, read_whole_plan(connection, rows));
  return std::optional<PlanRecord>(std::move(plan));
}

Result<std::optional<PlanRecord>> select_stale_plan(Connection& connection, const PlanKey& key) {
  // Versions of a toolkit are "13.0"; as a number, that is its major version.
  static const std::string sql = fmt::format(
      "{} WHERE p.fragment = ? AND p.status = 'incumbent' AND p.verified_share > 0 "
      "AND t.device = ? AND t.architecture = ? AND (t.toolkit <> ? OR t.version <> ?) "
      "AND CAST(t.toolkit AS INTEGER) <= CAST(? AS INTEGER) "
      "ORDER BY p.label = 'measured' DESC, p.sequence DESC LIMIT 1",
      select_from_plans(true));
  const Target& target = key.target;
  STITCH_ASSIGN(Statement rows, connection.query(sql, key.fragment, target.device, target.architecture, target.toolkit,
                                                 target.version, target.toolkit));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<PlanRecord>();
  STITCH_ASSIGN(PlanRecord plan, read_whole_plan(connection, rows));
  return std::optional<PlanRecord>(std::move(plan));
}

Result<std::optional<PlanRecord>> select_served(Connection& connection, const PlanKey& key) {
  static const std::string sql = select_from_plans(false) + std::string(is_incumbent);
  STITCH_ASSIGN(Statement rows, query_by_key(connection, sql, key));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<PlanRecord>();
  STITCH_ASSIGN(PlanRecord plan, read_plan(rows));
  return std::optional<PlanRecord>(std::move(plan));
}

Result<PlanBundle> select_plan_bundle(Connection& connection, const Hash128& id) {
  PlanBundle bundle;
  STITCH_ASSIGN(bundle.plan, select_plan(connection, id));
  std::set<Hash128> seen;
  std::set<Sha256> artifacts;
  for (const PlanStep& step : bundle.plan.steps) {
    if (!seen.insert(step.kernel).second) continue;
    STITCH_ASSIGN(Kernel kernel, select_kernel(connection, step.kernel));
    for (const Sha256& hash : {kernel.source, kernel.ptx, kernel.cubin}) {
      if (!artifacts.insert(hash).second) continue;
      STITCH_ASSIGN(Artifact artifact, select_artifact(connection, hash));
      bundle.artifacts.push_back(std::move(artifact));
    }
    STITCH_ASSIGN(std::vector<MeasurementRecord> of_kernel, select_measurements(connection, step.kernel));
    std::move(of_kernel.begin(), of_kernel.end(), std::back_inserter(bundle.measurements));
    bundle.kernels.push_back(std::move(kernel));
  }
  STITCH_ASSIGN(std::vector<MeasurementRecord> of_plan, select_measurements(connection, id));
  std::move(of_plan.begin(), of_plan.end(), std::back_inserter(bundle.measurements));
  return bundle;
}

Result<Listing<PlanRecord>> select_plans(Connection& connection, const PlanFilter& filter, const Page& page) {
  const auto text = [](const auto& value) -> std::optional<std::string> {
    if (!value) return std::nullopt;
    return std::string(to_string(*value));
  };
  // The narrowest index first; the other fields are tests that NULL switches off.
  const std::string rest =
      "(?1 IS NULL OR p.fragment = ?1) AND (?2 IS NULL OR p.fragment IN (SELECT key FROM fragment WHERE family = ?2)) "
      "AND (?3 IS NULL OR t.device = ?3) AND (?4 IS NULL OR p.label = ?4) AND (?5 IS NULL OR p.status = ?5) "
      "AND (?6 IS NULL OR p.row IN (SELECT s.plan FROM plan_step s JOIN kernel k ON k.hash = s.kernel "
      "WHERE k.source = ?6 OR k.ptx = ?6 OR k.cubin = ?6))";
  const std::string condition = filter.fragment ? "p.fragment = ?1 AND " + rest
                                : filter.family
                                    ? "p.fragment IN (SELECT key FROM fragment WHERE family = ?2) AND " + rest
                                    : rest;
  return page_of_plans(connection, condition, page, filter.fragment, filter.family, filter.device, text(filter.label),
                       text(filter.status), filter.artifact);
}

Result<std::vector<Hash128>> plans_of(Connection& connection, const Hash128& fragment) {
  STITCH_ASSIGN(Statement rows, connection.query("SELECT id FROM plan WHERE fragment = ? ORDER BY row", fragment));
  std::vector<Hash128> ids;
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return ids;
    Row row(rows, "plan");
    ids.push_back(row.hash());
    STITCH_TRY(row.status());
  }
}

Status judge_plan(Connection& connection, const Hash128& id, const PlanJudgement& judgement) {
  if (judgement.label == Label::measured)
    return make_error(ErrorKind::invalid_argument, "judgement: only a measurement makes a plan measured");
  STITCH_ASSIGN(PlanRecord plan, select_plan(connection, id));
  plan.label = judgement.label;
  plan.neighbour = judgement.neighbour;
  plan.predicted_us = judgement.predicted_us;
  plan.verified_share = judgement.verified_share;
  plan.provenance = judgement.provenance;
  STITCH_TRY(validate(plan));
  if (plan.measured_us) {
    STITCH_TRY(connection.execute("UPDATE plan SET predicted_us = ?, verified_share = ? WHERE id = ?",
                                  plan.predicted_us, plan.verified_share, id));
    return {};
  }
  static const std::string sql =
      fmt::format("UPDATE plan SET {} WHERE id = ?", Columns::of<PlanJudgement>(Columns::Purpose::insert).settings());
  STITCH_ASSIGN(Statement update, connection.prepare(sql));
  Binder binder(update, 0);
  visit_fields(binder, judgement);
  update.bind(id);
  return update.run();
}

}  // namespace stitch::db::tables
