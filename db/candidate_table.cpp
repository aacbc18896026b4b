#include "db/candidate_table.h"

#include <bit>

#include "db/listing.h"
#include "db/plan_table.h"

namespace stitch::db::tables {
namespace {

using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

Result<Candidate> read_candidate(const Statement& rows) {
  Row row(rows, "candidate");
  row.skip();
  Candidate candidate;
  candidate.key.fragment = row.hash();
  candidate.key.target = {row.text(), row.text(), row.text(), row.text()};
  candidate.scope = row.word(candidate_scope_of);
  candidate.schedule = row.text();
  candidate.schedule_hash = row.hash();
  candidate.outcome = row.word<Outcome>(outcome_of);
  candidate.detail = row.text();
  candidate.seed = std::bit_cast<std::uint64_t>(row.integer());
  candidate.predicted_us = row.optional_real();
  candidate.kernel = row.optional_hash();
  candidate.verified_share = row.real();
  candidate.provenance = row.provenance();
  STITCH_TRY(row.status());
  if (hash_bytes(candidate.schedule) != candidate.schedule_hash)
    return make_error(ErrorKind::corrupt, "candidate {}: the stored schedule has hash {}",
                      candidate.schedule_hash.hex(), hash_bytes(candidate.schedule).hex());
  return candidate;
}

Status require_references(Connection& connection, const Candidate& candidate) {
  STITCH_ASSIGN(Statement fragment, connection.query("SELECT 1 FROM fragment WHERE key = ?", candidate.key.fragment));
  STITCH_ASSIGN(const bool known, fragment.step());
  if (!known)
    return make_error(ErrorKind::invalid_argument, "candidate: fragment {} is not stored",
                      candidate.key.fragment.hex());
  if (!candidate.kernel) return {};
  STITCH_ASSIGN(Statement kernel, connection.query("SELECT 1 FROM kernel WHERE hash = ?", *candidate.kernel));
  STITCH_ASSIGN(const bool there, kernel.step());
  if (there) return {};
  return make_error(ErrorKind::invalid_argument, "candidate: kernel {} is not stored", candidate.kernel->hex());
}

/// What is stored under the candidate's identity: its row and outcome.
struct Known {
  std::int64_t row = 0;
  Outcome outcome = Outcome::untested;
};

Result<std::optional<Known>> find(Connection& connection, const Candidate& candidate, std::int64_t target) {
  STITCH_ASSIGN(Statement rows, connection.query("SELECT row, outcome FROM candidate WHERE fragment = ? AND target = ? "
                                                 "AND schedule_hash = ?",
                                                 candidate.key.fragment, target, candidate.schedule_hash));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<Known>();
  Row row(rows, "candidate");
  const Known known{row.integer(), row.word<Outcome>(outcome_of)};
  STITCH_TRY(row.status());
  return std::optional<Known>(known);
}

Status insert(Connection& connection, const Candidate& candidate, std::int64_t target) {
  STITCH_TRY(connection.execute(
      "INSERT INTO candidate (fragment, target, scope, schedule, schedule_hash, outcome, detail, seed, predicted_us, "
      "kernel, verified_share, tool, toolkit, judged_on, wall_us, judged) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      candidate.key.fragment, target, to_string(candidate.scope), candidate.schedule, candidate.schedule_hash,
      to_string(candidate.outcome), candidate.detail, std::bit_cast<std::int64_t>(candidate.seed),
      candidate.predicted_us, candidate.kernel, candidate.verified_share, candidate.provenance));
  return {};
}

Status update(Connection& connection, const Candidate& candidate, std::int64_t row) {
  STITCH_TRY(connection.execute(
      "UPDATE candidate SET scope = ?, outcome = ?, detail = ?, seed = ?, predicted_us = ?, kernel = ?, "
      "verified_share = ?, tool = ?, toolkit = ?, judged_on = ?, wall_us = ?, judged = ? WHERE row = ?",
      to_string(candidate.scope), to_string(candidate.outcome), candidate.detail,
      std::bit_cast<std::int64_t>(candidate.seed), candidate.predicted_us, candidate.kernel, candidate.verified_share,
      candidate.provenance, row));
  return {};
}

/// True when the candidate was new; `replaces` decides whether it takes the place of a known one.
template <class Rule>
Result<bool> store(Connection& connection, const Candidate& candidate, const Rule& replaces) {
  STITCH_TRY(validate(candidate));
  STITCH_TRY(require_references(connection, candidate));
  STITCH_ASSIGN(const std::int64_t target, target_row(connection, candidate.key.target));
  STITCH_ASSIGN(const std::optional<Known> known, find(connection, candidate, target));
  if (!known) STITCH_TRY(insert(connection, candidate, target));
  if (known && replaces(known->outcome)) STITCH_TRY(update(connection, candidate, known->row));
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
      "SELECT c.row, c.fragment, t.device, t.architecture, t.toolkit, t.version, c.scope, c.schedule, c.schedule_hash, "
      "c.outcome, c.detail, c.seed, c.predicted_us, c.kernel, c.verified_share, "
      "c.tool, c.toolkit, c.judged_on, c.wall_us, c.judged FROM candidate c JOIN target t ON t.row = c.target "
      "WHERE {} AND (?2 IS NULL OR (t.device = ?2 AND t.architecture = ?3 AND t.toolkit = ?4 AND t.version = ?5)) "
      "AND (?6 IS NULL OR c.outcome = ?6)",
      filter.fragment ? "c.fragment = ?1" : "?1 IS NULL");
  return list_page<Candidate>(connection, sql, "c.row", page, read_candidate, filter.fragment, device, architecture,
                              toolkit, version, outcome);
}

}  // namespace stitch::db::tables
