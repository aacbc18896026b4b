#include "tuning/plans/measurement_record.h"

namespace stitch::tuning {

db::MeasurementRecord to_record(const profiler::Measurement& measurement, db::MeasurementRecord::Subject kind,
                                const Hash128& subject, std::string device, db::Provenance provenance) {
  using profiler::mean_of;
  db::MeasurementRecord record;
  record.subject_kind = kind;
  record.subject = subject;
  record.kind = measurement.kind == profiler::Measurement::Kind::device_time ? db::MeasurementRecord::Kind::device_time
                                                                             : db::MeasurementRecord::Kind::event_count;
  record.device = std::move(device);
  record.samples = measurement.samples;
  record.dropped = measurement.dropped_samples.size();
  record.cold_l2 = measurement.cold_l2;
  record.sm_clock_mhz = mean_of(measurement.before.sm_clock_mhz, measurement.after.sm_clock_mhz);
  record.memory_clock_mhz = mean_of(measurement.before.memory_clock_mhz, measurement.after.memory_clock_mhz);
  record.temperature_c = mean_of(measurement.before.temperature_c, measurement.after.temperature_c);
  record.driver = measurement.driver;
  record.method = measurement.method;
  record.stopped = measurement.stopped;
  record.conditions = profiler::conditions(measurement);
  record.provenance = std::move(provenance);
  return record;
}

}  // namespace stitch::tuning
