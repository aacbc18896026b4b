#include "db/measurement_table.h"

#include <bit>
#include <cstring>

namespace stitch::db::tables {
namespace {

using sqlite::Blob;
using sqlite::Connection;
using sqlite::Row;
using sqlite::Statement;

/// IEEE doubles, little-endian.
std::string encode_samples(const std::vector<double>& samples) {
  std::string bytes;
  bytes.reserve(samples.size() * 8);
  for (const double sample : samples) {
    const auto word = std::bit_cast<std::uint64_t>(sample);
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(word >> (8 * i));
  }
  return bytes;
}

std::vector<double> decode_samples(std::string_view bytes) {
  std::vector<double> samples;
  samples.reserve(bytes.size() / 8);
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    for (std::size_t i = 8; i-- > 0;) word = word << 8 | static_cast<unsigned char>(bytes[at + i]);
    samples.push_back(std::bit_cast<double>(word));
  }
  return samples;
}

Status require_references(Connection& connection, const Measurement& measurement) {
  STITCH_ASSIGN(Statement device, connection.query("SELECT kind FROM device WHERE key = ?", measurement.device));
  STITCH_ASSIGN(const bool known, device.step());
  if (!known)
    return make_error(ErrorKind::invalid_argument, "measurement: device \"{}\" is not stored", measurement.device);
  if (measurement.kind == Measurement::Kind::device_time && device.bytes(0) == "emulated")
    return make_error(ErrorKind::invalid_argument, "measurement: device \"{}\" is emulated and tells no device time",
                      measurement.device);
  if (measurement.subject_kind == Measurement::Subject::schedule) return {};
  const bool of_plan = measurement.subject_kind == Measurement::Subject::plan;
  STITCH_ASSIGN(Statement subject,
                connection.query(of_plan ? "SELECT 1 FROM plan WHERE id = ?" : "SELECT 1 FROM kernel WHERE hash = ?",
                                 measurement.subject));
  STITCH_ASSIGN(const bool there, subject.step());
  if (there) return {};
  return make_error(ErrorKind::invalid_argument, "measurement: {} {} is not stored",
                    to_string(measurement.subject_kind), measurement.subject.hex());
}

Status make_measured(Connection& connection, const Hash128& plan) {
  STITCH_TRY(connection.execute(
      "UPDATE plan SET label = 'measured', neighbour = NULL, measured_us = m.median, tool = m.tool, "
      "toolkit = m.toolkit, judged_on = m.judged_on, wall_us = m.wall_us, judged = m.judged "
      "FROM (SELECT * FROM measurement WHERE subject = ?1 AND subject_kind = 'plan' AND kind = 'device time' "
      "ORDER BY wall_us DESC, row DESC LIMIT 1) m WHERE plan.id = ?1",
      plan));
  return {};
}

Result<Measurement> read_measurement(const Statement& rows) {
  Row row(rows, "measurement");
  Measurement measurement;
  measurement.id = row.hash();
  measurement.subject_kind = row.word(measurement_subject_of);
  measurement.subject = row.hash();
  measurement.kind = row.word(measurement_kind_of);
  measurement.device = row.text();
  measurement.samples = decode_samples(row.view());
  measurement.summary = {row.real(), row.real(), row.real(), row.real()};
  measurement.dropped = row.integer();
  measurement.cold_l2 = row.flag();
  measurement.sm_clock_mhz = row.optional_real();
  measurement.memory_clock_mhz = row.optional_real();
  measurement.temperature_c = row.optional_real();
  measurement.driver = row.text();
  measurement.method = row.text();
  measurement.stopped = row.text();
  measurement.conditions = row.text();
  measurement.provenance = row.provenance();
  STITCH_TRY(row.status());
  if (const Hash128 id = measurement_id(measurement); id != measurement.id)
    return make_error(ErrorKind::corrupt, "measurement {}: the stored row has id {}", measurement.id.hex(), id.hex());
  return measurement;
}

}  // namespace

Result<RecordedMeasurement> insert_measurement(Connection& connection, const Measurement& measurement) {
  STITCH_TRY(validate(measurement));
  RecordedMeasurement recorded{measurement_id(measurement), false};
  STITCH_ASSIGN(Statement known, connection.query("SELECT 1 FROM measurement WHERE id = ?", recorded.id));
  STITCH_ASSIGN(const bool found, known.step());
  if (found) return recorded;
  STITCH_TRY(require_references(connection, measurement));
  const SampleSummary summary = summarise(measurement.samples);
  const std::string samples = encode_samples(measurement.samples);
  STITCH_TRY(connection.execute(
      "INSERT INTO measurement (id, subject_kind, subject, kind, device, samples, mean, median, minimum, rsd, dropped, "
      "cold_l2, sm_clock_mhz, memory_clock_mhz, temperature_c, driver, method, stopped, conditions, tool, toolkit, "
      "judged_on, wall_us, judged) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      recorded.id, to_string(measurement.subject_kind), measurement.subject, to_string(measurement.kind),
      measurement.device, Blob{samples}, summary.mean, summary.median, summary.minimum, summary.rsd,
      measurement.dropped, measurement.cold_l2, measurement.sm_clock_mhz, measurement.memory_clock_mhz,
      measurement.temperature_c, measurement.driver, measurement.method, measurement.stopped, measurement.conditions,
      measurement.provenance));
  recorded.inserted = true;
  if (measurement.subject_kind == Measurement::Subject::plan && measurement.kind == Measurement::Kind::device_time)
    STITCH_TRY(make_measured(connection, measurement.subject));
  return recorded;
}

Result<std::vector<Measurement>> select_measurements(Connection& connection, const Hash128& subject) {
  STITCH_ASSIGN(Statement rows,
                connection.query("SELECT id, subject_kind, subject, kind, device, samples, mean, median, minimum, rsd, "
                                 "dropped, cold_l2, sm_clock_mhz, memory_clock_mhz, temperature_c, driver, method, "
                                 "stopped, conditions, tool, toolkit, judged_on, wall_us, judged "
                                 "FROM measurement WHERE subject = ? ORDER BY row",
                                 subject));
  std::vector<Measurement> measurements;
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return measurements;
    STITCH_ASSIGN(Measurement measurement, read_measurement(rows));
    measurements.push_back(std::move(measurement));
  }
}

}  // namespace stitch::db::tables
