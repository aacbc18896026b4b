#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "db/sqlite.h"

namespace stitch::db {

/// "Stch": in bytes 68 … 71 of every database file of ours.
inline constexpr std::int32_t application_id = 0x53746368;

/// One step from version − 1 to version. Published ones never change; a change of the schema is a new one.
struct Migration {
  int version = 0;
  std::string_view subject;  ///< what it brings
  const char* sql = nullptr;
  Status (*transform)(sqlite::Connection&) = nullptr;  ///< what SQL cannot say, after `sql`
  const char* sql_after = nullptr;                     ///< after `transform`
};

/// All of them, versions 1, 2, … without a gap. Version 0 is an empty file.
std::span<const Migration> migrations();

/// The version that this program reads and writes.
int schema_version();

/// Brings a database to the last version of `steps`, in one transaction: either all of the steps or none. The
/// connection's foreign keys must be off (steps may rebuild tables); references are checked before the commit. Does
/// nothing when another process was faster. `now_us` and the tool's version go into the table schema_version.
Status migrate(sqlite::Connection& connection, std::span<const Migration> steps, std::int64_t now_us);

/// Whether tables and indexes are exactly what the first `version` migrations make. Error: corrupt, names the object.
Status check_schema(sqlite::Connection& connection, int version);

}  // namespace stitch::db
