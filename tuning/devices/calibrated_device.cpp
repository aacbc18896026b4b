#include "tuning/devices/calibrated_device.h"

#include <nlohmann/json.hpp>

#include "base/device_class.h"
#include "base/driver_name.h"
#include "base/version.h"

namespace stitch::tuning {
namespace {

Result<DeviceSpec> recorded_entry(const db::Device& device) {
  if (device.target.empty()) return find_device_by_driver_name(device.name);
  STITCH_ASSIGN(DeviceClass named, find_device_class(device.target));
  return std::move(named.spec);
}

}  // namespace

Result<DeviceSpec> entry_of(const profiler::DeviceIdentity& identity) {
  if (identity.traits.known()) {
    STITCH_ASSIGN(DeviceClass own, classify(identity.traits));
    return std::move(own.spec);
  }
  STITCH_ASSIGN(DeviceSpec entry, find_device_by_driver_name(identity.name));
  if (identity.sm_count > 0) entry.sm_count = identity.sm_count;
  return entry;
}

Result<DeviceSpec> planning_entry(std::string_view target, const profiler::TimedDevice* gpu) {
  if (gpu == nullptr) {
    STITCH_ASSIGN(DeviceClass named, find_device_class(target.empty() ? "h100" : target));
    return std::move(named.spec);
  }
  const profiler::DeviceIdentity& identity = gpu->identity();
  Result<DeviceSpec> own = entry_of(identity);
  if (target.empty()) return own;
  STITCH_ASSIGN(DeviceClass named, find_device_class(target));
  if (own && own->name != named.spec.name) {
    return make_error(ErrorKind::invalid_argument, "the GPU is an {} ({}): plans for {} cannot be measured on it",
                      identity.name, own->name, named.spec.name);
  }
  if (own) return own;
  if (identity.sm_count > 0) named.spec.sm_count = identity.sm_count;
  return std::move(named.spec);
}

Result<profiler::CalibratedSpec> calibrated_spec(const db::Device& device) {
  const auto entry = recorded_entry(device);
  if (!entry) return make_error(ErrorKind::not_found, "device {}: {}", device.key, entry.error().message);
  DeviceSpec spec = *entry;
  if (device.sm_count > 0) spec.sm_count = device.sm_count;
  const auto constants = nlohmann::json::parse(device.constants, nullptr, false);
  const auto calibration = profiler::calibration_from(constants);
  if (!calibration) return calibration.error().within("device " + device.key);
  profiler::CalibratedSpec result = profiler::apply(spec, *calibration);
  if (device.calibrated_us > 0) result.spec.source += fmt::format("; constants calibrated on {}", device.key);
  return result;
}

void set_calibration(db::Device& device, const profiler::Calibration& calibration, std::string_view target,
                     std::int64_t wall_us) {
  device.target = target;
  device.constants = profiler::to_document(calibration).dump();
  device.calibrated_us = wall_us;
}

Result<profiler::Calibration> calibrate_device(profiler::TimedDevice& device, const DeviceSpec& entry,
                                               codegen::Compiler& compiler) {
  const profiler::DeviceIdentity& identity = device.identity();
  const std::string architecture = identity.architecture.empty() ? entry.architecture() : identity.architecture;
  return profiler::calibrate(device, entry, compiler, architecture, profiler::CalibrationSizes::of(entry));
}

Status store_calibration(db::Store& store, const profiler::DeviceIdentity& identity, const DeviceSpec& entry,
                         const profiler::Calibration& calibration, const std::string& toolkit, const Clock& clock) {
  db::Device known;
  if (auto stored = store.get_device(identity.key)) known = std::move(*stored);
  db::Device record = device_record(identity, std::move(known));
  set_calibration(record, calibration, entry.name, clock.wall_us());
  record.provenance = {std::string(tool_version), toolkit, identity.key, clock.wall_us(), "calibrated"};
  return store.put_device(record);
}

namespace {

Result<profiler::CalibratedSpec> calibrated_once(profiler::TimedDevice& device, const DeviceSpec& entry,
                                                 db::Store& store, const Clock& clock) {
  const auto known = store.get_device(device.identity().key);
  std::vector<std::string> failures;
  if (!known || known->calibrated_us == 0 || known->target != entry.name) {
    STITCH_ASSIGN(const auto compiler, codegen::NvrtcCompiler::create());
    STITCH_ASSIGN(const auto calibration, calibrate_device(device, entry, *compiler));
    STITCH_TRY(store_calibration(store, device.identity(), entry, calibration, compiler->nvrtc().toolkit(), clock));
    for (const std::string& failure : calibration.failures) failures.push_back(failure + "; the table's stays");
  }
  STITCH_ASSIGN(const db::Device record, store.get_device(device.identity().key));
  STITCH_ASSIGN(profiler::CalibratedSpec spec, calibrated_spec(record));
  spec.notes.insert(spec.notes.end(), failures.begin(), failures.end());
  return spec;
}

}  // namespace

Result<profiler::CalibratedSpec> planning_device(std::string_view target, profiler::TimedDevice* gpu, db::Store* store,
                                                 const Clock& clock) {
  STITCH_ASSIGN(DeviceSpec entry, planning_entry(target, gpu));
  std::vector<std::string> notes;
  if (gpu != nullptr && !find_device(entry.name))
    notes.push_back(fmt::format("{} is of class {}: {}", gpu->identity().name, entry.name, entry.source));
  if (gpu == nullptr || store == nullptr) return profiler::CalibratedSpec{std::move(entry), std::move(notes)};
  auto calibrated = calibrated_once(*gpu, entry, *store, clock);
  if (calibrated) {
    calibrated->notes.insert(calibrated->notes.begin(), notes.begin(), notes.end());
    return calibrated;
  }
  notes.push_back("planning with the device table: " + calibrated.error().message);
  return profiler::CalibratedSpec{std::move(entry), std::move(notes)};
}

db::Device device_record(const profiler::DeviceIdentity& identity, db::Device known) {
  known.key = identity.key;
  known.kind = identity.kind;
  known.name = identity.name;
  known.architecture = identity.architecture;
  known.driver = identity.driver;
  known.sm_count = identity.sm_count;
  known.memory_bytes = identity.memory_bytes;
  // A calibration names the entry that it was made against.
  if (const auto own = entry_of(identity); own && known.calibrated_us == 0 && identity.traits.known())
    known.target = own->name;
  return known;
}

}  // namespace stitch::tuning
