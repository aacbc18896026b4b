#include "library/device_memory.h"

namespace stitch::library {

Status DeviceMemory::make(std::int64_t bytes) {
  release();
  const std::size_t size = bytes > 0 ? bytes : 1;
  STITCH_TRY(driver_.check(driver_.allocate(&address_, size), "cuMemAlloc"));
  bytes_ = bytes;
  return {};
}

void DeviceMemory::release() {
  if (address_ != 0) driver_.free(std::exchange(address_, 0));
  bytes_ = 0;
}

}  // namespace stitch::library
