#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/records.h"
#include "db/sqlite.h"
#include "db/store_types.h"

// Rows of tables `device`, `fragment`, `workload`, `workload_part` and `program`. Callers hold the transaction.
namespace stitch::db::tables {

Status upsert_device(sqlite::Connection& connection, const Device& device);
/// True when there was none with its key; a known one stays as it is.
Result<bool> insert_device(sqlite::Connection& connection, const Device& device);
Result<Device> select_device(sqlite::Connection& connection, std::string_view key);
Result<std::vector<Device>> select_devices(sqlite::Connection& connection);

/// Stores a fragment once per key; true when it was new. Errors: invalid_argument if it is known with another family,
/// already_exists if with another graph.
Result<bool> insert_fragment(sqlite::Connection& connection, const FragmentRecord& fragment);
Result<FragmentRecord> select_fragment(sqlite::Connection& connection, const Hash128& key);
Result<Listing<FragmentSummary>> select_fragments(sqlite::Connection& connection, const Page& page);

Status upsert_workload(sqlite::Connection& connection, const Workload& workload);
Result<Workload> select_workload(sqlite::Connection& connection, const Sha256& key);
Result<Listing<Workload>> select_workloads(sqlite::Connection& connection, const Page& page);

/// Stores the program of a model and a class of GPUs, or replaces it. Error: invalid_argument (no such model).
Status upsert_program(sqlite::Connection& connection, const ProgramRecord& program);
/// Its bytes checked against their hash. Errors: not_found, corrupt.
Result<ProgramRecord> select_program(sqlite::Connection& connection, const Sha256& model, std::string_view device);
/// Without their documents.
Result<Listing<ProgramRecord>> select_programs(sqlite::Connection& connection, const std::optional<std::string>& name,
                                               const Page& page);

}  // namespace stitch::db::tables
