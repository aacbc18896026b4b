#include "driver/state/device.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>
#include <utility>

namespace stitch::driver {
namespace {

constexpr int largest = std::numeric_limits<int>::max();
constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;

/// Capacity of the device's memory: the number before "GB" in its full name, or of a data centre GPU of today.
std::uint64_t memory_of(const DeviceSpec& spec) {
  const std::size_t end = spec.full_name.find("GB");
  std::size_t begin = end == std::string::npos ? 0 : end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(spec.full_name[begin - 1])) != 0) --begin;
  if (end == std::string::npos || begin == end) return 24 * gibibyte;
  return std::stoull(spec.full_name.substr(begin, end - begin)) * gibibyte;
}

using Value = std::pair<CUdevice_attribute, int>;

/// What depends on the device.
std::vector<Value> own_attributes(const EmulatedDevice& device) {
  const DeviceSpec& spec = device.spec;
  const int clusters = spec.has_clusters() ? 1 : 0;
  return {
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, spec.sm_count},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, spec.compute_major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, spec.compute_minor},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, static_cast<int>(spec.clock_hz / 1e3)},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, static_cast<int>(spec.l2_bytes)},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, spec.threads_per_sm},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, spec.blocks_per_sm},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, static_cast<int>(spec.shared_per_sm)},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, static_cast<int>(spec.shared_per_block)},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, static_cast<int>(spec.shared_reserved_per_block)},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, static_cast<int>(spec.registers_per_sm)},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, spec.max_threads_per_block},
      {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
       spec.fp32_lanes_per_sm / std::max(spec.fp64_lanes_per_sm, 1)},
      {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, clusters},
      {CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, spec.compute_major >= 9 ? 1 : 0},
      {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, clusters == 1 ? 4 : 1},
      {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device.ordinal + 1},
  };
}

/// What all GPUs since Volta have in common, and what the emulated driver can do. Attributes that are not here, of
/// textures, surfaces, peers and other processes, are 0.
constexpr std::array shared_attributes = {
    Value{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    Value{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    Value{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    Value{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, largest},
    Value{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    Value{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    Value{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 * 1024},
    Value{CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 * 1024},
    Value{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    Value{CU_DEVICE_ATTRIBUTE_MAX_PITCH, largest},
    Value{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    Value{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    Value{CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    Value{CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    Value{CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    Value{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    Value{CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    Value{CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    Value{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    Value{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    Value{CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    Value{CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    Value{CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    Value{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    Value{CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    Value{CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    Value{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    Value{CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    Value{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    Value{CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    Value{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    Value{CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
    Value{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    Value{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    Value{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    Value{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    Value{CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
    Value{CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 1},
    Value{CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
};

}  // namespace

std::optional<int> EmulatedDevice::attribute(CUdevice_attribute which) const {
  if (which <= 0 || which >= CU_DEVICE_ATTRIBUTE_MAX) return std::nullopt;
  const std::vector<Value> own = own_attributes(*this);
  if (const auto found = std::ranges::find(own, which, &Value::first); found != own.end()) return found->second;
  const auto found = std::ranges::find(shared_attributes, which, &Value::first);
  return found == shared_attributes.end() ? 0 : found->second;
}

std::string EmulatedDevice::pci_bus_id() const { return fmt::format("0000:{:02X}:00.0", ordinal + 1); }

Result<std::vector<EmulatedDevice>> emulated_devices() {
  const char* chosen = std::getenv("STITCH_EMULATED_DEVICE");
  std::istringstream names(chosen != nullptr && *chosen != '\0' ? chosen : "h100");
  std::vector<EmulatedDevice> devices;
  for (std::string name; std::getline(names, name, ',');) {
    EmulatedDevice device;
    STITCH_ASSIGN(device.spec, find_device(name));
    device.ordinal = static_cast<int>(devices.size());
    device.name = device.spec.full_name + " (emulated by Stitch)";
    constexpr std::string_view mark = "Stitch-emulated";
    std::memcpy(device.uuid.bytes, mark.data(), mark.size());
    device.uuid.bytes[mark.size()] = static_cast<char>(device.ordinal);
    device.memory_bytes = memory_of(device.spec);
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace stitch::driver
