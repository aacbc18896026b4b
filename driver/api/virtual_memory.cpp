// Memory and addresses apart: physical memory, reserved addresses, mappings, access, and handles for other processes.
#include <algorithm>
#include <cstring>
#include <set>

#include "driver/api/entry.h"
#include "driver/state/virtual_memory.h"

namespace stitch::driver {
namespace {

CUresult check_properties(Call& call, const CUmemAllocationProp* properties, CUdevice& device) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  const EmulatedDevice* found = nullptr;
  switch (properties->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      device = properties->location.id;
      STITCH_CU_TRY(call.device(device, found));
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: device = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  if ((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
    return call.refuse(CUDA_ERROR_NOT_SUPPORTED, "handles of memory other than file descriptors",
                       MisuseKind::unsupported);
  }
  return CUDA_SUCCESS;
}

std::shared_ptr<PhysicalMemory> find_memory(Driver& driver, CUmemGenericAllocationHandle handle) {
  const auto found = driver.physical_memory.find(handle);
  return found == driver.physical_memory.end() ? nullptr : found->second;
}

/// The reservation that holds all of a range.
AddressReservation* find_reservation(Driver& driver, CUdeviceptr start, std::size_t bytes) {
  const auto next = driver.reservations.upper_bound(start);
  if (next == driver.reservations.begin()) return nullptr;
  AddressReservation& found = std::prev(next)->second;
  return bytes <= found.bytes && start - found.address <= found.bytes - bytes ? &found : nullptr;
}

CUmemGenericAllocationHandle keep(Driver& driver, std::shared_ptr<PhysicalMemory> memory) {
  memory->handle = driver.next_serial();
  const CUmemGenericAllocationHandle handle = memory->handle;
  driver.physical_memory.emplace(handle, std::move(memory));
  return handle;
}

bool is_granular(std::size_t bytes) { return bytes != 0 && bytes % allocation_granularity == 0; }

CUresult refuse_range(Call& call, std::string_view function, CUdeviceptr start, std::size_t bytes,
                      std::string_view why) {
  return call.refuse(CUDA_ERROR_INVALID_VALUE,
                     fmt::format("{} of {} bytes at 0x{:x}: {}", function, bytes, start, why));
}

CUresult refresh(Call& call, AddressReservation& reservation) {
  const Status done = reservation.refresh(call.driver.memory);
  return done ? CUDA_SUCCESS : call.refuse(CUDA_ERROR_OUT_OF_MEMORY, done.error().message);
}

/// Notes one location's access in all mappings of a range.
CUresult set_access(Call& call, AddressReservation& reservation, CUdeviceptr start, std::size_t bytes,
                    const CUmemAccessDesc& wanted) {
  if (wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READ) {
    return call.refuse(CUDA_ERROR_NOT_SUPPORTED, "cuMemSetAccess for reading only", MisuseKind::unsupported);
  }
  const bool of_device = wanted.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const EmulatedDevice* device = nullptr;
  if (of_device) STITCH_CU_TRY(call.device(wanted.location.id, device));
  for (auto& [address, mapping] : reservation.mappings) {
    if (address < start || address >= start + bytes) continue;
    if (of_device) {
      mapping.access[wanted.location.id] = wanted.flags;
    } else {
      mapping.host_access = wanted.flags;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

std::uint64_t physical_bytes(Driver& driver, CUdevice device) {
  std::set<const PhysicalMemory*> alive;
  for (const auto& [handle, memory] : driver.physical_memory) alive.insert(memory.get());
  for (const auto& [address, reservation] : driver.reservations) {
    for (const auto& [start, mapping] : reservation.mappings) alive.insert(mapping.memory.get());
  }
  std::uint64_t sum = 0;
  for (const PhysicalMemory* memory : alive) {
    if (memory->properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && memory->file->device() == device) {
      sum += memory->bytes;
    }
  }
  return sum;
}

bool is_reserved(Driver& driver, CUdeviceptr address) { return find_reservation(driver, address, 1) != nullptr; }

}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                               CUmemAllocationGranularity_flags) {
  return entry([&](Call& call) -> CUresult {
    CUdevice device = 0;
    STITCH_CU_TRY(check_properties(call, properties, device));
    if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *granularity = allocation_granularity;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr hint,
                                     unsigned long long flags) {
  return entry([&](Call& call) -> CUresult {
    if (address == nullptr || flags != 0 || (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!is_granular(bytes)) {
      return refuse_range(call, "cuMemAddressReserve", hint, bytes, "not a multiple of the granularity of 2 MiB");
    }
    const auto start = reserve_addresses(bytes, std::max(alignment, allocation_granularity), hint);
    if (!start) return call.refuse(CUDA_ERROR_OUT_OF_MEMORY, start.error().message);
    AddressReservation reservation;
    reservation.address = *start;
    reservation.bytes = bytes;
    call.driver.reservations.emplace(*start, std::move(reservation));
    *address = *start;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return entry([&](Call& call) -> CUresult {
    const auto found = call.driver.reservations.find(address);
    if (found == call.driver.reservations.end() || found->second.bytes != bytes) {
      return refuse_range(call, "cuMemAddressFree", address, bytes, "not what cuMemAddressReserve gave");
    }
    if (!found->second.mappings.empty()) {
      return refuse_range(call, "cuMemAddressFree", address, bytes, "memory is still mapped there");
    }
    release_addresses(address, bytes);
    call.driver.reservations.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                             unsigned long long flags) {
  return entry([&](Call& call) -> CUresult {
    CUdevice device = 0;
    STITCH_CU_TRY(check_properties(call, properties, device));
    if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!is_granular(bytes)) {
      return refuse_range(call, "cuMemCreate", 0, bytes, "not a multiple of the granularity of 2 MiB");
    }
    const std::uint64_t all = call.driver.devices[device].memory_bytes;
    const std::uint64_t used = call.driver.memory.bytes_in_use(device) + physical_bytes(call.driver, device);
    if (bytes > all || used > all - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    auto file = MemoryFile::create(device, bytes);
    if (!file) return call.refuse(CUDA_ERROR_OUT_OF_MEMORY, file.error().message);
    auto memory = std::make_shared<PhysicalMemory>();
    memory->properties = *properties;
    memory->bytes = bytes;
    memory->file = *std::move(file);
    *handle = keep(call.driver, std::move(memory));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  return entry([&](Call& call) -> CUresult {
    const auto memory = find_memory(call.driver, handle);
    if (memory == nullptr) return call.refuse(CUDA_ERROR_INVALID_VALUE, "cuMemRelease of what is no memory's handle");
    // Mappings keep the memory itself.
    if (--memory->references == 0) call.driver.physical_memory.erase(handle);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* pointer) {
  return entry([&](Call& call) -> CUresult {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto address = reinterpret_cast<CUdeviceptr>(pointer);
    const AddressReservation* reservation = find_reservation(call.driver, address, 1);
    if (reservation == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto next = reservation->mappings.upper_bound(address);
    if (next == reservation->mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
    const auto& [start, mapping] = *std::prev(next);
    if (address - start >= mapping.bytes) return CUDA_ERROR_INVALID_VALUE;
    ++mapping.memory->references;
    call.driver.physical_memory.try_emplace(mapping.memory->handle, mapping.memory);
    *handle = mapping.memory->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                        CUmemGenericAllocationHandle handle) {
  return entry([&](Call& call) -> CUresult {
    const auto memory = find_memory(call.driver, handle);
    if (properties == nullptr || memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *properties = memory->properties;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  return entry([&](Call& call) -> CUresult {
    const auto memory = find_memory(call.driver, handle);
    if (memory == nullptr || flags != 0 || offset != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!is_granular(bytes) || address % allocation_granularity != 0 || bytes > memory->bytes) {
      return refuse_range(call, "cuMemMap", address, bytes,
                          fmt::format("not in steps of 2 MiB, or more than the memory's {} bytes", memory->bytes));
    }
    AddressReservation* reservation = find_reservation(call.driver, address, bytes);
    if (reservation == nullptr) return refuse_range(call, "cuMemMap", address, bytes, "not reserved");
    if (reservation->overlaps(address, bytes)) {
      return refuse_range(call, "cuMemMap", address, bytes, "memory is mapped there");
    }
    const auto mapped = memory->file->map(0, bytes, reinterpret_cast<std::byte*>(address));
    if (!mapped) return call.refuse(CUDA_ERROR_OUT_OF_MEMORY, mapped.error().message);
    AddressReservation::Mapping mapping;
    mapping.bytes = bytes;
    mapping.memory = memory;
    reservation->mappings.emplace(address, std::move(mapping));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return entry([&](Call& call) -> CUresult {
    AddressReservation* reservation = find_reservation(call.driver, address, bytes);
    if (bytes == 0 || reservation == nullptr || !reservation->is_mapped(address, bytes)) {
      return refuse_range(call, "cuMemUnmap", address, bytes, "not whole mappings");
    }
    call.driver.wait(call.lock, call.driver.engine.all());
    // Others may have called while the lock was open.
    reservation = find_reservation(call.driver, address, bytes);
    if (reservation == nullptr || !reservation->is_mapped(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    auto& mappings = reservation->mappings;
    mappings.erase(mappings.lower_bound(address), mappings.lower_bound(address + bytes));
    STITCH_CU_TRY(refresh(call, *reservation));
    unmap_memory(address, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  return entry([&](Call& call) -> CUresult {
    AddressReservation* reservation = find_reservation(call.driver, address, bytes);
    if (access == nullptr || count == 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (reservation == nullptr || !reservation->is_mapped(address, bytes)) {
      return refuse_range(call, "cuMemSetAccess", address, bytes, "not whole mappings");
    }
    for (std::size_t i = 0; i < count; ++i) {
      STITCH_CU_TRY(set_access(call, *reservation, address, bytes, access[i]));
    }
    return refresh(call, *reservation);
  });
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  return entry([&](Call& call) -> CUresult {
    const AddressReservation* reservation = find_reservation(call.driver, address, 1);
    if (!all_given(flags, location) || reservation == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto next = reservation->mappings.upper_bound(address);
    if (next == reservation->mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
    const auto& mapping = std::prev(next)->second;
    if (address - std::prev(next)->first >= mapping.bytes) return CUDA_ERROR_INVALID_VALUE;
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
      const auto found = mapping.access.find(location->id);
      *flags = found == mapping.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
    } else {
      *flags = mapping.host_access;
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type, unsigned long long flags) {
  return entry([&](Call& call) -> CUresult {
    const auto memory = find_memory(call.driver, handle);
    if (shareable == nullptr || memory == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || (memory->properties.requestedHandleTypes & type) == 0) {
      return call.refuse(CUDA_ERROR_INVALID_VALUE, "an export of memory that was not made for this type of handle");
    }
    const auto descriptor = memory->file->duplicate();
    if (!descriptor) return call.refuse(CUDA_ERROR_OPERATING_SYSTEM, descriptor.error().message);
    std::memcpy(shareable, &*descriptor, sizeof(int));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                                CUmemAllocationHandleType type) {
  return entry([&](Call& call) -> CUresult {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    auto file = MemoryFile::import(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)));
    if (!file) return call.refuse(CUDA_ERROR_INVALID_VALUE, file.error().message);
    if ((*file)->device() >= static_cast<int>(call.driver.devices.size())) return CUDA_ERROR_INVALID_DEVICE;
    auto memory = std::make_shared<PhysicalMemory>();
    memory->bytes = (*file)->bytes();
    memory->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    memory->properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memory->properties.location.id = (*file)->device();
    memory->file = *std::move(file);
    *handle = keep(call.driver, std::move(memory));
    return CUDA_SUCCESS;
  });
}
