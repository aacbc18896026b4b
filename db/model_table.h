#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/sqlite.h"
#include "db/trial_records.h"

// Rows of tables `model` and `quarantine`. Callers hold the transaction.
namespace stitch::db::tables {

/// Stores the next version of a model and returns its number.
Result<int> insert_model(sqlite::Connection& connection, const TrainedModel& model);
/// One version, or the newest; its bytes checked against their hash. Errors: not_found, corrupt.
Result<TrainedModel> select_model(sqlite::Connection& connection, std::string_view name, std::string_view device,
                                  std::optional<int> version);
/// All versions of all models without their bytes, by name, device and version.
Result<std::vector<TrainedModel>> select_models(sqlite::Connection& connection);

/// Adds a strike.
Status strike(sqlite::Connection& connection, const Quarantine& entry);
Result<std::optional<Quarantine>> select_strikes(sqlite::Connection& connection, const Hash128& subject,
                                                 std::string_view device);
Result<std::vector<Quarantine>> select_quarantine(sqlite::Connection& connection);
/// not_found when there is no such entry.
Status release(sqlite::Connection& connection, const Hash128& subject, std::string_view device);

}  // namespace stitch::db::tables
