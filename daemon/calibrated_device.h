#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "db/records.h"
#include "profiler/calibration.h"
#include "profiler/device.h"

// A device's place in the device table, and what calibration found out about it, as the store keeps it.
namespace stitch::daemon {

/// What to plan with for a device: the table's entry (Device::target; of a GPU without one, by the driver's name) with
/// the device's own number of SMs and its calibrated constants. Notes name constants that were not believed.
/// Errors: not_found (no entry is for it); parse (constants that nobody here wrote).
Result<profiler::CalibratedSpec> calibrated_spec(const db::Device& device);

/// Files a calibration under a device. `target` is the entry of the table that it was calibrated against.
void set_calibration(db::Device& device, const profiler::Calibration& calibration, std::string_view target,
                     std::int64_t wall_us);

/// The record of a device that is present; `known`: what is stored of it, whose calibration stays. Its provenance is
/// left to the caller.
db::Device device_record(const profiler::DeviceIdentity& identity, db::Device known);

}  // namespace stitch::daemon
