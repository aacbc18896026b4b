#include "costmodel/bandwidth_share.h"

#include <algorithm>
#include <cmath>

namespace stitch::costmodel {

double bandwidth_share(double bytes_in_flight, double sms, const DeviceSpec& device,
                       const AnalyticalConstants& constants) {
  const double reachable = device.reachable_bandwidth();
  double share = 1;
  if (bytes_in_flight > 0) {
    const double latency = constants.loaded_latency * device.dram_latency;
    const double wanted = bytes_in_flight * device.clock_hz / latency / reachable;
    share = wanted / std::pow(1 + std::pow(wanted, constants.flight_knee), 1 / constants.flight_knee);
  }
  return std::min(share, sms * constants.sm_dram_bytes_per_clock * device.clock_hz / reachable);
}

}  // namespace stitch::costmodel
