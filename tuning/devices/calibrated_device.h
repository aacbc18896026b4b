#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/device_spec.h"
#include "base/result.h"
#include "codegen/compile/compiler.h"
#include "db/store.h"
#include "profiler/measure/calibration.h"
#include "profiler/measure/timed_device.h"

// A device's place in the device table, and what calibration found out about it, as the store keeps it.
namespace stitch::tuning {

/// The class of a GPU by what its driver reports (base/device_class.h). Where that was not kept, in records of before,
/// the entry that its name sounds like, with its SMs. Error: not_found (nothing is known but a name, and it is none).
Result<DeviceSpec> entry_of(const profiler::DeviceIdentity& identity);

/// What is planned for: `target`, or where it is empty the GPU's own class, and an H100 without a GPU (null). Errors:
/// those of entry_of; invalid_argument (no such class; the GPU's own is another one: what is measured on it says
/// nothing of the target).
Result<DeviceSpec> planning_entry(std::string_view target, const profiler::TimedDevice* gpu);

/// What to plan with for a device: its class (Device::target; of a GPU without one, by the driver's name) with the
/// device's own number of SMs and its calibrated constants. Notes name constants that were not believed.
/// Errors: not_found (no entry is for it); parse (constants that nobody here wrote).
Result<profiler::CalibratedSpec> calibrated_spec(const db::Device& device);

/// Writes a calibration into a device's record. `target` is the entry of the table that it was calibrated against.
void set_calibration(db::Device& device, const profiler::Calibration& calibration, std::string_view target,
                     std::int64_t wall_us);

/// Measures the constants of `entry` on the device, by kernels compiled for the device's architecture (the entry's
/// where the device takes any). Errors: those of profiler::calibrate.
Result<profiler::Calibration> calibrate_device(profiler::TimedDevice& device, const DeviceSpec& entry,
                                               codegen::Compiler& compiler);

/// Keeps a calibration with its device. Errors: those of the store.
Status store_calibration(db::Store& store, const profiler::DeviceIdentity& identity, const DeviceSpec& entry,
                         const profiler::Calibration& calibration, const std::string& toolkit, const Clock& clock);

/// What to plan with. A class that is no entry of the table is said so in a note, with where its constants come from.
/// Without a GPU (null) the entry of the table. With one its own constants, from the store; a GPU
/// that was not calibrated yet, or for another entry, is calibrated and stored. Without a store, or where that fails (a
/// GPU that throttles is no reason not to plan), the table's constants serve, all of them or the one that could not be
/// measured, and a note says why. Errors: those of planning_entry.
Result<profiler::CalibratedSpec> planning_device(std::string_view target, profiler::TimedDevice* gpu, db::Store* store,
                                                 const Clock& clock);

/// The record of a device that is present; `known`: what is stored of it, whose calibration stays. Its provenance is
/// left to the caller.
db::Device device_record(const profiler::DeviceIdentity& identity, db::Device known);

}  // namespace stitch::tuning
