#pragma once

#include "base/result.h"
#include "db/sqlite.h"
#include "db/store_types.h"

// Rows of table `candidate`. Callers hold the transaction.
namespace stitch::db::tables {

/// Stores a candidate or replaces its outcome; `untested` does not replace a tested one. True when it was new.
Result<bool> upsert_candidate(sqlite::Connection& connection, const Candidate& candidate);

/// The same, but one that is known stays as it is, unless it was untested and this one is not.
Result<bool> merge_candidate(sqlite::Connection& connection, const Candidate& candidate);

Result<Listing<Candidate>> select_candidates(sqlite::Connection& connection, const CandidateFilter& filter,
                                             const Page& page);

}  // namespace stitch::db::tables
