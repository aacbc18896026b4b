#include "db/plan_table.h"

#include <set>

#include "db/artifact_table.h"
#include "db/incumbency.h"
#include "db/listing.h"
#include "db/measurement_table.h"

namespace stitch::db::tables {
namespace {

using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

/// Columns that read_plan expects; `document` may be left out for listings.
std::string plan_columns(std::string_view document) {
  return fmt::format(
      "p.row, p.id, p.fragment, t.device, t.architecture, t.toolkit, t.version, {}, p.bytes, p.label, p.status, "
      "p.predicted_us, p.measured_us, p.verified_share, p.neighbour, p.sequence, "
      "p.tool, p.toolkit, p.judged_on, p.wall_us, p.judged FROM plan p JOIN target t ON t.row = p.target",
      document);
}

Result<Plan> read_plan(const Statement& rows) {
  Row row(rows, "plan");
  row.skip();
  Plan plan;
  plan.id = row.hash();
  plan.key.fragment = row.hash();
  plan.key.target.device = row.text();
  plan.key.target.architecture = row.text();
  plan.key.target.toolkit = row.text();
  plan.key.target.version = row.text();
  plan.document = row.text();
  plan.bytes = row.integer();
  plan.label = row.word(label_of);
  plan.status = row.word(plan_status_of);
  plan.predicted_us = row.real();
  plan.measured_us = row.optional_real();
  plan.verified_share = row.real();
  plan.neighbour = row.optional_hash();
  plan.sequence = row.integer();
  plan.provenance = row.provenance();
  STITCH_TRY(row.status());
  return plan;
}

/// The plan of the current row with its steps, checked against its id.
Result<Plan> read_whole_plan(Connection& connection, const Statement& rows) {
  STITCH_ASSIGN(Plan plan, read_plan(rows));
  STITCH_ASSIGN(Statement steps, connection.query("SELECT kernel, arguments FROM plan_step "
                                                  "WHERE plan = ? ORDER BY position",
                                                  rows.integer(0)));
  while (true) {
    STITCH_ASSIGN(const bool more, steps.step());
    if (!more) break;
    Row step(steps, "plan_step");
    plan.steps.push_back({step.hash(), step.text()});
    STITCH_TRY(step.status());
  }
  if (const Hash128 id = plan_id(plan); id != plan.id)
    return make_error(ErrorKind::corrupt, "plan {}: the stored rows have id {}", plan.id.hex(), id.hex());
  return plan;
}

Status require_references(Connection& connection, const Plan& plan) {
  STITCH_ASSIGN(Statement fragment, connection.query("SELECT 1 FROM fragment WHERE key = ?", plan.key.fragment));
  STITCH_ASSIGN(const bool known, fragment.step());
  if (!known)
    return make_error(ErrorKind::invalid_argument, "plan: fragment {} is not stored", plan.key.fragment.hex());
  for (const PlanStep& step : plan.steps) {
    STITCH_ASSIGN(Statement kernel, connection.query("SELECT 1 FROM kernel WHERE hash = ?", step.kernel));
    STITCH_ASSIGN(const bool there, kernel.step());
    if (!there) return make_error(ErrorKind::invalid_argument, "plan: kernel {} is not stored", step.kernel.hex());
  }
  return {};
}

Status insert_measurements(Connection& connection, const PlanBundle& bundle, const Hash128& id) {
  for (Measurement measurement : bundle.measurements) {
    if (measurement.subject_kind == Measurement::Subject::plan) measurement.subject = id;
    STITCH_TRY(insert_measurement(connection, measurement));
  }
  if (bundle.plan.label != Label::measured) return {};
  STITCH_ASSIGN(Statement rows, connection.query("SELECT label FROM plan WHERE id = ?", id));
  STITCH_ASSIGN(const bool found, rows.step());
  if (found && rows.bytes(0) == to_string(Label::measured)) return {};
  return make_error(ErrorKind::invalid_argument, "plan: labelled measured, but without a measurement of device time");
}

template <class... Arguments>
Result<Listing<Plan>> page_of_plans(Connection& connection, const std::string& condition, const Page& page,
                                    const Arguments&... arguments) {
  return list_page<Plan>(connection, fmt::format("SELECT {} WHERE {}", plan_columns("'{}'"), condition), "p.row", page,
                         read_plan, arguments...);
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
  STITCH_TRY(connection.execute("INSERT INTO target (device, architecture, toolkit, version) VALUES (?, ?, ?, ?)",
                                target.device, target.architecture, target.toolkit, target.version));
  return connection.last_row();
}

Result<bool> insert_plan_rows(Connection& connection, const Plan& plan) {
  STITCH_TRY(validate(plan));
  const Hash128 id = plan_id(plan);
  STITCH_ASSIGN(Statement known, connection.query("SELECT 1 FROM plan WHERE id = ?", id));
  STITCH_ASSIGN(const bool found, known.step());
  if (found) return false;
  STITCH_TRY(require_references(connection, plan));
  STITCH_ASSIGN(const std::int64_t target, target_row(connection, plan.key.target));
  // Recording the measurement is what makes a plan measured.
  const Label label = plan.label == Label::measured ? Label::predicted : plan.label;
  STITCH_TRY(connection.execute(
      "INSERT INTO plan (id, fragment, target, document, bytes, label, status, predicted_us, verified_share, sequence, "
      "neighbour, tool, toolkit, judged_on, wall_us, judged) "
      "VALUES (?, ?, ?, ?, ?, ?, 'challenger', ?, ?, 0, ?, ?, ?, ?, ?, ?)",
      id, plan.key.fragment, target, plan.document, plan.bytes, to_string(label), plan.predicted_us,
      plan.verified_share, plan.neighbour, plan.provenance));
  const std::int64_t row = connection.last_row();
  int position = 0;
  for (const PlanStep& step : plan.steps) {
    STITCH_TRY(connection.execute("INSERT INTO plan_step (plan, position, kernel, arguments) VALUES (?, ?, ?, ?)", row,
                                  position++, step.kernel, step.arguments));
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

Result<Plan> select_plan(Connection& connection, const Hash128& id) {
  STITCH_ASSIGN(Statement rows,
                connection.query(fmt::format("SELECT {} WHERE p.id = ?", plan_columns("p.document")), id));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no plan {}", id.hex());
  return read_whole_plan(connection, rows);
}

Result<std::optional<Plan>> select_incumbent(Connection& connection, const PlanKey& key) {
  static const std::string sql = fmt::format(
      "SELECT {} WHERE p.fragment = ? AND p.status = 'incumbent' "
      "AND t.device = ? AND t.architecture = ? AND t.toolkit = ? AND t.version = ?",
      plan_columns("p.document"));
  const Target& target = key.target;
  STITCH_ASSIGN(Statement rows, connection.query(sql, key.fragment, target.device, target.architecture, target.toolkit,
                                                 target.version));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<Plan>();
  STITCH_ASSIGN(Plan plan, read_whole_plan(connection, rows));
  return std::optional<Plan>(std::move(plan));
}

Result<PlanBundle> select_plan_bundle(Connection& connection, const Hash128& id) {
  PlanBundle bundle;
  STITCH_ASSIGN(bundle.plan, select_plan(connection, id));
  std::set<Hash128> seen;
  for (const PlanStep& step : bundle.plan.steps) {
    if (!seen.insert(step.kernel).second) continue;
    STITCH_ASSIGN(Kernel kernel, select_kernel(connection, step.kernel));
    for (const Hash128& hash : {kernel.source, kernel.ptx, kernel.cubin}) {
      if (!seen.insert(hash).second) continue;
      STITCH_ASSIGN(Artifact artifact, select_artifact(connection, hash));
      bundle.artifacts.push_back(std::move(artifact));
    }
    STITCH_ASSIGN(std::vector<Measurement> of_kernel, select_measurements(connection, step.kernel));
    std::move(of_kernel.begin(), of_kernel.end(), std::back_inserter(bundle.measurements));
    bundle.kernels.push_back(std::move(kernel));
  }
  STITCH_ASSIGN(std::vector<Measurement> of_plan, select_measurements(connection, id));
  std::move(of_plan.begin(), of_plan.end(), std::back_inserter(bundle.measurements));
  return bundle;
}

Result<Listing<Plan>> select_plans(Connection& connection, const PlanFilter& filter, const Page& page) {
  const auto text = [](const auto& value) -> std::optional<std::string> {
    if (!value) return std::nullopt;
    return std::string(to_string(*value));
  };
  // The narrowest index first; the other fields are tests that NULL switches off.
  const std::string rest =
      "(?1 IS NULL OR p.fragment = ?1) AND (?2 IS NULL OR p.fragment IN (SELECT key FROM fragment WHERE family = ?2)) "
      "AND (?3 IS NULL OR t.device = ?3) AND (?4 IS NULL OR p.label = ?4) AND (?5 IS NULL OR p.status = ?5)";
  const std::string condition = filter.fragment ? "p.fragment = ?1 AND " + rest
                                : filter.family
                                    ? "p.fragment IN (SELECT key FROM fragment WHERE family = ?2) AND " + rest
                                    : rest;
  return page_of_plans(connection, condition, page, filter.fragment, filter.family, filter.device, text(filter.label),
                       text(filter.status));
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
  STITCH_ASSIGN(Plan plan, select_plan(connection, id));
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
  STITCH_TRY(connection.execute(
      "UPDATE plan SET label = ?, neighbour = ?, predicted_us = ?, verified_share = ?, "
      "tool = ?, toolkit = ?, judged_on = ?, wall_us = ?, judged = ? WHERE id = ?",
      to_string(plan.label), plan.neighbour, plan.predicted_us, plan.verified_share, plan.provenance, id));
  return {};
}

}  // namespace stitch::db::tables
