#pragma once

#include <nlohmann/json.hpp>

#include "profiler/device/device.h"

namespace stitch::profiler {

/// A device's identity as the runner's protocol, recordings and `stitch-runner --probe` write it.
nlohmann::json to_document(const DeviceIdentity& identity);

/// Throws nlohmann::json::exception where a field is missing or of another type; unknown fields are passed over.
DeviceIdentity identity_from(const nlohmann::json& document);

}  // namespace stitch::profiler
