#pragma once

#include <string_view>

#include "base/device_spec.h"

namespace stitch {

/// The entry of the device table for a GPU as its driver names it: "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe",
/// "Tesla V100-SXM2-16GB". Variants of a GPU (memory, form factor) share an entry: what differs has to come from the
/// device itself (tuning/devices/calibrated_device.h). Errors: not_found, for GPUs that are not in the table and for
/// parts of one (MIG), naming those there are.
Result<DeviceSpec> find_device_by_driver_name(std::string_view name);

}  // namespace stitch
