#include "db/artifact_table.h"

#include <tuple>

#include "db/blob.h"
#include "db/record_columns.h"

namespace stitch::db::tables {

using sqlite::Blob;
using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

namespace {

/// The record of this name in `table`, its bytes checked against it.
template <class Contents>
Result<Contents> select_contents(Connection& connection, std::string_view table, const Sha256& hash) {
  STITCH_ASSIGN(Statement rows, connection.query(fmt::format("SELECT {}, raw_bytes, data FROM {} WHERE hash = ?",
                                                             columns_of<Contents>(), table),
                                                 hash));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no {} {}", table, hash.hex());
  const std::string name = fmt::format("{} {}", table, hash.hex());
  Row row(rows, name);
  Contents contents;
  read_fields(row, contents);
  const std::int64_t raw_bytes = row.integer();
  Result<std::string> bytes = decompress(row.view(), raw_bytes);
  if (!bytes) return bytes.error().within(name);
  contents.bytes = std::move(*bytes);
  STITCH_TRY(row.status());
  if (sha256(contents.bytes) != hash)
    return make_error(ErrorKind::corrupt, "{}: the stored bytes have hash {}", name, sha256(contents.bytes).hex());
  return contents;
}

/// Stores contents that are not there, or not as they should be. References to the row stay.
template <class Contents>
Result<bool> put_contents(Connection& connection, std::string_view table, const Contents& contents) {
  static const std::string replace = fmt::format(
      "ON CONFLICT (hash) DO UPDATE SET {}, raw_bytes = excluded.raw_bytes, "
      "stored_bytes = excluded.stored_bytes, data = excluded.data",
      Columns::of<Contents>(Columns::Purpose::insert).replacements());
  STITCH_TRY(validate(contents));
  STITCH_ASSIGN(const std::string data, compress(contents.bytes));
  return insert(connection, {.table = table, .more_columns = {"raw_bytes", "stored_bytes", "data"}, .then = replace},
                contents, std::ssize(contents.bytes), std::ssize(data), Blob{data});
}

/// What is stored of this name; nothing when that is not there, or damaged.
template <class Contents>
Result<std::optional<Contents>> sound_contents(const Result<Contents>& stored) {
  if (stored) return std::optional<Contents>(*stored);
  const ErrorKind kind = stored.error().kind;
  if (kind != ErrorKind::not_found && kind != ErrorKind::corrupt) return stored.error();
  return std::optional<Contents>();
}

/// Whether a kernel's identity covers the same in both.
bool same_kernel(const Kernel& a, const Kernel& b) {
  return std::tie(a.name, a.architecture, a.options, a.source, a.ptx, a.cubin, a.launch) ==
             std::tie(b.name, b.architecture, b.options, b.source, b.ptx, b.cubin, b.launch) &&
         a.resources == b.resources;
}

}  // namespace

Result<bool> insert_artifact(Connection& connection, const Artifact& artifact) {
  STITCH_ASSIGN(const auto stored, sound_contents(select_artifact(connection, artifact.hash)));
  if (!stored) return put_contents(connection, "artifact", artifact);
  if (stored->kind != artifact.kind)
    return make_error(ErrorKind::invalid_argument, "artifact {} is stored as {}, not as {}", artifact.hash.hex(),
                      to_string(stored->kind), to_string(artifact.kind));
  if (stored->bytes == artifact.bytes) return false;
  return make_error(ErrorKind::invalid_argument, "artifact {}: hash is not that of its bytes", artifact.hash.hex());
}

Result<Artifact> select_artifact(Connection& connection, const Sha256& hash) {
  return select_contents<Artifact>(connection, "artifact", hash);
}

Result<bool> insert_upload(Connection& connection, const Upload& upload) {
  STITCH_ASSIGN(const auto stored, sound_contents(select_upload(connection, upload.hash)));
  if (!stored) return put_contents(connection, "upload", upload);
  if (stored->bytes == upload.bytes) return false;
  return make_error(ErrorKind::invalid_argument, "upload {}: hash is not that of its bytes", upload.hash.hex());
}

Result<Upload> select_upload(Connection& connection, const Sha256& hash) {
  return select_contents<Upload>(connection, "upload", hash);
}

Result<bool> insert_kernel(Connection& connection, const Kernel& kernel) {
  Kernel stored = kernel;
  stored.hash = kernel_hash(kernel);
  STITCH_ASSIGN(const bool known, connection.exists("SELECT 1 FROM kernel WHERE hash = ?", stored.hash));
  if (known) {
    STITCH_ASSIGN(const Kernel before, select_kernel(connection, stored.hash));
    if (same_kernel(before, kernel)) return false;
    return make_error(ErrorKind::corrupt, "kernel {}: another one is stored under this hash", stored.hash.hex());
  }
  STITCH_TRY(validate(kernel));
  using Kind = Artifact::Kind;
  for (const auto& [hash_of, kind] :
       {std::pair{kernel.source, Kind::source}, {kernel.ptx, Kind::ptx}, {kernel.cubin, Kind::cubin}}) {
    STITCH_ASSIGN(const bool there,
                  connection.exists("SELECT 1 FROM artifact WHERE hash = ? AND kind = ?", hash_of, to_string(kind)));
    if (!there)
      return make_error(ErrorKind::invalid_argument, "kernel {}: its {}, artifact {}, is not stored", kernel.name,
                        to_string(kind), hash_of.hex());
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
