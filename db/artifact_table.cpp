#include "db/artifact_table.h"

#include "db/blob.h"
#include "db/record_columns.h"

namespace stitch::db::tables {

using sqlite::Blob;
using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

Result<bool> insert_artifact(Connection& connection, const Artifact& artifact) {
  STITCH_ASSIGN(const bool known, connection.exists("SELECT 1 FROM artifact WHERE hash = ?", artifact.hash));
  if (known) return false;
  STITCH_TRY(validate(artifact));
  STITCH_ASSIGN(const std::string data, compress(artifact.bytes));
  return insert(connection, {.table = "artifact", .more_columns = {"raw_bytes", "stored_bytes", "data"}}, artifact,
                std::ssize(artifact.bytes), std::ssize(data), Blob{data});
}

Result<Artifact> select_artifact(Connection& connection, const Hash128& hash) {
  static const std::string sql =
      fmt::format("SELECT {}, raw_bytes, data FROM artifact WHERE hash = ?", columns_of<Artifact>());
  STITCH_ASSIGN(Statement rows, connection.query(sql, hash));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no artifact {}", hash.hex());
  const std::string name = fmt::format("artifact {}", hash.hex());
  Row row(rows, name);
  Artifact artifact;
  read_fields(row, artifact);
  const std::int64_t raw_bytes = row.integer();
  Result<std::string> bytes = decompress(row.view(), raw_bytes);
  if (!bytes) return bytes.error().within(name);
  artifact.bytes = std::move(*bytes);
  STITCH_TRY(row.status());
  if (hash_bytes(artifact.bytes) != hash)
    return make_error(ErrorKind::corrupt, "{}: the stored bytes have hash {}", name, hash_bytes(artifact.bytes).hex());
  return artifact;
}

Result<bool> insert_kernel(Connection& connection, const Kernel& kernel) {
  Kernel stored = kernel;
  stored.hash = kernel_hash(kernel);
  STITCH_ASSIGN(const bool known, connection.exists("SELECT 1 FROM kernel WHERE hash = ?", stored.hash));
  if (known) return false;
  STITCH_TRY(validate(kernel));
  for (const auto& [hash_of, what] :
       {std::pair{kernel.source, "source"}, {kernel.ptx, "ptx"}, {kernel.cubin, "cubin"}}) {
    STITCH_ASSIGN(const bool there, connection.exists("SELECT 1 FROM artifact WHERE hash = ?", hash_of));
    if (!there)
      return make_error(ErrorKind::invalid_argument, "kernel {}: its {}, artifact {}, is not stored", kernel.name, what,
                        hash_of.hex());
  }
  return insert(connection, {.table = "kernel"}, stored);
}

Result<Kernel> select_kernel(Connection& connection, const Hash128& hash) {
  static const std::string sql = fmt::format("SELECT {} FROM kernel WHERE hash = ?", columns_of<Kernel>());
  STITCH_ASSIGN(Statement rows, connection.query(sql, hash));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no kernel {}", hash.hex());
  const std::string name = fmt::format("kernel {}", hash.hex());
  STITCH_ASSIGN(Kernel kernel, read_record<Kernel>(rows, name));
  if (kernel_hash(kernel) != hash)
    return make_error(ErrorKind::corrupt, "{}: the stored row has hash {}", name, kernel_hash(kernel).hex());
  return kernel;
}

}  // namespace stitch::db::tables
