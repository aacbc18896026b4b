#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "db/sqlite.h"

// Making a database file, and looking at one before it is trusted.
namespace stitch::db {

/// Makes a new, empty database of the newest version. It is built beside its place and moved there, so that nobody
/// ever sees half of one; if another process was faster, its database stays. Errors: io; resource_exhausted; corrupt
/// when a log of a database that is gone lies there (SQLite would play it into the new file).
Status create_database(const sqlite::OpenOptions& options, std::int64_t now_us);

/// Looks at an existing file without changing a byte of it or of its log, and returns its schema version (1 … ours).
/// `check`: run quick_check, which reads all of it. Errors: not_found; io; version_mismatch (newer than this program);
/// corrupt (empty, no SQLite file, no database of ours, damaged, schema altered).
Result<int> inspect_database(const sqlite::OpenOptions& options, bool check);

/// The write-ahead log of a database file.
std::filesystem::path log_path(const std::filesystem::path& database);

/// Opens for reading where nothing may be writable: falls back to `immutable` when SQLite cannot make its side files
/// and there is no log to read.
Result<std::unique_ptr<sqlite::Connection>> open_reader(const sqlite::OpenOptions& options);

}  // namespace stitch::db
