#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/sqlite.h"
#include "db/trial_records.h"

// Rows of table `model`. Callers hold the transaction.
namespace stitch::db::tables {

/// Stores the next version of a model and returns its number.
Result<int> insert_model(sqlite::Connection& connection, const CostModelRecord& model);
/// One version, or the newest; its bytes checked against their hash. Errors: not_found, corrupt.
Result<CostModelRecord> select_model(sqlite::Connection& connection, std::string_view name, std::string_view device,
                                     std::optional<int> version);
/// All versions of all models without their bytes, by name, device and version.
Result<std::vector<CostModelRecord>> select_models(sqlite::Connection& connection);

}  // namespace stitch::db::tables
