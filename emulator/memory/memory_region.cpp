#include "emulator/memory/memory_region.h"

#include <sys/mman.h>

namespace stitch::emulator {
namespace {

std::size_t whole_pages(std::uint64_t bytes) {
  return (bytes + buffer_page_bytes - 1) / buffer_page_bytes * buffer_page_bytes;
}

}  // namespace

MemoryRegion::~MemoryRegion() {
  if (mapping != nullptr) munmap(mapping, mapped_bytes);
}

void MemoryRegion::fill(std::uint64_t page) {
  if (filler) {
    const std::uint64_t offset = page * buffer_page_bytes;
    filler(offset, {data + offset, std::min(buffer_page_bytes, buffer.bytes - offset)});
  }
  page_ready[page] = 1;
}

ByteWriters* MemoryRegion::new_split() {
  const std::lock_guard guard(split_mutex);
  return split_records.emplace_back(std::make_unique<ByteWriters>()).get();
}

Status MemoryRegion::map() {
  STITCH_TRY(reserve(std::max<std::uint64_t>(page_count(), 1) * buffer_page_bytes));
  data = static_cast<std::byte*>(mapping);
  return {};
}

Status MemoryRegion::map_shadow(std::byte* host) {
  STITCH_TRY(reserve(0));
  data = host;
  std::fill_n(page_ready, std::max<std::uint64_t>(page_count(), 1), std::uint8_t{1});
  return {};
}

Status MemoryRegion::reserve(std::size_t data_bytes) {
  const std::uint64_t pages = std::max<std::uint64_t>(page_count(), 1);
  const std::size_t record_bytes =
      read_only ? whole_pages(pages * read_bytes_per_page) : pages * sectors_per_page * sizeof(SectorRecord);
  const std::size_t stamp_bytes = whole_pages(pages * sizeof(std::uint32_t));
  mapped_bytes = data_bytes + record_bytes + stamp_bytes + whole_pages(pages);
  void* reserved =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return make_error(ErrorKind::resource_exhausted, "cannot reserve {} bytes for buffer \"{}\"", mapped_bytes, name);
  }
  mapping = reserved;
  std::byte* records = static_cast<std::byte*>(mapping) + data_bytes;
  if (read_only) {
    sectors_read = reinterpret_cast<std::uint8_t*>(records);
  } else {
    sectors = reinterpret_cast<SectorRecord*>(records);
  }
  page_stamp = reinterpret_cast<std::uint32_t*>(records + record_bytes);
  group_stamp = std::make_unique<std::atomic<std::uint32_t>[]>((pages + pages_per_group - 1) / pages_per_group);
  page_ready = reinterpret_cast<std::uint8_t*>(records + record_bytes + stamp_bytes);
  return {};
}

}  // namespace stitch::emulator
