#include "db/candidate_table.h"

#include "db/listing.h"
#include "db/plan_table.h"
#include "db/record_columns.h"

namespace stitch::db::tables {
namespace {

using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

/// Columns: row, then those of a candidate.
Result<Candidate> read_candidate(const Statement& rows) {
  STITCH_ASSIGN(Candidate candidate, read_record<Candidate>(rows, "candidate", 1));
  if (hash_bytes(candidate.schedule) != candidate.schedule_hash)
    return make_error(ErrorKind::corrupt, "candidate {}: the stored schedule has hash {}",
                      candidate.schedule_hash.hex(), hash_bytes(candidate.schedule).hex());
  return candidate;
}

Status require_references(Connection& connection, const Candidate& candidate) {
  STITCH_ASSIGN(const bool known, connection.exists("SELECT 1 FROM fragment WHERE key = ?", candidate.key.fragment));
  if (!known)
    return make_error(ErrorKind::invalid_argument, "candidate: fragment {} is not stored",
                      candidate.key.fragment.hex());
  if (!candidate.kernel) return {};
  STITCH_ASSIGN(const bool there, connection.exists("SELECT 1 FROM kernel WHERE hash = ?", *candidate.kernel));
  if (there) return {};
  return make_error(ErrorKind::invalid_argument, "candidate: kernel {} is not stored", candidate.kernel->hex());
}

/// The outcome that is stored under the candidate's identity.
Result<std::optional<Outcome>> known_outcome(Connection& connection, const Candidate& candidate, std::int64_t target) {
  STITCH_ASSIGN(Statement rows, connection.query("SELECT outcome FROM candidate WHERE fragment = ? AND target = ? "
                                                 "AND schedule_hash = ?",
                                                 candidate.key.fragment, target, candidate.schedule_hash));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<Outcome>();
  Row row(rows, "candidate");
  const auto outcome = row.word<Outcome>(outcome_of);
  STITCH_TRY(row.status());
  return std::optional<Outcome>(outcome);
}

/// True when the candidate was new; `replaces` decides whether it takes the place of a known one.
template <class Rule>
Result<bool> store(Connection& connection, const Candidate& candidate, const Rule& replaces) {
  static const std::string replace = fmt::format("ON CONFLICT (fragment, target, schedule_hash) DO UPDATE SET {}",
                                                 Columns::of<Candidate>(Columns::Purpose::insert).replacements());
  STITCH_TRY(validate(candidate));
  STITCH_TRY(require_references(connection, candidate));
  STITCH_ASSIGN(const std::int64_t target, target_row(connection, candidate.key.target));
  STITCH_ASSIGN(const std::optional<Outcome> known, known_outcome(connection, candidate, target));
  if (!known || replaces(*known)) {
    STITCH_TRY(insert(connection, {.table = "candidate", .target = target, .then = replace}, candidate));
  }
  return !known.has_value();
}

}  // namespace

Result<bool> upsert_candidate(Connection& connection, const Candidate& candidate) {
  return store(connection, candidate,
               [&](Outcome known) { return known == Outcome::untested || candidate.outcome != Outcome::untested; });
}

Result<bool> merge_candidate(Connection& connection, const Candidate& candidate) {
  return store(connection, candidate,
               [&](Outcome known) { return known == Outcome::untested && candidate.outcome != Outcome::untested; });
}

Result<Listing<Candidate>> select_candidates(Connection& connection, const CandidateFilter& filter, const Page& page) {
  std::optional<std::string> device, architecture, toolkit, version, outcome;
  if (filter.target) {
    device = filter.target->device;
    architecture = filter.target->architecture;
    toolkit = filter.target->toolkit;
    version = filter.target->version;
  }
  if (filter.outcome) outcome = std::string(to_string(*filter.outcome));
  // The index serves the fragment alone; the other fields are tests that NULL switches off.
  const std::string sql = fmt::format(
      "SELECT c.row, {} FROM candidate c JOIN target t ON t.row = c.target "
      "WHERE {} AND (?2 IS NULL OR (t.device = ?2 AND t.architecture = ?3 AND t.toolkit = ?4 AND t.version = ?5)) "
      "AND (?6 IS NULL OR c.outcome = ?6) AND (?7 IS NULL OR c.schedule_hash = ?7)",
      columns_of<Candidate>("c."), filter.fragment ? "c.fragment = ?1" : "?1 IS NULL");
  return list_page<Candidate>(connection, sql, "c.row", page, read_candidate, filter.fragment, device, architecture,
                              toolkit, version, outcome, filter.schedule);
}

}  // namespace stitch::db::tables
