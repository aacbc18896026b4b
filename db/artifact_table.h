#pragma once

#include <string>

#include "base/result.h"
#include "base/sha256.h"
#include "db/records.h"
#include "db/sqlite.h"

// Rows of tables `artifact`, `upload` and `kernel`. Callers hold the transaction.
namespace stitch::db::tables {

/// Stores bytes once per hash; true when they were new, or took the place of bytes that were damaged. Error:
/// invalid_argument when they are stored as another kind.
Result<bool> insert_artifact(sqlite::Connection& connection, const Artifact& artifact);
/// Checks bytes against hash. Errors: not_found, corrupt (both name the hash).
Result<Artifact> select_artifact(sqlite::Connection& connection, const Sha256& hash);

/// The same for what clients sent.
Result<bool> insert_upload(sqlite::Connection& connection, const Upload& upload);
Result<Upload> select_upload(sqlite::Connection& connection, const Sha256& hash);

/// Stores a kernel once per content; true when it was new. Its artifacts must be there, each of its kind
/// (invalid_argument). Error besides: corrupt when another kernel has this hash.
Result<bool> insert_kernel(sqlite::Connection& connection, const Kernel& kernel);
Result<Kernel> select_kernel(sqlite::Connection& connection, const Hash128& hash);

}  // namespace stitch::db::tables
