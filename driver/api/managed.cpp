// Managed memory: advice, prefetches, and what is known of a range. It lies on the host here, at the address that the
// device uses too, so that none of it changes more than what a program is told when it asks.
#include <algorithm>
#include <functional>
#include <span>

#include "driver/api/entry.h"

namespace stitch::driver {
namespace {

constexpr std::uint64_t page_bytes = 64 * 1024;

/// A part of an allocation of managed memory, page by page.
struct ManagedRange {
  std::shared_ptr<std::map<std::uint64_t, ManagedAdvice>> advice;
  std::uint64_t first = 0, last = 0;  ///< pages, both inclusive

  template <class Change>
  void change(Change&& change) const {
    for (std::uint64_t page = first; page <= last; ++page) change((*advice)[page]);
  }
  [[nodiscard]] const ManagedAdvice& at(std::uint64_t page) const {
    static const ManagedAdvice nothing;
    const auto found = advice->find(page);
    return found == advice->end() ? nothing : found->second;
  }
};

CUresult find_range(Call& call, CUdeviceptr address, std::size_t bytes, ManagedRange& range) {
  const auto found = call.driver.memory.find(address);
  if (!found || !found->is_managed() || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t offset = address - found->buffer.address;
  if (bytes > found->buffer.bytes || offset > found->buffer.bytes - bytes) return CUDA_ERROR_INVALID_VALUE;
  range = {found->advice, offset / page_bytes, (offset + bytes - 1) / page_bytes};
  return CUDA_SUCCESS;
}

CUresult check_location(Call& call, const CUmemLocation& location) {
  const EmulatedDevice* device = nullptr;
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: return call.device(location.id, device);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

/// The host has no number but that of a NUMA node.
CUmemLocation normal(CUmemLocation location) {
  if (location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT) return {CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}};
  if (location.type == CU_MEM_LOCATION_TYPE_HOST) location.id = 0;
  return location;
}

bool same(const CUmemLocation& a, const CUmemLocation& b) { return a.type == b.type && a.id == b.id; }

void advise(ManagedAdvice& page, CUmem_advise advice, const CUmemLocation& location) {
  const auto known = std::ranges::find_if(page.accessed_by, [&](const auto& each) { return same(each, location); });
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY: page.read_mostly = true; break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY: page.read_mostly = false; break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: page.preferred = location; break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: page.preferred = {}; break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      if (known == page.accessed_by.end()) page.accessed_by.push_back(location);
      break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      if (known != page.accessed_by.end()) page.accessed_by.erase(known);
      break;
    default: break;
  }
}

/// Whether an advice looks at its location.
bool needs_location(CUmem_advise advice) {
  return advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
         advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
}

/// The location that all pages have; an invalid one where they differ.
CUmemLocation common_location(const ManagedRange& range, CUmemLocation ManagedAdvice::*which) {
  const CUmemLocation first = range.at(range.first).*which;
  for (std::uint64_t page = range.first; page <= range.last; ++page) {
    if (!same(range.at(page).*which, first)) return {};
  }
  return first;
}

/// As CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION tells it: a device, or one of the two that are none.
int device_number(const CUmemLocation& location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return location.id;
  return location.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

/// Those that all pages name.
std::vector<int> common_accessors(const ManagedRange& range) {
  std::vector<int> devices;
  for (const CUmemLocation& candidate : range.at(range.first).accessed_by) {
    bool everywhere = true;
    for (std::uint64_t page = range.first; page <= range.last; ++page) {
      everywhere &= std::ranges::any_of(range.at(page).accessed_by,
                                        [&](const CUmemLocation& each) { return same(each, candidate); });
    }
    if (everywhere) devices.push_back(device_number(candidate));
  }
  return devices;
}

CUresult write_attribute(Call& call, const ManagedRange& range, CUmem_range_attribute attribute, std::span<int> into) {
  const CUmemLocation preferred = common_location(range, &ManagedAdvice::preferred);
  const CUmemLocation prefetched = common_location(range, &ManagedAdvice::last_prefetch);
  if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
    std::ranges::fill(into, CU_DEVICE_INVALID);
    const std::vector<int> devices = common_accessors(range);
    std::copy_n(devices.begin(), std::min(devices.size(), into.size()), into.begin());
    return CUDA_SUCCESS;
  }
  if (into.size() != 1) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      into[0] = 1;
      for (std::uint64_t page = range.first; page <= range.last; ++page) into[0] &= range.at(page).read_mostly ? 1 : 0;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: into[0] = device_number(preferred); break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: into[0] = device_number(prefetched); break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: into[0] = preferred.type; break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: into[0] = preferred.id; break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: into[0] = prefetched.type; break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: into[0] = prefetched.id; break;
    default:
      return call.refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("attribute {} of a range", static_cast<int>(attribute)));
  }
  return CUDA_SUCCESS;
}

CUresult range_attribute(Call& call, void* data, std::size_t bytes, CUmem_range_attribute attribute,
                         const ManagedRange& range) {
  if (data == nullptr || bytes == 0 || bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
  return write_attribute(call, range, attribute, {static_cast<int*>(data), bytes / sizeof(int)});
}

/// What batches have in common: `ranges` with a location each, or none of them with one.
struct Batch {
  std::span<const CUdeviceptr> addresses;
  std::span<const std::size_t> sizes;
  std::span<const CUmemLocation> locations;
  std::span<const std::size_t> begins;  ///< the first range of each location
};

/// Prefetches and discards are noted at once: nothing of them is seen but where the latest went. What was discarded
/// keeps its contents, as it may.
CUresult issue_batch(const Batch& batch, CUstream handle) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    if (batch.addresses.empty()) return CUDA_ERROR_INVALID_VALUE;
    if (!batch.begins.empty() && (batch.begins[0] != 0 || !std::ranges::is_sorted(batch.begins, std::less_equal{}) ||
                                  batch.begins.back() >= batch.addresses.size())) {
      return call.refuse(CUDA_ERROR_INVALID_VALUE, "where locations of a batch begin is not ascending from 0");
    }
    std::vector<ManagedRange> ranges(batch.addresses.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      STITCH_CU_TRY(find_range(call, batch.addresses[i], batch.sizes[i], ranges[i]));
    }
    for (const CUmemLocation& location : batch.locations) STITCH_CU_TRY(check_location(call, location));
    for (std::size_t i = 0; i < ranges.size() && !batch.begins.empty(); ++i) {
      const auto next = std::ranges::upper_bound(batch.begins, i);
      const CUmemLocation where = normal(batch.locations[next - batch.begins.begin() - 1]);
      ranges[i].change([&](ManagedAdvice& page) { page.last_prefetch = where; });
    }
    return call.issue(stream, EmptyWork{});
  });
}

CUresult issue_batch(CUdeviceptr* addresses, size_t* sizes, size_t count, CUmemLocation* locations, size_t* begins,
                     size_t location_count, unsigned long long flags, CUstream stream) {
  if (!all_given(addresses, sizes, locations, begins) || location_count == 0 || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return issue_batch({{addresses, count}, {sizes, count}, {locations, location_count}, {begins, location_count}},
                     stream);
}

}  // namespace
}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location) {
  return entry([&](Call& call) -> CUresult {
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    ManagedRange range;
    STITCH_CU_TRY(find_range(call, address, bytes, range));
    if (needs_location(advice)) STITCH_CU_TRY(check_location(call, location));
    range.change([&](ManagedAdvice& page) { advise(page, advice, normal(location)); });
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags,
                                    CUstream handle) {
  const std::size_t begin = 0;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return issue_batch({{&address, 1}, {&bytes, 1}, {&location, 1}, {&begin, 1}}, handle);
}

CUresult CUDAAPI cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count, CUmemLocation* locations,
                                         size_t* begins, size_t location_count, unsigned long long flags,
                                         CUstream stream) {
  return issue_batch(addresses, sizes, count, locations, begins, location_count, flags, stream);
}

CUresult CUDAAPI cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count, unsigned long long flags,
                                        CUstream stream) {
  if (!all_given(addresses, sizes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return issue_batch({{addresses, count}, {sizes, count}, {}, {}}, stream);
}

CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                                   CUmemLocation* locations, size_t* begins, size_t location_count,
                                                   unsigned long long flags, CUstream stream) {
  return issue_batch(addresses, sizes, count, locations, begins, location_count, flags, stream);
}

CUresult CUDAAPI cuMemRangeGetAttribute(void* data, size_t bytes, CUmem_range_attribute attribute, CUdeviceptr address,
                                        size_t count) {
  return entry([&](Call& call) -> CUresult {
    ManagedRange range;
    STITCH_CU_TRY(find_range(call, address, count, range));
    return range_attribute(call, data, bytes, attribute, range);
  });
}

CUresult CUDAAPI cuMemRangeGetAttributes(void** data, size_t* bytes, CUmem_range_attribute* attributes,
                                         size_t attribute_count, CUdeviceptr address, size_t count) {
  return entry([&](Call& call) -> CUresult {
    if (!all_given(data, bytes, attributes) || attribute_count == 0) return CUDA_ERROR_INVALID_VALUE;
    ManagedRange range;
    STITCH_CU_TRY(find_range(call, address, count, range));
    for (std::size_t i = 0; i < attribute_count; ++i) {
      STITCH_CU_TRY(range_attribute(call, data[i], bytes[i], attributes[i], range));
    }
    return CUDA_SUCCESS;
  });
}
