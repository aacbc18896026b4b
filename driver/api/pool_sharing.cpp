// Memory pools of other processes: a pool is a file, whose descriptor they get, and of which they map the same parts.
#include <array>
#include <cstring>

#include "driver/api/entry.h"

namespace stitch::driver {
namespace {

/// What a pointer of a pool is to another process.
struct SharedPointer {
  std::array<char, 8> mark;
  std::uint64_t file;  ///< MemoryFile::id
  std::uint64_t offset;
  std::uint64_t bytes;
};
constexpr std::array<char, 8> shared_mark = {'s', 't', 'i', 't', 'c', 'h', 'p', '1'};
static_assert(sizeof(SharedPointer) <= sizeof(CUmemPoolPtrExportData));

}  // namespace
}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void* shareable, CUmemoryPool pool, CUmemAllocationHandleType type,
                                                  unsigned long long flags) {
  return entry([&](Call& call) -> CUresult {
    if (shareable == nullptr || flags != 0 || !call.driver.pools.contains(pool)) return CUDA_ERROR_INVALID_VALUE;
    if (pool->file == nullptr || pool->imported || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
      return call.refuse(CUDA_ERROR_INVALID_VALUE, "an export of a pool that was not made for this type of handle");
    }
    const auto descriptor = pool->file->duplicate();
    if (!descriptor) return call.refuse(CUDA_ERROR_OPERATING_SYSTEM, descriptor.error().message);
    std::memcpy(shareable, &*descriptor, sizeof(int));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* shareable, CUmemAllocationHandleType type,
                                                    unsigned long long flags) {
  return entry([&](Call& call) -> CUresult {
    if (pool == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    auto file = MemoryFile::import(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)));
    if (!file) return call.refuse(CUDA_ERROR_INVALID_VALUE, file.error().message);
    const EmulatedDevice* device = nullptr;
    STITCH_CU_TRY(call.device((*file)->device(), device));
    *pool = new CUmemPoolHandle_st;
    (*pool)->properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    (*pool)->properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    (*pool)->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {(*file)->device()}};
    (*pool)->device = (*file)->device();
    (*pool)->file = *std::move(file);
    (*pool)->imported = true;
    call.driver.pools.insert(*pool);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr address) {
  return entry([&](Call& call) -> CUresult {
    const auto found = call.driver.memory.find(address);
    const bool shared = found && found->buffer.address == address && call.driver.pools.contains(found->pool) &&
                        found->pool->file != nullptr;
    if (data == nullptr || !shared) {
      return call.refuse(
          CUDA_ERROR_INVALID_VALUE,
          fmt::format("cuMemPoolExportPointer of 0x{:x}, where no memory of a shared pool begins", address));
    }
    const SharedPointer pointer = {shared_mark, found->pool->file->id(), found->file_offset, found->buffer.bytes};
    *data = {};
    std::memcpy(data->reserved, &pointer, sizeof pointer);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr* address, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  return entry([&](Call& call) -> CUresult {
    if (!all_given(address, data) || !call.driver.pools.contains(pool)) return CUDA_ERROR_INVALID_VALUE;
    SharedPointer pointer{};
    std::memcpy(&pointer, data->reserved, sizeof pointer);
    if (pool->file == nullptr || pointer.mark != shared_mark || pointer.file != pool->file->id() ||
        pointer.offset + pointer.bytes > pool->file->bytes()) {
      return call.refuse(CUDA_ERROR_INVALID_VALUE, "cuMemPoolImportPointer of what is no pointer of this pool");
    }
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    const auto start = pool->file->map(pointer.offset, pointer.bytes);
    if (!start) return call.refuse(CUDA_ERROR_OUT_OF_MEMORY, start.error().message);
    Allocation details;
    details.kind = MemoryKind::pooled;
    details.context = context;
    details.device = pool->device;
    details.pool = pool;
    details.file_offset = pointer.offset;
    details.backing = owned_mapping(*start, pointer.bytes);
    const auto made = call.driver.memory.attach(std::move(details), {*start, pointer.bytes}, "cuMemPoolImportPointer");
    if (!made) return call.refuse(CUDA_ERROR_OUT_OF_MEMORY, made.error().message);
    *address = *made;
    return CUDA_SUCCESS;
  });
}
