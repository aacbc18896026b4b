#include "db/incumbency.h"

#include "db/listing.h"
#include "db/record_columns.h"

namespace stitch::db::tables {
namespace {

using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

struct Standing {
  std::int64_t row = 0, target = 0, sequence = 0;
  Hash128 fragment;
  PlanStatus status = PlanStatus::challenger;
};

Result<Standing> standing_of(Connection& connection, const Hash128& id) {
  STITCH_ASSIGN(Statement rows,
                connection.query("SELECT row, target, sequence, fragment, status FROM plan WHERE id = ?", id));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no plan {}", id.hex());
  Row row(rows, "plan");
  Standing standing;
  standing.row = row.integer();
  standing.target = row.integer();
  standing.sequence = row.integer();
  standing.fragment = row.hash();
  standing.status = row.word(plan_status_of);
  STITCH_TRY(row.status());
  return standing;
}

Result<std::optional<Hash128>> incumbent_of(Connection& connection, const Standing& standing) {
  STITCH_ASSIGN(Statement rows, connection.query("SELECT id FROM plan WHERE fragment = ? AND target = ? "
                                                 "AND status = 'incumbent'",
                                                 standing.fragment, standing.target));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<Hash128>();
  Row row(rows, "plan");
  const Hash128 id = row.hash();
  STITCH_TRY(row.status());
  return std::optional<Hash128>(id);
}

Result<std::int64_t> record(Connection& connection, const Standing& standing, const std::optional<Hash128>& plan,
                            const std::optional<Hash128>& previous, std::string_view reason,
                            const Provenance& provenance) {
  STITCH_TRY(validate(provenance));
  const Promotion promotion{0, {standing.fragment, {}}, plan, previous, std::string(reason), provenance};
  STITCH_TRY(insert(connection, {.table = "promotion", .target = standing.target}, promotion));
  return connection.last_row();
}

}  // namespace

Result<std::int64_t> promote(Connection& connection, const Hash128& id, std::string_view reason,
                             const Provenance& provenance) {
  STITCH_ASSIGN(const Standing standing, standing_of(connection, id));
  if (standing.status == PlanStatus::incumbent) return standing.sequence;
  if (standing.status == PlanStatus::withdrawn)
    return make_error(ErrorKind::invalid_argument, "plan {} was withdrawn and cannot be promoted", id.hex());
  STITCH_ASSIGN(const std::optional<Hash128> previous, incumbent_of(connection, standing));
  if (previous) STITCH_TRY(connection.execute("UPDATE plan SET status = 'superseded' WHERE id = ?", *previous));
  STITCH_ASSIGN(const std::int64_t sequence, record(connection, standing, id, previous, reason, provenance));
  STITCH_TRY(
      connection.execute("UPDATE plan SET status = 'incumbent', sequence = ? WHERE row = ?", sequence, standing.row));
  return sequence;
}

Result<std::int64_t> announce(Connection& connection, const Hash128& id, std::string_view reason,
                              const Provenance& provenance) {
  STITCH_ASSIGN(const Standing standing, standing_of(connection, id));
  if (standing.status != PlanStatus::incumbent)
    return make_error(ErrorKind::invalid_argument, "plan {} is not served", id.hex());
  STITCH_ASSIGN(const std::int64_t sequence, record(connection, standing, id, std::nullopt, reason, provenance));
  STITCH_TRY(connection.execute("UPDATE plan SET sequence = ? WHERE row = ?", sequence, standing.row));
  return sequence;
}

Result<bool> admit(Connection& connection, const Hash128& id, Admission admission, const Provenance& provenance) {
  STITCH_ASSIGN(const Standing standing, standing_of(connection, id));
  if (standing.status == PlanStatus::incumbent) return true;
  if (standing.status == PlanStatus::withdrawn || admission == Admission::challenger) return false;
  if (admission == Admission::if_vacant) {
    STITCH_ASSIGN(const std::optional<Hash128> served, incumbent_of(connection, standing));
    if (served) return false;
  }
  STITCH_TRY(promote(connection, id, admission == Admission::replace ? "stored to replace" : "vacant", provenance));
  return true;
}

Status withdraw(Connection& connection, const Hash128& id, std::string_view reason, const Provenance& provenance) {
  STITCH_ASSIGN(const Standing standing, standing_of(connection, id));
  if (standing.status == PlanStatus::withdrawn) return {};
  STITCH_TRY(record(connection, standing, std::nullopt, id, reason, provenance));
  STITCH_TRY(connection.execute("UPDATE plan SET status = 'withdrawn' WHERE row = ?", standing.row));
  return {};
}

Result<Listing<Promotion>> select_promotions(Connection& connection, const Page& page) {
  static const std::string sql = fmt::format("SELECT {} FROM promotion o JOIN target t ON t.row = o.target WHERE TRUE",
                                             columns_of<Promotion>("o."));
  return list_page<Promotion>(connection, sql, "o.sequence", page,
                              [](const Statement& rows) { return read_record<Promotion>(rows, "promotion"); });
}

}  // namespace stitch::db::tables
