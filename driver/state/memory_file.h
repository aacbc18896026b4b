#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace stitch::driver {

/// Device memory that has no address of its own: a file without a name (memfd_create(2)), of which parts are mapped
/// where they are wanted, several times and in several processes. Its descriptor is what cuMemExportToShareableHandle
/// and cuMemPoolExportToShareableHandle hand out; the device that it belongs to is part of its name in /proc.
class MemoryFile {
 public:
  /// Errors: resource_exhausted.
  static Result<std::shared_ptr<MemoryFile>> create(CUdevice device, std::size_t bytes);
  /// From a descriptor that another process, or this one, exported; the descriptor stays the caller's. Error:
  /// invalid_argument, for a file that is none of these.
  static Result<std::shared_ptr<MemoryFile>> import(int descriptor);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] CUdevice device() const { return device_; }
  /// The size now: another process may have let it grow.
  [[nodiscard]] std::size_t bytes() const;
  /// Tells files apart, in all processes.
  [[nodiscard]] std::uint64_t id() const;
  /// A descriptor for somebody else. Error: resource_exhausted.
  [[nodiscard]] Result<int> duplicate() const;
  /// Makes it longer and returns where the new part begins. Error: resource_exhausted.
  Result<std::size_t> grow(std::size_t bytes);
  /// Gives the memory of a part back; it reads as zero from then on.
  void discard(std::size_t offset, std::size_t bytes) const;

  /// Maps a part: at `at`, where something is mapped already, without access, or wherever there is room, with it.
  /// Error: resource_exhausted.
  [[nodiscard]] Result<std::byte*> map(std::size_t offset, std::size_t bytes, std::byte* at = nullptr) const;

 private:
  MemoryFile(int descriptor, CUdevice device) : descriptor_(descriptor), device_(device) {}
  int descriptor_;
  CUdevice device_;
};

/// Host memory of nobody else, in whole pages. Error: resource_exhausted.
Result<std::byte*> map_anonymous(std::size_t bytes);
/// Ends a mapping when the last copy goes.
std::shared_ptr<void> owned_mapping(std::byte* start, std::size_t bytes);

}  // namespace stitch::driver
