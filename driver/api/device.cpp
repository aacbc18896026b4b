// Devices.
#include <algorithm>
#include <cstring>

#include "driver/api/entry.h"

using namespace stitch::driver;

namespace {

/// The body of a function about one device.
template <class Body>
CUresult device_entry(CUdevice ordinal, Body&& body) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    STITCH_CU_TRY(call.device(ordinal, device));
    return body(call, *device);
  });
}

void copy_text(const std::string& text, char* into, int length) {
  const std::size_t bytes = std::min<std::size_t>(text.size(), length - 1);
  std::memcpy(into, text.data(), bytes);
  into[bytes] = '\0';
}

}  // namespace

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  return entry([&](Call& call) -> CUresult {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(call.driver.devices.size());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  return device_entry(ordinal, [&](Call&, const EmulatedDevice&) -> CUresult {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice device) {
  return device_entry(device, [&](Call&, const EmulatedDevice& found) -> CUresult {
    if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    copy_text(found.name, name, length);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return device_entry(device, [&](Call&, const EmulatedDevice& found) -> CUresult {
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *uuid = found.uuid;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetLuid(char*, unsigned*, CUdevice) { return CUDA_ERROR_NOT_SUPPORTED; }

CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  return device_entry(device, [&](Call&, const EmulatedDevice& found) -> CUresult {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *bytes = found.memory_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return device_entry(device, [&](Call&, const EmulatedDevice& found) -> CUresult {
    const auto known = found.attribute(attribute);
    if (value == nullptr || !known) return CUDA_ERROR_INVALID_VALUE;
    *value = *known;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return device_entry(device, [&](Call&, const EmulatedDevice& found) -> CUresult {
    if (!all_given(major, minor)) return CUDA_ERROR_INVALID_VALUE;
    *major = found.spec.compute_major;
    *minor = found.spec.compute_minor;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  return device_entry(device, [&](Call&, const EmulatedDevice& found) -> CUresult {
    if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto value = [&](CUdevice_attribute which) { return found.attribute(which).value_or(0); };
    *properties = {};
    properties->maxThreadsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    properties->maxThreadsDim[0] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
    properties->maxThreadsDim[1] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
    properties->maxThreadsDim[2] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
    properties->maxGridSize[0] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
    properties->maxGridSize[1] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
    properties->maxGridSize[2] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
    properties->sharedMemPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    properties->totalConstantMemory = value(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    properties->SIMDWidth = value(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    properties->memPitch = value(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    properties->regsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    properties->clockRate = value(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    properties->textureAlign = value(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  return device_entry(device, [&](Call&, const EmulatedDevice& found) -> CUresult {
    if (id == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    copy_text(found.pci_bus_id(), id, length);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  return entry([&](Call& call) -> CUresult {
    if (!all_given(device, id)) return CUDA_ERROR_INVALID_VALUE;
    const auto found = std::ranges::find(call.driver.devices, std::string(id), &EmulatedDevice::pci_bus_id);
    if (found == call.driver.devices.end()) return CUDA_ERROR_INVALID_DEVICE;
    *device = found->ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType, CUdevice device) {
  return device_entry(device, [&](Call&, const EmulatedDevice&) -> CUresult {
    if (supported == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *supported = 0;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* found = nullptr;
    STITCH_CU_TRY(call.device(device, found));
    STITCH_CU_TRY(call.device(peer, found));
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *can = 0;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute, CUdevice source, CUdevice target) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* found = nullptr;
    STITCH_CU_TRY(call.device(source, found));
    STITCH_CU_TRY(call.device(target, found));
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (source == target) return CUDA_ERROR_INVALID_DEVICE;
    *value = 0;
    return CUDA_SUCCESS;
  });
}
