#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

namespace stitch::client {

/// Host memory of one tensor, uninitialised, aligned as plans and arenas want it.
class HostMemory {
 public:
  /// Throws std::bad_alloc.
  explicit HostMemory(std::int64_t bytes);
  [[nodiscard]] std::span<std::byte> span() const { return {memory_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace stitch::client
