#pragma once

#include "base/result.h"
#include "db/sqlite.h"
#include "db/store_types.h"

// Counting, pruning and checking. Callers hold the transaction.
namespace stitch::db::tables {

/// All but the sizes of files.
Result<StoreStatistics> count_records(sqlite::Connection& connection);

Result<PruneReport> prune(sqlite::Connection& connection, const PrunePolicy& policy);

Result<IntegrityReport> check_integrity(sqlite::Connection& connection, bool deep);

}  // namespace stitch::db::tables
