#pragma once

#include <string_view>

#include "base/device_spec.h"

namespace stitch {

/// The entry of the device table that a driver's name sounds like: "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe". A name
/// is a hint and no more (OEMs have their own, unlike GPUs share one): it is asked only where nothing but the name is
/// known, in records of before drivers' other answers were kept; what a GPU is says base/device_class.h. Errors:
/// not_found, for GPUs that are not in the table and for parts of one (MIG), naming those there are.
Result<DeviceSpec> find_device_by_driver_name(std::string_view name);

}  // namespace stitch
