#include "db/model_table.h"

#include <bit>

#include "db/blob.h"

namespace stitch::db::tables {
namespace {

using sqlite::Blob;
using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

/// Columns: name, device, version, training_set, accuracy, seed, provenance.
TrainedModel read_model(Row& row) {
  TrainedModel model;
  model.name = row.text();
  model.device = row.text();
  model.version = row.small();
  model.training_set = row.hash();
  model.accuracy = row.text();
  model.seed = std::bit_cast<std::uint64_t>(row.integer());
  model.provenance = row.provenance();
  return model;
}

Result<Quarantine> read_quarantine(const Statement& rows) {
  Row row(rows, "quarantine");
  Quarantine entry;
  entry.subject = row.hash();
  entry.device = row.text();
  entry.reason = row.text();
  entry.strikes = row.small();
  entry.first_us = row.integer();
  entry.provenance = row.provenance();
  STITCH_TRY(row.status());
  return entry;
}

}  // namespace

Result<int> insert_model(Connection& connection, const TrainedModel& model) {
  STITCH_TRY(validate(model));
  STITCH_ASSIGN(const std::string data, compress(model.bytes));
  STITCH_ASSIGN(
      const std::int64_t version,
      connection.integer("INSERT INTO model (name, device, version, training_set, hash, raw_bytes, data, "
                         "accuracy, seed, tool, toolkit, judged_on, wall_us, judged) "
                         "VALUES (?1, ?2, (SELECT coalesce(max(version), 0) + 1 FROM model WHERE name = ?1 "
                         "AND device = ?2), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) RETURNING version",
                         model.name, model.device, model.training_set, hash_bytes(model.bytes),
                         static_cast<std::int64_t>(model.bytes.size()), Blob{data}, model.accuracy,
                         std::bit_cast<std::int64_t>(model.seed), model.provenance));
  return static_cast<int>(version);
}

Result<TrainedModel> select_model(Connection& connection, std::string_view name, std::string_view device,
                                  std::optional<int> version) {
  STITCH_ASSIGN(Statement rows,
                connection.query("SELECT name, device, version, training_set, accuracy, seed, tool, toolkit, "
                                 "judged_on, wall_us, judged, hash, raw_bytes, data FROM model WHERE name = ?1 "
                                 "AND device = ?2 AND (?3 IS NULL OR version = ?3) ORDER BY version DESC LIMIT 1",
                                 name, device, version));
  STITCH_ASSIGN(const bool found, rows.step());
  const std::string what = version ? fmt::format("model \"{}\" for device \"{}\", version {}", name, device, *version)
                                   : fmt::format("model \"{}\" for device \"{}\"", name, device);
  if (!found) return make_error(ErrorKind::not_found, "no {}", what);
  Row row(rows, what);
  TrainedModel model = read_model(row);
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

Result<std::vector<TrainedModel>> select_models(Connection& connection) {
  STITCH_ASSIGN(Statement rows,
                connection.query("SELECT name, device, version, training_set, accuracy, seed, tool, toolkit, "
                                 "judged_on, wall_us, judged FROM model ORDER BY name, device, version"));
  std::vector<TrainedModel> models;
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return models;
    Row row(rows, "model");
    models.push_back(read_model(row));
    STITCH_TRY(row.status());
  }
}

Status strike(Connection& connection, const Quarantine& entry) {
  STITCH_TRY(validate(entry));
  STITCH_TRY(connection.execute(
      "INSERT INTO quarantine (subject, device, reason, strikes, first_us, tool, toolkit, judged_on, wall_us, judged) "
      "VALUES (?1, ?2, ?3, 1, ?7, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (subject, device) DO UPDATE SET "
      "reason = excluded.reason, strikes = strikes + 1, tool = excluded.tool, toolkit = excluded.toolkit, "
      "judged_on = excluded.judged_on, wall_us = excluded.wall_us, judged = excluded.judged",
      entry.subject, entry.device, entry.reason, entry.provenance));
  return {};
}

Result<std::optional<Quarantine>> select_strikes(Connection& connection, const Hash128& subject,
                                                 std::string_view device) {
  STITCH_ASSIGN(Statement rows,
                connection.query("SELECT subject, device, reason, strikes, first_us, tool, toolkit, judged_on, "
                                 "wall_us, judged FROM quarantine WHERE subject = ? AND device = ?",
                                 subject, device));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<Quarantine>();
  STITCH_ASSIGN(Quarantine entry, read_quarantine(rows));
  return std::optional<Quarantine>(std::move(entry));
}

Result<std::vector<Quarantine>> select_quarantine(Connection& connection) {
  STITCH_ASSIGN(Statement rows,
                connection.query("SELECT subject, device, reason, strikes, first_us, tool, toolkit, judged_on, "
                                 "wall_us, judged FROM quarantine ORDER BY subject, device"));
  std::vector<Quarantine> entries;
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return entries;
    STITCH_ASSIGN(Quarantine entry, read_quarantine(rows));
    entries.push_back(std::move(entry));
  }
}

Status release(Connection& connection, const Hash128& subject, std::string_view device) {
  STITCH_ASSIGN(const std::int64_t removed,
                connection.execute("DELETE FROM quarantine WHERE subject = ? AND device = ?", subject, device));
  if (removed == 0) return make_error(ErrorKind::not_found, "{} is not in quarantine on \"{}\"", subject.hex(), device);
  return {};
}

}  // namespace stitch::db::tables
