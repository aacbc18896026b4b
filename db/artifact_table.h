#pragma once

#include <string>

#include "base/result.h"
#include "db/records.h"
#include "db/sqlite.h"

// Rows of tables `artifact` and `kernel`. Callers hold the transaction.
namespace stitch::db::tables {

/// Stores bytes once per hash; true when they were new.
Result<bool> insert_artifact(sqlite::Connection& connection, const Artifact& artifact);
/// Checks bytes against hash. Errors: not_found, corrupt (both name the hash).
Result<Artifact> select_artifact(sqlite::Connection& connection, const Hash128& hash);

/// Stores a kernel once per content; true when it was new. Its artifacts must be there (invalid_argument).
Result<bool> insert_kernel(sqlite::Connection& connection, const Kernel& kernel);
Result<Kernel> select_kernel(sqlite::Connection& connection, const Hash128& hash);

}  // namespace stitch::db::tables
