// Memory in the order of streams, and its pools.
#include <algorithm>
#include <array>
#include <cstring>

#include "driver/api/entry.h"

namespace stitch::driver {
namespace {

template <class Body>
CUresult pool_entry(CUmemoryPool pool, Body&& body) {
  return entry([&](Call& call) -> CUresult {
    if (pool == nullptr || !call.driver.pools.contains(pool)) return CUDA_ERROR_INVALID_VALUE;
    return body(call);
  });
}

/// The device's default pool, made when it is first asked for.
CUmemoryPool default_pool(Driver& driver, CUdevice device) {
  CUmemoryPool& pool = driver.default_pool[device];
  if (pool == nullptr) {
    pool = new CUmemPoolHandle_st;
    pool->device = device;
    pool->is_default = true;
    pool->properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    pool->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    driver.pools.insert(pool);
  }
  return pool;
}

CUmemoryPool current_pool(Driver& driver, CUdevice device) {
  const auto found = driver.current_pool.find(device);
  return found == driver.current_pool.end() ? default_pool(driver, device) : found->second;
}

CUresult allocate_from(CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream handle) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = stream->context;
    if (pool == nullptr) pool = current_pool(call.driver, context->device);
    if (!call.driver.pools.contains(pool)) return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t total = call.driver.devices[context->device].memory_bytes;
    const std::uint64_t pool_limit = pool->properties.maxSize == 0 ? total : pool->properties.maxSize;
    if (call.driver.memory.bytes_in_use(context->device) + bytes > total ||
        call.driver.memory.bytes_in_pool(pool) + bytes > pool_limit) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    Allocation details;
    details.kind = MemoryKind::pooled;
    details.context = context;
    details.device = pool->device;
    details.pool = pool;
    const auto made = call.driver.memory.allocate(std::move(details), bytes, "cuMemAllocAsync");
    if (!made) return call.refuse(CUDA_ERROR_OUT_OF_MEMORY, made.error().message);
    *address = *made;
    pool->highest = std::max(pool->highest, call.driver.memory.bytes_in_pool(pool));
    AllocateWork work{*address, bytes, {}};
    work.parameters.poolProps = pool->properties;
    work.parameters.bytesize = bytes;
    work.parameters.dptr = *address;
    return call.issue(stream, std::move(work));
  });
}

constexpr std::array reuse_attributes = {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
                                         CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                                         CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES};

}  // namespace
}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  return allocate_from(address, bytes, nullptr, stream);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : allocate_from(address, bytes, pool, stream);
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    if (address == 0) return CUDA_SUCCESS;
    const auto found = call.driver.memory.find(address);
    const bool known = found && found->buffer.address == address &&
                       (found->kind == MemoryKind::pooled || found->kind == MemoryKind::device);
    const bool twice = known && stream->capture == nullptr && call.driver.memory.mark_ending(address);
    if (!known || twice) {
      const bool freed = twice || !call.driver.memory.freed_name(address).empty();
      return call.refuse(CUDA_ERROR_INVALID_VALUE,
                         freed ? fmt::format("cuMemFreeAsync of 0x{:x}, which was freed before", address)
                               : fmt::format("cuMemFreeAsync of 0x{:x}, where no allocation begins", address),
                         freed ? MisuseKind::freed_memory : MisuseKind::invalid_call);
    }
    return call.issue(stream, FreeWork{address, stream->capture != nullptr});
  });
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  return entry([&](Call& call) -> CUresult {
    if (!all_given(pool, properties)) return CUDA_ERROR_INVALID_VALUE;
    const EmulatedDevice* device = nullptr;
    if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
      return call.refuse(CUDA_ERROR_NOT_SUPPORTED, "memory pools between processes", MisuseKind::unsupported);
    }
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
      return call.refuse(CUDA_ERROR_NOT_SUPPORTED, "memory pools of the host", MisuseKind::unsupported);
    }
    STITCH_CU_TRY(call.device(properties->location.id, device));
    *pool = new CUmemPoolHandle_st;
    (*pool)->properties = *properties;
    (*pool)->device = properties->location.id;
    call.driver.pools.insert(*pool);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool) {
  return pool_entry(pool, [&](Call& call) -> CUresult {
    if (pool->is_default) return CUDA_ERROR_INVALID_VALUE;
    std::erase_if(call.driver.current_pool, [&](const auto& entry) { return entry.second == pool; });
    call.driver.pools.erase(pool);
    // Allocations of it live on, and go one by one; the pool itself is only a name then.
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
  return pool_entry(pool, [](Call&) -> CUresult { return CUDA_SUCCESS; });
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return pool_entry(pool, [&](Call& call) -> CUresult {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto reuse = std::ranges::find(reuse_attributes, attribute);
    if (reuse != reuse_attributes.end()) {
      std::memcpy(value, &pool->reuse[reuse - reuse_attributes.begin()], sizeof(int));
      return CUDA_SUCCESS;
    }
    cuuint64_t result = 0;
    switch (attribute) {
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: result = pool->threshold; break;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: result = call.driver.memory.bytes_in_pool(pool); break;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH: result = pool->highest; break;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
    std::memcpy(value, &result, sizeof result);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return pool_entry(pool, [&](Call& call) -> CUresult {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto reuse = std::ranges::find(reuse_attributes, attribute);
    if (reuse != reuse_attributes.end()) {
      std::memcpy(&pool->reuse[reuse - reuse_attributes.begin()], value, sizeof(int));
      return CUDA_SUCCESS;
    }
    cuuint64_t wanted = 0;
    std::memcpy(&wanted, value, sizeof wanted);
    switch (attribute) {
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool->threshold = wanted; return CUDA_SUCCESS;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (wanted != 0) return CUDA_ERROR_INVALID_VALUE;
        pool->highest = call.driver.memory.bytes_in_pool(pool);
        return CUDA_SUCCESS;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, size_t count) {
  return pool_entry(pool, [&](Call&) -> CUresult {
    if (access == nullptr && count > 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
      pool->access[{static_cast<int>(access[i].location.type), access[i].location.id}] = access[i].flags;
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  return pool_entry(pool, [&](Call&) -> CUresult {
    if (!all_given(flags, location)) return CUDA_ERROR_INVALID_VALUE;
    const bool own = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == pool->device;
    const auto found = pool->access.find({static_cast<int>(location->type), location->id});
    *flags = found != pool->access.end() ? found->second
             : own                       ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                         : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    STITCH_CU_TRY(call.device(ordinal, device));
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pool = default_pool(call.driver, ordinal);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    STITCH_CU_TRY(call.device(ordinal, device));
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pool = current_pool(call.driver, ordinal);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool pool) {
  return pool_entry(pool, [&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    STITCH_CU_TRY(call.device(ordinal, device));
    call.driver.current_pool[ordinal] = pool;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  if (location == nullptr || type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  return cuDeviceGetDefaultMemPool(pool, location->id);
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  if (location == nullptr || type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  return cuDeviceGetMemPool(pool, location->id);
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  if (location == nullptr || type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  return cuDeviceSetMemPool(location->id, pool);
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice ordinal) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    return call.device(ordinal, device);
  });
}
