#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "cuda/driver_api.h"

namespace stitch::library {

/// Device memory, uninitialised, of a context that is current when it is made and when it ends.
class DeviceMemory {
 public:
  explicit DeviceMemory(const cuda::DriverApi& driver) : driver_(driver) {}
  DeviceMemory(DeviceMemory&& other) noexcept
      : driver_(other.driver_), address_(std::exchange(other.address_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory() { release(); }

  /// Errors: resource_exhausted, runtime.
  Status make(std::int64_t bytes);
  void release();
  [[nodiscard]] CUdeviceptr address() const { return address_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  const cuda::DriverApi& driver_;
  CUdeviceptr address_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace stitch::library
