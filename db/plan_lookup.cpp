#include "db/plan_lookup.h"

#include <array>
#include <utility>

#include "db/plan_table.h"
#include "db/record_columns.h"
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

/// Reads the best row of a query for incumbents (id, fragment, target's fields), ordered by how close they come.
Result<Miss> read_closest(Statement& rows, const PlanKey& key) {
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return Miss{};
  Row row(rows, "plan");
  Miss miss;
  miss.closest_plan = row.hash();
  PlanKey closest;
  closest.fragment = row.hash();
  read_fields(row, closest.target);
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

/// What is stored of a fragment: its family, which is returned, and the name of its graph.
Result<std::optional<Hash128>> read_fragment(Connection& connection, const Hash128& fragment,
                                             std::optional<Sha256>& graph) {
  STITCH_ASSIGN(Statement rows, connection.query("SELECT family, graph FROM fragment WHERE key = ?", fragment));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<Hash128>();
  Row row(rows, "fragment");
  const Hash128 family = row.hash();
  graph = row.content_name();
  STITCH_TRY(row.status());
  return std::optional<Hash128>(family);
}

}  // namespace

Result<Lookup> find_plan(Connection& connection, const PlanKey& key, const std::optional<Hash128>& family) {
  Lookup lookup;
  STITCH_ASSIGN(const std::optional<Hash128> stored, read_fragment(connection, key.fragment, lookup.graph));
  STITCH_ASSIGN(lookup.plan, select_incumbent(connection, key));
  if (lookup.plan) return lookup;
  STITCH_ASSIGN(lookup.miss, closest_of_fragment(connection, key));
  if (lookup.miss.closest) return lookup;
  if (const std::optional<Hash128> of = stored ? stored : family) {
    STITCH_ASSIGN(lookup.miss, closest_of_family(connection, key, *of));
  }
  if (!lookup.miss.closest) lookup.miss.differs = {KeyField::fragment};
  return lookup;
}

}  // namespace tables
}  // namespace stitch::db
