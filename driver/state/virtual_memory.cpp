#include "driver/state/virtual_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace stitch::driver {
namespace {

void* host_pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

constexpr int nothing_behind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

}  // namespace

bool AddressReservation::Mapping::accessible() const {
  return host_access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE || std::ranges::any_of(access, [](const auto& entry) {
           return entry.second == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
         });
}

bool AddressReservation::is_mapped(CUdeviceptr start, std::size_t size) const {
  const CUdeviceptr end = start + size;
  while (start < end) {
    const auto found = mappings.find(start);
    if (found == mappings.end()) return false;
    start += found->second.bytes;
  }
  return start == end;
}

bool AddressReservation::overlaps(CUdeviceptr start, std::size_t size) const {
  return std::ranges::any_of(mappings, [&](const auto& entry) {
    return entry.first < start + size && start < entry.first + entry.second.bytes;
  });
}

Status AddressReservation::refresh(MemoryMap& memory) {
  std::vector<MemoryMap::HostRange> runs;
  for (const auto& [start, mapping] : mappings) {
    const bool open = mapping.accessible();
    ::mprotect(host_pointer(start), mapping.bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
    if (!open) continue;
    const CUdevice device = mapping.memory->file->device();
    const bool joins = !runs.empty() && runs.back().details.device == device &&
                       reinterpret_cast<CUdeviceptr>(runs.back().host.data() + runs.back().host.size()) == start;
    if (joins) {
      runs.back().host = {runs.back().host.data(), runs.back().host.size() + mapping.bytes};
      continue;
    }
    MemoryMap::HostRange run;
    run.details.kind = MemoryKind::mapped;
    run.details.device = device;
    run.host = {static_cast<std::byte*>(host_pointer(start)), mapping.bytes};
    runs.push_back(std::move(run));
  }
  STITCH_ASSIGN(attached, memory.reattach(attached, std::move(runs), "cuMemMap"));
  return {};
}

Result<CUdeviceptr> reserve_addresses(std::size_t bytes, std::size_t alignment, CUdeviceptr hint) {
  if (hint != 0 && hint % alignment == 0) {
    void* wanted = ::mmap(host_pointer(hint), bytes, PROT_NONE, nothing_behind | MAP_FIXED_NOREPLACE, -1, 0);
    if (wanted != MAP_FAILED) return hint;
  }
  void* start = ::mmap(nullptr, bytes + alignment, PROT_NONE, nothing_behind, -1, 0);
  if (start == MAP_FAILED) {
    return make_error(ErrorKind::resource_exhausted, "{} bytes of addresses: {}", bytes, std::strerror(errno));
  }
  const auto first = reinterpret_cast<CUdeviceptr>(start);
  const CUdeviceptr aligned = (first + alignment - 1) / alignment * alignment;
  if (aligned != first) release_addresses(first, aligned - first);
  if (aligned + bytes != first + bytes + alignment) release_addresses(aligned + bytes, first + alignment - aligned);
  return aligned;
}

void unmap_memory(CUdeviceptr start, std::size_t bytes) {
  ::mmap(host_pointer(start), bytes, PROT_NONE, nothing_behind | MAP_FIXED, -1, 0);
}

void release_addresses(CUdeviceptr start, std::size_t bytes) { ::munmap(host_pointer(start), bytes); }

}  // namespace stitch::driver
