#include "daemon/calibrated_device.h"

#include <nlohmann/json.hpp>

#include "base/driver_name.h"

namespace stitch::daemon {

Result<profiler::CalibratedSpec> calibrated_spec(const db::Device& device) {
  const auto entry = device.target.empty() ? find_device_by_driver_name(device.name) : find_device(device.target);
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

db::Device device_record(const profiler::DeviceIdentity& identity, db::Device known) {
  known.key = identity.key;
  known.kind = identity.kind;
  known.name = identity.name;
  known.architecture = identity.architecture;
  known.driver = identity.driver;
  known.sm_count = identity.sm_count;
  known.memory_bytes = identity.memory_bytes;
  return known;
}

}  // namespace stitch::daemon
