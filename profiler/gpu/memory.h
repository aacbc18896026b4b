#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "profiler/device/device.h"
#include "profiler/gpu/context.h"

namespace stitch::profiler {

/// Buffers of one session. Each lies between two red zones of 64 KiB that hold a pattern; what a kernel writes there is
/// found after its launch. What it writes farther off lands in another buffer, or faults.
class GpuMemory {
 public:
  explicit GpuMemory(std::shared_ptr<GpuContext> gpu) : gpu_(std::move(gpu)) {}
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  Result<BufferHandle> allocate(std::string name, std::int64_t bytes, const Fill& fill, Access access);
  Status free(BufferHandle buffer);
  /// Errors: invalid_argument (not allocated, outside the buffer).
  Status read(BufferHandle buffer, std::int64_t offset, std::span<std::byte> into);
  Status write(BufferHandle buffer, std::int64_t offset, std::span<const std::byte> from);
  [[nodiscard]] Result<CUdeviceptr> address(BufferHandle buffer) const;
  /// How much was allocated, whatever the handle says. Error: invalid_argument (not allocated).
  [[nodiscard]] Result<std::int64_t> bytes(BufferHandle buffer) const;

  /// A line for every red zone, and every read-only buffer, that was written to since the last call; zones are made
  /// whole again.
  Result<std::vector<std::string>> damage();

 private:
  struct Buffer {
    std::string name;
    CUdeviceptr base = 0;  ///< of the first red zone
    std::int64_t bytes = 0;
    std::optional<Hash128> contents;  ///< of a read-only buffer that is watched
    [[nodiscard]] CUdeviceptr start() const;
    [[nodiscard]] CUdeviceptr end() const { return start() + bytes; }
  };
  [[nodiscard]] Result<const Buffer*> find(BufferHandle buffer) const;
  [[nodiscard]] Result<CUdeviceptr> range(BufferHandle buffer, std::int64_t offset, std::size_t bytes) const;
  Status fill_buffer(Buffer& buffer, const Fill& fill, Access access);
  Status fill_zone(CUdeviceptr zone);
  Result<Hash128> hash_of(const Buffer& buffer);
  Result<std::optional<std::string>> zone_damage(const Buffer& buffer, bool before);

  std::shared_ptr<GpuContext> gpu_;
  std::map<int, Buffer> buffers_;
  int next_ = 0;
};

}  // namespace stitch::profiler
