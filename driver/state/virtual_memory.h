#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>

#include "base/result.h"
#include "driver/state/memory_file.h"
#include "driver/state/memory_map.h"

/// Memory and addresses apart, as cuMemCreate and cuMemAddressReserve have them.
namespace stitch::driver {

/// What cuMemCreate makes: it lives as long as its handle or a mapping of it.
struct PhysicalMemory {
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties{};
  std::size_t bytes = 0;
  std::shared_ptr<MemoryFile> file;
  unsigned references = 1;  ///< of the handle; at 0 it is none any more
};

/// What cuMemAddressReserve makes, with what is mapped into it. Kernels and copies see runs of neighbouring mappings
/// that have access as one piece of memory.
struct AddressReservation {
  struct Mapping {
    std::size_t bytes = 0;
    std::shared_ptr<PhysicalMemory> memory;
    std::map<CUdevice, CUmemAccess_flags> access;
    CUmemAccess_flags host_access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    [[nodiscard]] bool accessible() const;
  };
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  std::map<CUdeviceptr, Mapping> mappings;  ///< by address
  std::vector<CUdeviceptr> attached;        ///< the runs that the memory map knows

  /// Whether [start, start + size) is whole mappings, without gaps.
  [[nodiscard]] bool is_mapped(CUdeviceptr start, std::size_t size) const;
  [[nodiscard]] bool overlaps(CUdeviceptr start, std::size_t size) const;
  /// Tells the memory map, and the host's page tables, what has access now. Error: resource_exhausted.
  Status refresh(MemoryMap& memory);
};

constexpr std::size_t allocation_granularity = std::size_t{2} << 20;  ///< of memory and of addresses

/// Addresses without memory, of the host's own address space. Errors: resource_exhausted.
Result<CUdeviceptr> reserve_addresses(std::size_t bytes, std::size_t alignment, CUdeviceptr hint);
/// Takes the memory from a range of addresses, which stay reserved.
void unmap_memory(CUdeviceptr start, std::size_t bytes);
void release_addresses(CUdeviceptr start, std::size_t bytes);

}  // namespace stitch::driver
