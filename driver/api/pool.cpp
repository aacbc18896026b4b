// Memory in the order of streams, and its pools.
#include <sys/mman.h>

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

std::tuple<int, int, int> place_of(CUmemAllocationType type, const CUmemLocation& location) {
  const bool numbered = location.type == CU_MEM_LOCATION_TYPE_DEVICE || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  return {type, location.type, numbered ? location.id : 0};
}

bool is_own_device(CUmemAllocationType type, const CUmemLocation& location) {
  return type == CU_MEM_ALLOCATION_TYPE_PINNED && location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

/// The default pool of the host's, or of managed memory.
CUmemoryPool default_pool_at(Driver& driver, CUmemAllocationType type, const CUmemLocation& location) {
  CUmemoryPool& pool = driver.default_pool_at[place_of(type, location)];
  if (pool == nullptr) {
    pool = new CUmemPoolHandle_st;
    pool->is_default = true;
    pool->properties.allocType = type;
    pool->properties.location = location;
    driver.pools.insert(pool);
  }
  return pool;
}

MemoryKind kind_of(const CUmemPoolHandle_st& pool) {
  if (pool.properties.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) return MemoryKind::pooled_managed;
  return pool.properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? MemoryKind::pooled : MemoryKind::pooled_host;
}

constexpr std::size_t host_page = 4096;

/// Memory of the pool's file: other processes map the same part.
Result<CUdeviceptr> take_of_file(Driver& driver, CUmemoryPool pool, Allocation details, std::size_t bytes) {
  const std::size_t whole = (bytes + host_page - 1) / host_page * host_page;
  STITCH_ASSIGN(details.file_offset, pool->file->grow(whole));
  STITCH_ASSIGN(std::byte * start, pool->file->map(details.file_offset, whole));
  details.backing = std::shared_ptr<void>(start, [file = pool->file, at = details.file_offset, whole](void* mapped) {
    ::munmap(mapped, whole);
    file->discard(at, whole);
  });
  return driver.memory.attach(std::move(details), {start, bytes}, "cuMemAllocAsync");
}

Result<CUdeviceptr> take_from(Driver& driver, CUmemoryPool pool, CUcontext context, std::size_t bytes) {
  Allocation details;
  details.kind = kind_of(*pool);
  details.context = context;
  details.device = pool->device;
  details.pool = pool;
  if (pool->file != nullptr) return take_of_file(driver, pool, std::move(details), bytes);
  if (details.kind == MemoryKind::pooled) return driver.memory.allocate(std::move(details), bytes, "cuMemAllocAsync");
  STITCH_ASSIGN(std::byte * start, map_anonymous(bytes));
  details.backing = owned_mapping(start, bytes);
  return driver.memory.attach(std::move(details), {start, bytes}, "cuMemAllocAsync");
}

CUresult allocate_from(CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream handle) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (bytes == 0) {
      *address = 0;  // as cuMemFreeAsync takes it
      return CUDA_SUCCESS;
    }
    CUcontext context = stream->context;
    if (pool == nullptr) pool = current_pool(call.driver, context->device);
    if (!call.driver.pools.contains(pool)) return CUDA_ERROR_INVALID_VALUE;
    if (pool->imported) {
      return call.refuse(CUDA_ERROR_INVALID_VALUE, "an allocation from another process's pool, which alone allocates");
    }
    const std::uint64_t total = call.driver.devices[context->device].memory_bytes;
    const std::uint64_t pool_limit = pool->properties.maxSize == 0 ? total : pool->properties.maxSize;
    if (call.driver.memory.bytes_in_use(context->device) + bytes > total ||
        call.driver.memory.bytes_in_pool(pool) + bytes > pool_limit) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const auto made = take_from(call.driver, pool, context, bytes);
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

/// Whether there can be a pool like this.
CUresult check_pool(Call& call, const CUmemPoolProps& properties) {
  const EmulatedDevice* device = nullptr;
  const bool of_device = properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (properties.allocType != CU_MEM_ALLOCATION_TYPE_PINNED && properties.allocType != CU_MEM_ALLOCATION_TYPE_MANAGED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (of_device) STITCH_CU_TRY(call.device(properties.location.id, device));
  if (properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE) return CUDA_SUCCESS;
  if (properties.handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return call.refuse(CUDA_ERROR_NOT_SUPPORTED, "memory pools for other processes by anything but file descriptors",
                       MisuseKind::unsupported);
  }
  if (properties.allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return call.refuse(CUDA_ERROR_INVALID_VALUE, "managed memory is not shared between processes");
  }
  return CUDA_SUCCESS;
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
    const bool known =
        found && found->buffer.address == address && (found->is_pooled() || found->kind == MemoryKind::device);
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
    std::shared_ptr<MemoryFile> file;
    STITCH_CU_TRY(check_pool(call, *properties));
    if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
      auto made = MemoryFile::create(properties->location.id, 0);
      if (!made) return call.refuse(CUDA_ERROR_OUT_OF_MEMORY, made.error().message);
      file = *std::move(made);
    }
    *pool = new CUmemPoolHandle_st;
    (*pool)->properties = *properties;
    if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) (*pool)->device = properties->location.id;
    (*pool)->file = std::move(file);
    call.driver.pools.insert(*pool);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool) {
  return pool_entry(pool, [&](Call& call) -> CUresult {
    if (pool->is_default) return CUDA_ERROR_INVALID_VALUE;
    std::erase_if(call.driver.current_pool, [&](const auto& entry) { return entry.second == pool; });
    std::erase_if(call.driver.current_pool_at, [&](const auto& entry) { return entry.second == pool; });
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
    const bool of_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
    const bool own = kind_of(*pool) == MemoryKind::pooled ? of_device && location->id == pool->device : true;
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
  if (!all_given(pool, location)) return CUDA_ERROR_INVALID_VALUE;
  if (is_own_device(type, *location)) return cuDeviceGetDefaultMemPool(pool, location->id);
  return entry([&](Call& call) -> CUresult {
    CUmemPoolProps properties{};
    properties.allocType = type;
    properties.location = *location;
    STITCH_CU_TRY(check_pool(call, properties));
    *pool = default_pool_at(call.driver, type, *location);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  if (!all_given(pool, location)) return CUDA_ERROR_INVALID_VALUE;
  if (is_own_device(type, *location)) return cuDeviceGetMemPool(pool, location->id);
  STITCH_CU_TRY(cuMemGetDefaultMemPool(pool, location, type));
  return entry([&](Call& call) -> CUresult {
    const auto found = call.driver.current_pool_at.find(place_of(type, *location));
    if (found != call.driver.current_pool_at.end()) *pool = found->second;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (is_own_device(type, *location)) return cuDeviceSetMemPool(location->id, pool);
  return pool_entry(pool, [&](Call& call) -> CUresult {
    if (pool->properties.allocType != type) return CUDA_ERROR_INVALID_VALUE;
    call.driver.current_pool_at[place_of(type, *location)] = pool;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice ordinal) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    return call.device(ordinal, device);
  });
}
