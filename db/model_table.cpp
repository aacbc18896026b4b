#include "db/model_table.h"

#include "db/blob.h"
#include "db/record_columns.h"

namespace stitch::db::tables {

using sqlite::Blob;
using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

Result<int> insert_model(Connection& connection, const CostModelRecord& model) {
  STITCH_TRY(validate(model));
  STITCH_ASSIGN(const std::string data, compress(model.bytes));
  STITCH_ASSIGN(const std::int64_t last,
                connection.integer("SELECT coalesce(max(version), 0) FROM model WHERE name = ? AND device = ?",
                                   model.name, model.device));
  CostModelRecord stored = model;
  stored.version = static_cast<int>(last) + 1;
  STITCH_TRY(insert(connection, {.table = "model", .more_columns = {"hash", "raw_bytes", "data"}}, stored,
                    hash_bytes(model.bytes), std::ssize(model.bytes), Blob{data}));
  return stored.version;
}

Result<CostModelRecord> select_model(Connection& connection, std::string_view name, std::string_view device,
                                     std::optional<int> version) {
  static const std::string sql = fmt::format(
      "SELECT {}, hash, raw_bytes, data FROM model WHERE name = ?1 AND device = ?2 AND (?3 IS NULL OR version = ?3) "
      "ORDER BY version DESC LIMIT 1",
      columns_of<CostModelRecord>());
  STITCH_ASSIGN(Statement rows, connection.query(sql, name, device, version));
  STITCH_ASSIGN(const bool found, rows.step());
  const std::string what = version ? fmt::format("model \"{}\" for device \"{}\", version {}", name, device, *version)
                                   : fmt::format("model \"{}\" for device \"{}\"", name, device);
  if (!found) return make_error(ErrorKind::not_found, "no {}", what);
  Row row(rows, what);
  CostModelRecord model;
  read_fields(row, model);
  const Hash128 hash = row.hash();
  const std::int64_t raw_bytes = row.integer();
  STITCH_TRY(row.status());
  Result<std::string> bytes = decompress(row.view(), raw_bytes);
  if (!bytes) return bytes.error().within(what);
  if (hash_bytes(*bytes) != hash)
    return make_error(ErrorKind::corrupt, "{}: the stored bytes have hash {}, not {}", what, hash_bytes(*bytes).hex(),
                      hash.hex());
  model.bytes = std::move(*bytes);
  return model;
}

Result<std::vector<CostModelRecord>> select_models(Connection& connection) {
  STITCH_ASSIGN(Statement rows, connection.query(fmt::format("SELECT {} FROM model ORDER BY name, device, version",
                                                             columns_of<CostModelRecord>())));
  return read_records<CostModelRecord>(rows, "model");
}

}  // namespace stitch::db::tables
