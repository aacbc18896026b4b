#include "client/host_memory.h"

#include <algorithm>
#include <new>

#include "api/program_document.h"

namespace stitch::client {

HostMemory::HostMemory(std::int64_t bytes)
    : bytes_(bytes),
      memory_(static_cast<std::byte*>(
          std::aligned_alloc(api::arena_alignment, std::max(api::arena_alignment, api::arena_bytes_of(bytes))))) {
  if (memory_ == nullptr) throw std::bad_alloc();
}

}  // namespace stitch::client
