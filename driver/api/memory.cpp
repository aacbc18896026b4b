// Memory: of the device, of the host, managed; what a pointer is.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "driver/api/entry.h"

namespace stitch::driver {
namespace {

/// Whether so much more still fits the device.
bool fits(Call& call, CUdevice device, std::size_t bytes) {
  const std::uint64_t used = call.driver.memory.bytes_in_use(device) + physical_bytes(call.driver, device);
  const std::uint64_t all = call.driver.devices[device].memory_bytes;
  return bytes <= all && used <= all - bytes;
}

CUresult allocate(CUdeviceptr* address, size_t bytes, std::string_view name) {
  return entry([&](Call& call) -> CUresult {
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    STITCH_CU_TRY(call.not_while_capturing());
    if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!fits(call, context->device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    Allocation details;
    details.kind = MemoryKind::device;
    details.context = context;
    details.device = context->device;
    const auto made = call.driver.memory.allocate(std::move(details), bytes, name);
    if (!made) return call.refuse(CUDA_ERROR_OUT_OF_MEMORY, made.error().message);
    *address = *made;
    return CUDA_SUCCESS;
  });
}

/// Host memory in whole pages, which kernels see.
CUresult allocate_host(void** pointer, size_t bytes, MemoryKind kind, unsigned flags, std::string_view name) {
  return entry([&](Call& call) -> CUresult {
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    STITCH_CU_TRY(call.not_while_capturing());
    if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    void* host = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    Allocation details;
    details.kind = kind;
    details.context = context;
    details.device = context->device;
    details.flags = flags;
    const auto made = call.driver.memory.attach(std::move(details), {static_cast<std::byte*>(host), bytes}, name);
    if (!made) {
      munmap(host, bytes);
      return call.refuse(CUDA_ERROR_OUT_OF_MEMORY, made.error().message);
    }
    *pointer = host;
    return CUDA_SUCCESS;
  });
}

/// Frees what begins at an address and is of one of these kinds, once everything that was submitted has ended.
CUresult free_memory(CUdeviceptr address, std::initializer_list<MemoryKind> kinds, std::string_view name) {
  return entry([&](Call& call) -> CUresult {
    if (address == 0) return CUDA_SUCCESS;
    CUcontext context = nullptr;
    if (const CUresult current = call.context(context); current == CUDA_ERROR_INVALID_CONTEXT) {
      context = nullptr;  // memory is freed whatever is current
    } else {
      STITCH_CU_TRY(current);
    }
    STITCH_CU_TRY(call.not_while_capturing());
    const auto found = call.driver.memory.find(address);
    if (!found || found->buffer.address != address || std::ranges::find(kinds, found->kind) == kinds.end()) {
      const std::string freed = call.driver.memory.freed_name(address);
      if (!freed.empty()) {
        return call.refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("{} of {}, which was freed before", name, freed),
                           MisuseKind::freed_memory);
      }
      return call.refuse(CUDA_ERROR_INVALID_VALUE,
                         fmt::format("{} of 0x{:x}, where no allocation of its begins", name, address));
    }
    if (call.driver.contexts.contains(found->context)) {
      STITCH_CU_TRY(call.wait(found->context, call.driver.all_of(found->context)));
    }
    static_cast<void>(call.driver.memory.free(address));
    if (found->kind == MemoryKind::managed || found->kind == MemoryKind::pinned) {
      munmap(reinterpret_cast<void*>(address), found->buffer.bytes);
    }
    return CUDA_SUCCESS;
  });
}

CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

template <class Value>
void put(void* into, Value value) {
  std::memcpy(into, &value, sizeof value);
}

/// One attribute of a pointer into an allocation.
CUresult pointer_attribute(Call& call, void* data, CUpointer_attribute attribute, CUdeviceptr pointer,
                           const Allocation& allocation) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      put(data, allocation.is_pooled() ? CUcontext{} : allocation.context);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      put(data, allocation.is_pinned() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: put(data, pointer); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!allocation.on_host()) return CUDA_ERROR_INVALID_VALUE;
      put(data, pointer);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: put(data, 0U); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      put(data, static_cast<unsigned long long>(allocation.number));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: put(data, allocation.is_managed() ? 1U : 0U); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: put(data, allocation.device); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: put(data, 0U); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: put(data, CUdeviceptr{allocation.buffer.address}); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: put(data, std::size_t{allocation.buffer.bytes}); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED: put(data, 1U); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: put(data, 0ULL); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: put(data, 0U); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: put(data, CU_MEM_ACCESS_FLAGS_PROT_READWRITE); return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: put(data, allocation.pool); return CUDA_SUCCESS;
    default:
      return call.refuse(CUDA_ERROR_NOT_SUPPORTED, fmt::format("pointer attribute {}", static_cast<int>(attribute)),
                         MisuseKind::unsupported);
  }
}

/// Memory that the driver has never heard of: what cuPointerGetAttributes gives instead of an error.
void unknown_attribute(void* data, CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: put(data, std::uint64_t{0}); break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: put(data, -2); break;
    default: put(data, 0); break;
  }
}

}  // namespace
}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total) {
  return entry([&](Call& call) -> CUresult {
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    if (!all_given(free, total)) return CUDA_ERROR_INVALID_VALUE;
    *total = call.driver.devices[context->device].memory_bytes;
    const std::uint64_t used =
        call.driver.memory.bytes_in_use(context->device) + physical_bytes(call.driver, context->device);
    *free = *total - std::min<std::uint64_t>(*total, used);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* address, size_t bytes) { return allocate(address, bytes, "cuMemAlloc"); }

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr* address, size_t* pitch, size_t width, size_t height, unsigned element) {
  if (pitch == nullptr || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  constexpr std::size_t row_alignment = 512;
  *pitch = (width + row_alignment - 1) / row_alignment * row_alignment;
  return allocate(address, *pitch * height, "cuMemAllocPitch");
}

CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  return free_memory(address,
                     {MemoryKind::device, MemoryKind::managed, MemoryKind::pooled, MemoryKind::pooled_host,
                      MemoryKind::pooled_managed},
                     "cuMemFree");
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
  if (address == nullptr || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  STITCH_CU_TRY(allocate_host(&pointer, bytes, MemoryKind::managed, flags, "cuMemAllocManaged"));
  *address = address_of(pointer);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocHost(void** pointer, size_t bytes) {
  return allocate_host(pointer, bytes, MemoryKind::pinned, 0, "cuMemAllocHost");
}

CUresult CUDAAPI cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if ((flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  return allocate_host(pointer, bytes, MemoryKind::pinned, flags, "cuMemHostAlloc");
}

CUresult CUDAAPI cuMemFreeHost(void* pointer) {
  return free_memory(address_of(pointer), {MemoryKind::pinned}, "cuMemFreeHost");
}

CUresult CUDAAPI cuMemHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return entry([&](Call& call) -> CUresult {
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_PERMITTED;
    Allocation details;
    details.kind = MemoryKind::registered;
    details.context = context;
    details.device = context->device;
    details.flags = flags;
    const auto made =
        call.driver.memory.attach(std::move(details), {static_cast<std::byte*>(pointer), bytes}, "cuMemHostRegister");
    return made ? CUDA_SUCCESS : call.refuse(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, made.error().message);
  });
}

CUresult CUDAAPI cuMemHostUnregister(void* pointer) {
  const CUresult result = free_memory(address_of(pointer), {MemoryKind::registered}, "cuMemHostUnregister");
  return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : result;
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* address, void* pointer, unsigned flags) {
  return entry([&](Call& call) -> CUresult {
    if (address == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const auto found = call.driver.memory.find(address_of(pointer));
    if (!found || !found->on_host()) return CUDA_ERROR_INVALID_VALUE;
    *address = address_of(pointer);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned* flags, void* pointer) {
  return entry([&](Call& call) -> CUresult {
    const auto found = call.driver.memory.find(address_of(pointer));
    if (flags == nullptr || !found || !found->on_host()) return CUDA_ERROR_INVALID_VALUE;
    *flags = found->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  return entry([&](Call& call) -> CUresult {
    const auto found = call.driver.memory.find(address);
    if (!found) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = found->buffer.address;
    if (bytes != nullptr) *bytes = found->buffer.bytes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return entry([&](Call& call) -> CUresult {
    if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto found = call.driver.memory.find(pointer);
    return found ? pointer_attribute(call, data, attribute, pointer, *found) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                        CUdeviceptr pointer) {
  return entry([&](Call& call) -> CUresult {
    if (!all_given(attributes, data)) return CUDA_ERROR_INVALID_VALUE;
    const auto found = call.driver.memory.find(pointer);
    for (unsigned i = 0; i < count; ++i) {
      if (!found || pointer_attribute(call, data[i], attributes[i], pointer, *found) == CUDA_ERROR_INVALID_VALUE) {
        unknown_attribute(data[i], attributes[i]);
      }
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return entry([&](Call& call) -> CUresult {
    if (value == nullptr || !call.driver.memory.find(pointer)) return CUDA_ERROR_INVALID_VALUE;
    return attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
