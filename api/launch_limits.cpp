#include "api/launch_limits.h"

#include <fmt/format.h>

#include "base/device_class.h"

namespace stitch::api {
namespace {

/// A grid barrier waits for all blocks: as many must fit on an SM as the plan's own GPU holds of them.
std::string why_not_resident(const KernelLaunch& launch, const DeviceSpec& planned, const DeviceSpec& device) {
  const std::int64_t per_sm = (launch.blocks + planned.sm_count - 1) / planned.sm_count;
  const bool fits = launch.blocks <= per_sm * device.sm_count && per_sm * launch.threads <= device.threads_per_sm &&
                    per_sm <= device.blocks_per_sm &&
                    per_sm * (launch.shared_bytes + device.shared_reserved_per_block) <= device.shared_per_sm;
  if (fits) return "";
  return fmt::format("kernel {} has a barrier over {} blocks, which {} with {} SMs may not hold at once", launch.name,
                     launch.blocks, device.name, device.sm_count);
}

std::string why_not_launch(const KernelLaunch& launch, const DeviceSpec& planned, const DeviceSpec& device) {
  if (launch.threads > device.max_threads_per_block) {
    return fmt::format("kernel {} has {} threads a block, {} allows {}", launch.name, launch.threads, device.name,
                       device.max_threads_per_block);
  }
  if (launch.shared_bytes > device.shared_per_block) {
    return fmt::format("kernel {} needs {} bytes of shared memory a block, {} has {}", launch.name, launch.shared_bytes,
                       device.name, device.shared_per_block);
  }
  if (launch.cluster > device.max_cluster_blocks) {
    return fmt::format("kernel {} has clusters of {} blocks, {} allows {}", launch.name, launch.cluster, device.name,
                       device.max_cluster_blocks);
  }
  return launch.cooperative ? why_not_resident(launch, planned, device) : "";
}

}  // namespace

std::string why_not_launched(const Plan& plan, std::string_view planned, const DeviceSpec& device) {
  const auto known = find_device_class(planned);
  for (const KernelLaunch& launch : plan.launches) {
    if (std::string why = why_not_launch(launch, known ? known->spec : device, device); !why.empty()) return why;
  }
  return "";
}

}  // namespace stitch::api
