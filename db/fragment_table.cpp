#include "db/fragment_table.h"

#include "db/artifact_table.h"
#include "db/blob.h"
#include "db/listing.h"
#include "db/record_columns.h"
#include "graph/codec/codec.h"

namespace stitch::db::tables {
namespace {

using sqlite::Blob;
using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

/// Columns: row, then those of a workload.
Result<Workload> read_workload(Connection& connection, const Statement& rows) {
  static const std::string sql =
      fmt::format("SELECT {} FROM workload_part WHERE workload = ? ORDER BY position", columns_of<Workload::Part>());
  STITCH_ASSIGN(Workload workload, read_record<Workload>(rows, "workload", 1));
  STITCH_ASSIGN(Statement parts, connection.query(sql, rows.integer(0)));
  STITCH_ASSIGN(workload.parts, read_records<Workload::Part>(parts, "workload_part"));
  return workload;
}

struct Known {
  Hash128 family;
  Sha256 graph;
};

Result<std::optional<Known>> known_fragment(Connection& connection, const Hash128& key) {
  STITCH_ASSIGN(Statement rows, connection.query("SELECT family, graph FROM fragment WHERE key = ?", key));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return std::optional<Known>();
  Row row(rows, "fragment");
  Known known{row.hash(), {}};
  known.graph = row.content_name();
  STITCH_TRY(row.status());
  return std::optional(known);
}

/// Whether two encodings are of one graph: another version of Stitch may have written other bytes.
bool same_graph(std::string_view one, std::string_view other) {
  const auto first = graph::decode(one, graph::Encoding::cbor), second = graph::decode(other, graph::Encoding::cbor);
  if (!first || !second) return false;
  return graph::encode(*first, graph::Encoding::cbor) == graph::encode(*second, graph::Encoding::cbor);
}

/// Keys are no cryptographic hashes, and clients choose what is hashed: a graph that was made to have the key of
/// another one must neither be taken for it nor take its place. A stored graph that is damaged is replaced by a sound
/// one.
Status confirm_graph(Connection& connection, const Hash128& key, const Sha256& stored, const Artifact& graph) {
  if (stored != graph.hash) {
    const Result<Artifact> before = select_artifact(connection, stored);
    if (!before && before.error().kind != ErrorKind::corrupt) return before.error();
    if (before && !same_graph(before->bytes, graph.bytes))
      return make_error(ErrorKind::already_exists,
                        "fragment {}: another graph is stored under this key, which no two graphs have by chance",
                        key.hex());
  }
  STITCH_TRY(insert_artifact(connection, graph));
  if (stored != graph.hash)
    STITCH_TRY(connection.execute("UPDATE fragment SET graph = ? WHERE key = ?", graph.hash, key));
  return {};
}

}  // namespace

Result<bool> insert_device(Connection& connection, const Device& device) {
  STITCH_TRY(validate(device));
  return insert(connection, {.table = "device", .then = "ON CONFLICT (key) DO NOTHING"}, device);
}

Status upsert_device(Connection& connection, const Device& device) {
  static const std::string refresh =
      fmt::format("ON CONFLICT (key) DO UPDATE SET {}", Columns::of<Device>(Columns::Purpose::insert).replacements());
  STITCH_TRY(validate(device));
  STITCH_TRY(insert(connection, {.table = "device", .then = refresh}, device));
  return {};
}

Result<Device> select_device(Connection& connection, std::string_view key) {
  STITCH_ASSIGN(Statement rows,
                connection.query(fmt::format("SELECT {} FROM device WHERE key = ?", columns_of<Device>()), key));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no device \"{}\"", key);
  return read_record<Device>(rows, "device");
}

Result<std::vector<Device>> select_devices(Connection& connection) {
  STITCH_ASSIGN(Statement rows,
                connection.query(fmt::format("SELECT {} FROM device ORDER BY key", columns_of<Device>())));
  return read_records<Device>(rows, "device");
}

Result<bool> insert_fragment(Connection& connection, const FragmentRecord& fragment) {
  STITCH_TRY(validate(fragment));
  const Artifact graph{sha256(fragment.graph), Artifact::Kind::graph, fragment.graph, fragment.provenance};
  STITCH_ASSIGN(const std::optional<Known> known, known_fragment(connection, fragment.key));
  if (known) {
    if (known->family != fragment.family)
      return make_error(ErrorKind::invalid_argument, "fragment {} is stored with family {}, not {}", fragment.key.hex(),
                        known->family.hex(), fragment.family.hex());
    STITCH_TRY(confirm_graph(connection, fragment.key, known->graph, graph));
    return false;
  }
  STITCH_TRY(insert_artifact(connection, graph));
  return insert(connection, {.table = "fragment", .more_columns = {"graph"}}, fragment, graph.hash);
}

Result<FragmentRecord> select_fragment(Connection& connection, const Hash128& key) {
  static const std::string sql =
      fmt::format("SELECT {}, graph FROM fragment WHERE key = ?", columns_of<FragmentRecord>());
  STITCH_ASSIGN(Statement rows, connection.query(sql, key));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no fragment {}", key.hex());
  const std::string name = fmt::format("fragment {}", key.hex());
  Row row(rows, name);
  FragmentRecord fragment;
  read_fields(row, fragment);
  const Sha256 graph = row.content_name();
  STITCH_TRY(row.status());
  Result<Artifact> artifact = select_artifact(connection, graph);
  if (!artifact) return artifact.error().within(name);
  fragment.graph = std::move(artifact->bytes);
  return fragment;
}

Result<Listing<FragmentSummary>> select_fragments(Connection& connection, const Page& page) {
  return list_page<FragmentSummary>(
      connection, fmt::format("SELECT row, {} FROM fragment WHERE TRUE", columns_of<FragmentSummary>()), "row", page,
      [](const Statement& rows) { return read_record<FragmentSummary>(rows, "fragment", 1); });
}

Status upsert_workload(Connection& connection, const Workload& workload) {
  static const std::string replace = fmt::format("ON CONFLICT (key) DO UPDATE SET {} RETURNING row",
                                                 Columns::of<Workload>(Columns::Purpose::insert).replacements());
  STITCH_TRY(validate(workload));
  std::int64_t number = 0;
  {
    STITCH_ASSIGN(Statement stored, insertion(connection, {.table = "workload", .then = replace}, workload));
    STITCH_TRY(stored.step());
    number = stored.integer(0);
  }
  STITCH_TRY(connection.execute("DELETE FROM workload_part WHERE workload = ?", number));
  int position = 0;
  for (const Workload::Part& part : workload.parts) {
    STITCH_ASSIGN(const bool there, connection.exists("SELECT 1 FROM fragment WHERE key = ?", part.fragment));
    if (!there)
      return make_error(ErrorKind::invalid_argument, "workload {}: fragment {} is not stored", workload.name,
                        part.fragment.hex());
    STITCH_TRY(insert(connection, {.table = "workload_part", .more_columns = {"workload", "position"}}, part, number,
                      position++));
  }
  return {};
}

Result<Workload> select_workload(Connection& connection, const Sha256& key) {
  STITCH_ASSIGN(
      Statement rows,
      connection.query(fmt::format("SELECT row, {} FROM workload WHERE key = ?", columns_of<Workload>()), key));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no workload {}", key.hex());
  return read_workload(connection, rows);
}

Result<Listing<Workload>> select_workloads(Connection& connection, const Page& page) {
  return list_page<Workload>(connection, fmt::format("SELECT row, {} FROM workload WHERE TRUE", columns_of<Workload>()),
                             "row", page, [&](const Statement& rows) { return read_workload(connection, rows); });
}

Status upsert_program(Connection& connection, const ProgramRecord& program) {
  static const std::string replace = fmt::format(
      "ON CONFLICT (model, device) DO UPDATE SET {}, hash = excluded.hash, raw_bytes = excluded.raw_bytes, data = "
      "excluded.data",
      Columns::of<ProgramRecord>(Columns::Purpose::insert).replacements());
  STITCH_TRY(validate(program));
  STITCH_ASSIGN(const bool there, connection.exists("SELECT 1 FROM workload WHERE key = ?", program.model));
  if (!there) {
    return make_error(ErrorKind::invalid_argument, "program of {}: the model {} is not stored", program.name,
                      program.model.hex());
  }
  STITCH_ASSIGN(const std::string data, compress(program.document));
  STITCH_ASSIGN(
      Statement stored,
      insertion(connection, {.table = "program", .more_columns = {"hash", "raw_bytes", "data"}, .then = replace},
                program, sha256(program.document), std::ssize(program.document), Blob{data}));
  return stored.run();
}

Result<ProgramRecord> select_program(Connection& connection, const Sha256& model, std::string_view device) {
  static const std::string sql = fmt::format(
      "SELECT {}, hash, raw_bytes, data FROM program WHERE model = ? AND device = ?", columns_of<ProgramRecord>());
  STITCH_ASSIGN(Statement rows, connection.query(sql, model, device));
  STITCH_ASSIGN(const bool found, rows.step());
  const std::string what = fmt::format("program of model {} for {}", model.hex(), device);
  if (!found) return make_error(ErrorKind::not_found, "no {}", what);
  Row row(rows, what);
  ProgramRecord program;
  read_fields(row, program);
  const Sha256 hash = row.content_name();
  const std::int64_t raw_bytes = row.integer();
  STITCH_TRY(row.status());
  Result<std::string> document = decompress(row.view(), raw_bytes);
  if (!document) return document.error().within(what);
  if (sha256(*document) != hash)
    return make_error(ErrorKind::corrupt, "{}: the stored bytes have another hash than {}", what, hash.hex());
  program.document = std::move(*document);
  return program;
}

Result<Listing<ProgramRecord>> select_programs(Connection& connection, const std::optional<std::string>& name,
                                               const Page& page) {
  return list_page<ProgramRecord>(
      connection,
      fmt::format("SELECT row, {} FROM program WHERE (?1 IS NULL OR name = ?1)", columns_of<ProgramRecord>()), "row",
      page, [](const Statement& rows) { return read_record<ProgramRecord>(rows, "program", 1); }, name);
}

}  // namespace stitch::db::tables
