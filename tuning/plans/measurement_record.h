#pragma once

#include <string>

#include "db/trial_records.h"
#include "profiler/measure/measurement.h"

namespace stitch::tuning {

/// What the store keeps of a measurement. `device` is the key of the device that took it.
db::MeasurementRecord to_record(const profiler::Measurement& measurement, db::MeasurementRecord::Subject kind,
                                const Hash128& subject, std::string device, db::Provenance provenance);

}  // namespace stitch::tuning
