#include "db/fragment_table.h"

#include "db/artifact_table.h"
#include "db/listing.h"

namespace stitch::db::tables {
namespace {

using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

constexpr std::string_view device_columns =
    "key, kind, target, name, architecture, driver, sm_count, memory_bytes, constants, calibrated_us, "
    "tool, toolkit, judged_on, wall_us, judged";

Result<Device> read_device(const Statement& rows) {
  Row row(rows, "device");
  Device device;
  device.key = row.text();
  device.kind = row.text();
  device.target = row.text();
  device.name = row.text();
  device.architecture = row.text();
  device.driver = row.text();
  device.sm_count = row.small();
  device.memory_bytes = row.integer();
  device.constants = row.text();
  device.calibrated_us = row.integer();
  device.provenance = row.provenance();
  STITCH_TRY(row.status());
  return device;
}

Result<FragmentSummary> read_summary(const Statement& rows) {
  Row row(rows, "fragment");
  row.skip();
  FragmentSummary fragment;
  fragment.key = row.hash();
  fragment.family = row.hash();
  fragment.name = row.text();
  fragment.operator_count = row.integer();
  fragment.parameter_bytes = row.integer();
  fragment.provenance = row.provenance();
  STITCH_TRY(row.status());
  return fragment;
}

/// Columns: row, key, name, format, report, provenance.
Result<Workload> read_workload(Connection& connection, const Statement& rows) {
  Row row(rows, "workload");
  const std::int64_t number = row.integer();
  Workload workload;
  workload.key = row.hash();
  workload.name = row.text();
  workload.format = row.text();
  workload.report = row.text();
  workload.provenance = row.provenance();
  STITCH_TRY(row.status());
  STITCH_ASSIGN(Statement parts, connection.query("SELECT fragment, occurrences FROM workload_part "
                                                  "WHERE workload = ? ORDER BY position",
                                                  number));
  while (true) {
    STITCH_ASSIGN(const bool more, parts.step());
    if (!more) return workload;
    Row part(parts, "workload_part");
    workload.parts.push_back({part.hash(), part.integer()});
    STITCH_TRY(part.status());
  }
}

}  // namespace

Result<bool> insert_device(Connection& connection, const Device& device) {
  STITCH_TRY(validate(device));
  STITCH_ASSIGN(const std::int64_t added,
                connection.execute("INSERT INTO device (key, kind, target, name, architecture, driver, sm_count, "
                                   "memory_bytes, constants, calibrated_us, tool, toolkit, judged_on, wall_us, judged) "
                                   "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
                                   device.key, device.kind, device.target, device.name, device.architecture,
                                   device.driver, device.sm_count, device.memory_bytes, device.constants,
                                   device.calibrated_us, device.provenance));
  return added > 0;
}

Status upsert_device(Connection& connection, const Device& device) {
  STITCH_ASSIGN(const bool added, insert_device(connection, device));
  if (added) return {};
  STITCH_TRY(connection.execute(
      "UPDATE device SET kind = ?, target = ?, name = ?, architecture = ?, driver = ?, sm_count = ?, memory_bytes = ?, "
      "constants = ?, calibrated_us = ?, tool = ?, toolkit = ?, judged_on = ?, wall_us = ?, judged = ? WHERE key = ?",
      device.kind, device.target, device.name, device.architecture, device.driver, device.sm_count, device.memory_bytes,
      device.constants, device.calibrated_us, device.provenance, device.key));
  return {};
}

Result<Device> select_device(Connection& connection, std::string_view key) {
  STITCH_ASSIGN(Statement rows,
                connection.query(fmt::format("SELECT {} FROM device WHERE key = ?", device_columns), key));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no device \"{}\"", key);
  return read_device(rows);
}

Result<std::vector<Device>> select_devices(Connection& connection) {
  STITCH_ASSIGN(Statement rows, connection.query(fmt::format("SELECT {} FROM device ORDER BY key", device_columns)));
  std::vector<Device> devices;
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return devices;
    STITCH_ASSIGN(Device device, read_device(rows));
    devices.push_back(std::move(device));
  }
}

Result<bool> insert_fragment(Connection& connection, const Fragment& fragment) {
  STITCH_TRY(validate(fragment));
  STITCH_ASSIGN(Statement known, connection.query("SELECT family FROM fragment WHERE key = ?", fragment.key));
  STITCH_ASSIGN(const bool found, known.step());
  if (found) {
    Row row(known, "fragment");
    const Hash128 family = row.hash();
    STITCH_TRY(row.status());
    if (family == fragment.family) return false;
    return make_error(ErrorKind::invalid_argument, "fragment {} is stored with family {}, not {}", fragment.key.hex(),
                      family.hex(), fragment.family.hex());
  }
  const Artifact graph{hash_bytes(fragment.graph), Artifact::Kind::graph, fragment.graph, fragment.provenance};
  STITCH_TRY(insert_artifact(connection, graph));
  STITCH_TRY(
      connection.execute("INSERT INTO fragment (key, family, name, graph, operator_count, parameter_bytes, tool, "
                         "toolkit, judged_on, wall_us, judged) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                         fragment.key, fragment.family, fragment.name, graph.hash, fragment.operator_count,
                         fragment.parameter_bytes, fragment.provenance));
  return true;
}

Result<Fragment> select_fragment(Connection& connection, const Hash128& key) {
  STITCH_ASSIGN(Statement rows,
                connection.query("SELECT family, name, graph, operator_count, parameter_bytes, tool, toolkit, "
                                 "judged_on, wall_us, judged FROM fragment WHERE key = ?",
                                 key));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no fragment {}", key.hex());
  const std::string name = fmt::format("fragment {}", key.hex());
  Row row(rows, name);
  Fragment fragment;
  fragment.key = key;
  fragment.family = row.hash();
  fragment.name = row.text();
  const Hash128 graph = row.hash();
  fragment.operator_count = row.integer();
  fragment.parameter_bytes = row.integer();
  fragment.provenance = row.provenance();
  STITCH_TRY(row.status());
  Result<Artifact> artifact = select_artifact(connection, graph);
  if (!artifact) return artifact.error().within(name);
  fragment.graph = std::move(artifact->bytes);
  return fragment;
}

Result<Listing<FragmentSummary>> select_fragments(Connection& connection, const Page& page) {
  return list_page<FragmentSummary>(connection,
                                    "SELECT row, key, family, name, operator_count, parameter_bytes, tool, toolkit, "
                                    "judged_on, wall_us, judged FROM fragment WHERE TRUE",
                                    "row", page, read_summary);
}

Status upsert_workload(Connection& connection, const Workload& workload) {
  STITCH_TRY(validate(workload));
  STITCH_ASSIGN(
      const std::int64_t number,
      connection.integer("INSERT INTO workload (key, name, format, report, tool, toolkit, judged_on, wall_us, judged) "
                         "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET name = excluded.name, "
                         "format = excluded.format, report = excluded.report, tool = excluded.tool, "
                         "toolkit = excluded.toolkit, judged_on = excluded.judged_on, wall_us = excluded.wall_us, "
                         "judged = excluded.judged RETURNING row",
                         workload.key, workload.name, workload.format, workload.report, workload.provenance));
  STITCH_TRY(connection.execute("DELETE FROM workload_part WHERE workload = ?", number));
  int position = 0;
  for (const Workload::Part& part : workload.parts) {
    STITCH_ASSIGN(Statement fragment, connection.query("SELECT 1 FROM fragment WHERE key = ?", part.fragment));
    STITCH_ASSIGN(const bool there, fragment.step());
    if (!there)
      return make_error(ErrorKind::invalid_argument, "workload {}: fragment {} is not stored", workload.name,
                        part.fragment.hex());
    STITCH_TRY(
        connection.execute("INSERT INTO workload_part (workload, position, fragment, occurrences) VALUES (?, ?, ?, ?)",
                           number, position++, part.fragment, part.occurrences));
  }
  return {};
}

Result<Workload> select_workload(Connection& connection, const Hash128& key) {
  STITCH_ASSIGN(Statement rows, connection.query("SELECT row, key, name, format, report, tool, toolkit, judged_on, "
                                                 "wall_us, judged FROM workload WHERE key = ?",
                                                 key));
  STITCH_ASSIGN(const bool found, rows.step());
  if (!found) return make_error(ErrorKind::not_found, "no workload {}", key.hex());
  return read_workload(connection, rows);
}

Result<Listing<Workload>> select_workloads(Connection& connection, const Page& page) {
  return list_page<Workload>(connection,
                             "SELECT row, key, name, format, report, tool, toolkit, judged_on, wall_us, judged "
                             "FROM workload WHERE TRUE",
                             "row", page, [&](const Statement& rows) { return read_workload(connection, rows); });
}

}  // namespace stitch::db::tables
