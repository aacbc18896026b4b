#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace stitch::emulator {

/// Buffers take host memory, and get their initial contents, in pages of this size.
inline constexpr std::uint64_t buffer_page_bytes = 4096;

/// Handle of a simulated buffer.
struct Buffer {
  std::uint32_t id = 0;
  std::uint64_t address = 0;  ///< what a kernel sees as the pointer; never a host address
  std::uint64_t bytes = 0;

  bool operator==(const Buffer&) const = default;
};

/// Produces `page`, the bytes of a buffer from `offset` on (a multiple of buffer_page_bytes; the last page may be
/// shorter). Called once per page, when something first touches it, from any host thread, for different pages at the
/// same time; it must be a pure function of the offset.
using PageFiller = std::function<void(std::uint64_t offset, std::span<std::byte> page)>;

}  // namespace stitch::emulator
