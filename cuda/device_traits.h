#pragma once

#include "base/device_traits.h"
#include "cuda/driver_api.h"

namespace stitch::cuda {

/// What the driver reports of a GPU, from which its class follows (base/device_class.h). What it does not know or
/// refuses to tell is left 0.
DeviceTraits read_traits(const DriverApi& driver, CUdevice device);

}  // namespace stitch::cuda
