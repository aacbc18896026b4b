#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "db/sqlite.h"
#include "db/store_types.h"

namespace stitch::db {

/// Tells whether anybody, in any process, has committed something, without a system call: every commit rewrites the
/// header of the write-ahead log's index (sqlite.org/walformat.html, "The WAL-Index File Format"), which lies in memory
/// that all processes share. SQLite's readers decide by the same bytes whether what they have read is still so.
class ChangeMark {
 public:
  /// `connection` must be one of a write-ahead log, and stay open for as long as the mark is read. Errors: io (the file
  /// system shares no memory), those of SQLite.
  static Result<ChangeMark> of(sqlite::Connection& connection);

  /// From any thread. Nothing while somebody commits, or when somebody died in the midst of it: then the store has to
  /// be asked.
  [[nodiscard]] std::optional<StoreVersion> read() const;

 private:
  explicit ChangeMark(const volatile std::uint32_t* header) : header_(header) {}

  const volatile std::uint32_t* header_;
};

}  // namespace stitch::db
