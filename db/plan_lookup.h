#pragma once

#include <optional>

#include "base/result.h"
#include "db/sqlite.h"
#include "db/store_types.h"

// What a client's question for a plan finds. Callers hold the transaction.
namespace stitch::db::tables {

/// Finds the incumbent of a key or, failing that, what comes closest and why it does not serve.
Result<Lookup> find_plan(sqlite::Connection& connection, const PlanKey& key, const std::optional<Hash128>& family);

}  // namespace stitch::db::tables
