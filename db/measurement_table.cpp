#include "db/measurement_table.h"

#include "db/record_columns.h"

namespace stitch::db::tables {
namespace {

using sqlite::Connection;
using sqlite::Statement;

Status require_references(Connection& connection, const MeasurementRecord& measurement) {
  STITCH_ASSIGN(Statement device, connection.query("SELECT kind FROM device WHERE key = ?", measurement.device));
  STITCH_ASSIGN(const bool known, device.step());
  if (!known)
    return make_error(ErrorKind::invalid_argument, "measurement: device \"{}\" is not stored", measurement.device);
  if (measurement.kind == MeasurementRecord::Kind::device_time && device.bytes(0) == "emulated")
    return make_error(ErrorKind::invalid_argument, "measurement: device \"{}\" is emulated and tells no device time",
                      measurement.device);
  if (measurement.subject_kind == MeasurementRecord::Subject::schedule) return {};
  const bool of_plan = measurement.subject_kind == MeasurementRecord::Subject::plan;
  STITCH_ASSIGN(const bool there,
                connection.exists(of_plan ? "SELECT 1 FROM plan WHERE id = ?" : "SELECT 1 FROM kernel WHERE hash = ?",
                                  measurement.subject));
  if (there) return {};
  return make_error(ErrorKind::invalid_argument, "measurement: {} {} is not stored",
                    to_string(measurement.subject_kind), measurement.subject.hex());
}

/// The newest counts; but one with warm L2 never in the place of one with cold L2, which plans are compared by.
Status make_measured(Connection& connection, const Hash128& plan) {
  STITCH_TRY(connection.execute(
      "UPDATE plan SET label = 'measured', neighbour = NULL, measured_us = m.median, tool = m.tool, "
      "toolkit = m.toolkit, judged_on = m.judged_on, wall_us = m.wall_us, judged = m.judged "
      "FROM (SELECT * FROM measurement WHERE subject = ?1 AND subject_kind = 'plan' AND kind = 'device time' "
      "ORDER BY cold_l2 DESC, wall_us DESC, row DESC LIMIT 1) m WHERE plan.id = ?1",
      plan));
  return {};
}

Result<MeasurementRecord> read_measurement(const Statement& rows) {
  STITCH_ASSIGN(MeasurementRecord measurement, read_record<MeasurementRecord>(rows, "measurement"));
  if (const Hash128 id = measurement_id(measurement); id != measurement.id)
    return make_error(ErrorKind::corrupt, "measurement {}: the stored row has id {}", measurement.id.hex(), id.hex());
  return measurement;
}

}  // namespace

Result<RecordedMeasurement> insert_measurement(Connection& connection, const MeasurementRecord& measurement) {
  STITCH_TRY(validate(measurement));
  RecordedMeasurement recorded{measurement_id(measurement), false};
  STITCH_ASSIGN(const bool known, connection.exists("SELECT 1 FROM measurement WHERE id = ?", recorded.id));
  if (known) return recorded;
  STITCH_TRY(require_references(connection, measurement));
  MeasurementRecord stored = measurement;
  stored.id = recorded.id;
  stored.summary = summarise(measurement.samples);
  STITCH_ASSIGN(recorded.inserted, insert(connection, {.table = "measurement"}, stored));
  if (measurement.subject_kind == MeasurementRecord::Subject::plan &&
      measurement.kind == MeasurementRecord::Kind::device_time)
    STITCH_TRY(make_measured(connection, measurement.subject));
  return recorded;
}

Result<std::vector<MeasurementRecord>> select_measurements(Connection& connection, const Hash128& subject) {
  static const std::string sql =
      fmt::format("SELECT {} FROM measurement WHERE subject = ? ORDER BY row", columns_of<MeasurementRecord>());
  STITCH_ASSIGN(Statement rows, connection.query(sql, subject));
  std::vector<MeasurementRecord> measurements;
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return measurements;
    STITCH_ASSIGN(MeasurementRecord measurement, read_measurement(rows));
    measurements.push_back(std::move(measurement));
  }
}

}  // namespace stitch::db::tables
