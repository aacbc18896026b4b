#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "db/store.h"

namespace stitch::db {

struct SqliteOptions {
  std::filesystem::path path;    ///< the database file; its folder is made when it is missing
  bool read_only = false;        ///< never writes; works on read-only media. Writing operations fail with io.
  bool create = true;            ///< make a new database when the file is missing
  bool check_on_open = true;     ///< run SQLite's quick_check before the file is used
  int readers = 4;               ///< connections for reading; more concurrent readers wait
  int busy_timeout_ms = 10'000;  ///< how long to wait for another process
  std::int64_t max_queued_jobs = 10'000;
  std::int64_t max_pages = 0;  ///< size limit in pages of 4096 bytes; 0: SQLite's own (16 TiB)
  std::string vfs;             ///< SQLite VFS by name; empty: the default one (tests inject faults here)
};

/// The store in one SQLite file (db/FORMAT.md). Write-ahead log, synchronous=FULL: whatever was acknowledged survives
/// kill -9 and a power cut. One writing connection and a pool of readers; readers never wait for the writer. Several
/// processes may have the file open.
///
/// Opening looks at an existing file read-only first and refuses, leaving it byte-identical: version_mismatch (written
/// by a newer version), corrupt (not a Stitch database, damaged, truncated, empty, schema altered), io. An older
/// version is migrated in one transaction. A new database is made beside its place and renamed into it.
/// `clock` decides leases and stamps jobs; it must outlive the store.
Result<std::unique_ptr<Store>> open_sqlite_store(const SqliteOptions& options, const Clock& clock);

}  // namespace stitch::db
