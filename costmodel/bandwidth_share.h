#pragma once

#include "base/device_spec.h"
#include "costmodel/analytical_constants.h"

namespace stitch::costmodel {

/// Share of the reachable bandwidth of device memory that so many bytes on their way have, asked for by `sms` SMs. By
/// Little's law it is what is in flight over the latency, which grows as the memory fills: far from full the share is
/// in proportion, near it it flattens. No SM takes more than its port delivers. `bytes_in_flight` 0: not limited by it.
double bandwidth_share(double bytes_in_flight, double sms, const DeviceSpec& device,
                       const AnalyticalConstants& constants);

}  // namespace stitch::costmodel
