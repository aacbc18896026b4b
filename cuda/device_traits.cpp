#include "cuda/device_traits.h"

#include <algorithm>
#include <array>

namespace stitch::cuda {

DeviceTraits read_traits(const DriverApi& driver, CUdevice device) {
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    const bool told = driver.device_attribute(&value, which, device) == CUDA_SUCCESS;
    return told ? std::max(value, 0) : 0;
  };
  DeviceTraits traits;
  traits.compute_major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  traits.compute_minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  traits.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  traits.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  traits.shared_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  traits.shared_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  traits.threads_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  traits.blocks_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  traits.memory_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  traits.memory_bus_bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  // Programs that only run plans do without these two entries (DriverUse).
  std::size_t bytes = 0;
  if (driver.device_memory != nullptr && driver.device_memory(&bytes, device) == CUDA_SUCCESS)
    traits.memory_bytes = static_cast<std::int64_t>(bytes);
  std::array<char, 256> name{};
  if (driver.device_name != nullptr && driver.device_name(name.data(), name.size() - 1, device) == CUDA_SUCCESS)
    traits.mig_profile = mig_profile_in(name.data());
  return traits;
}

}  // namespace stitch::cuda
