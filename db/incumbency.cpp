#include "db/incumbency.h"

#include <array>
#include <utility>

#include "db/listing.h"
#include "db/plan_table.h"
#include "db/words.h"

namespace stitch::db {
namespace {

constexpr Words<KeyField, 6> field_words{{"version", "toolkit", "architecture", "device", "shape", "fragment"}};

}  // namespace

std::string_view to_string(KeyField field) { return field_words.of(field); }

namespace tables {
namespace {

using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

/// Looking further through a family would cost more than the answer is worth.
constexpr int most_neighbours = 256;

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
  STITCH_TRY(
      connection.execute("INSERT INTO promotion (fragment, target, plan, previous, reason, tool, toolkit, "
                         "judged_on, wall_us, judged) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                         standing.fragment, standing.target, plan, previous, reason, provenance));
  return connection.last_row();
}

Result<Promotion> read_promotion(const Statement& rows) {
  Row row(rows, "promotion");
  Promotion promotion;
  promotion.sequence = row.integer();
  promotion.key.fragment = row.hash();
  promotion.key.target.device = row.text();
  promotion.key.target.architecture = row.text();
  promotion.key.target.toolkit = row.text();
  promotion.key.target.version = row.text();
  promotion.plan = row.optional_hash();
  promotion.previous = row.optional_hash();
  promotion.reason = row.text();
  promotion.provenance = row.provenance();
  STITCH_TRY(row.status());
  return promotion;
}

/// Reads the best row of a query for incumbents (id, fragment, target's fields), ordered by how close they come.
Result<Miss> read_closest(Statement& rows, const PlanKey& key) {
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return Miss{};
  Row row(rows, "plan");
  Miss miss;
  miss.closest_plan = row.hash();
  PlanKey closest;
  closest.fragment = row.hash();
  closest.target = {row.text(), row.text(), row.text(), row.text()};
  STITCH_TRY(row.status());
  const std::array<std::pair<KeyField, bool>, 5> fields{{
      {KeyField::version, closest.target.version != key.target.version},
      {KeyField::toolkit, closest.target.toolkit != key.target.toolkit},
      {KeyField::architecture, closest.target.architecture != key.target.architecture},
      {KeyField::device, closest.target.device != key.target.device},
      {KeyField::shape, closest.fragment != key.fragment},
  }};
  for (const auto& [field, differs] : fields) {
    if (differs) miss.differs.push_back(field);
  }
  miss.closest = std::move(closest);
  return miss;
}

// Weights in the order of KeyField: what tells more outweighs everything that tells less.
constexpr std::string_view closest_first =
    "ORDER BY (t.version <> ?) + 2 * (t.toolkit <> ?) + 4 * (t.architecture <> ?) + 8 * (t.device <> ?), p.row DESC "
    "LIMIT 1";

Result<Miss> closest_of_fragment(Connection& connection, const PlanKey& key) {
  static const std::string sql = fmt::format(
      "SELECT p.id, p.fragment, t.device, t.architecture, t.toolkit, t.version FROM plan p "
      "JOIN target t ON t.row = p.target WHERE p.fragment = ? AND p.status = 'incumbent' {}",
      closest_first);
  const Target& target = key.target;
  STITCH_ASSIGN(Statement rows, connection.query(sql, key.fragment, target.version, target.toolkit, target.architecture,
                                                 target.device));
  return read_closest(rows, key);
}

Result<Miss> closest_of_family(Connection& connection, const PlanKey& key, const Hash128& family) {
  static const std::string sql = fmt::format(
      "SELECT p.id, p.fragment, t.device, t.architecture, t.toolkit, t.version FROM "
      "(SELECT p.row, p.id, p.fragment, p.target FROM fragment f JOIN plan p ON p.fragment = f.key "
      "WHERE f.family = ? AND f.key <> ? AND p.status = 'incumbent' LIMIT {}) p "
      "JOIN target t ON t.row = p.target {}",
      most_neighbours, closest_first);
  const Target& target = key.target;
  STITCH_ASSIGN(Statement rows, connection.query(sql, family, key.fragment, target.version, target.toolkit,
                                                 target.architecture, target.device));
  return read_closest(rows, key);
}

Result<std::optional<Hash128>> family_of(Connection& connection, const Hash128& fragment) {
  STITCH_ASSIGN(Statement rows, connection.query("SELECT family FROM fragment WHERE key = ?", fragment));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<Hash128>();
  Row row(rows, "fragment");
  const Hash128 family = row.hash();
  STITCH_TRY(row.status());
  return std::optional<Hash128>(family);
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
  return list_page<Promotion>(
      connection,
      "SELECT o.sequence, o.fragment, t.device, t.architecture, t.toolkit, t.version, o.plan, o.previous, o.reason, "
      "o.tool, o.toolkit, o.judged_on, o.wall_us, o.judged FROM promotion o JOIN target t ON t.row = o.target "
      "WHERE TRUE",
      "o.sequence", page, read_promotion);
}

Result<Lookup> find_plan(Connection& connection, const PlanKey& key, const std::optional<Hash128>& family) {
  Lookup lookup;
  STITCH_ASSIGN(lookup.plan, select_incumbent(connection, key));
  if (lookup.plan) return lookup;
  STITCH_ASSIGN(lookup.miss, closest_of_fragment(connection, key));
  if (lookup.miss.closest) return lookup;
  STITCH_ASSIGN(const std::optional<Hash128> stored, family_of(connection, key.fragment));
  if (const std::optional<Hash128> of = stored ? stored : family) {
    STITCH_ASSIGN(lookup.miss, closest_of_family(connection, key, *of));
  }
  if (!lookup.miss.closest) lookup.miss.differs = {KeyField::fragment};
  return lookup;
}

}  // namespace tables
}  // namespace stitch::db
