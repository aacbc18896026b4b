#pragma once

#include <vector>

#include "base/result.h"
#include "cuda/driver_api.h"

namespace stitch::library {

/// A stream of one's own, that waits for nobody else's. A context must be current.
class DeviceStream {
 public:
  explicit DeviceStream(const cuda::DriverApi& driver) : driver_(driver) {}
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  ~DeviceStream() {
    if (stream_ != nullptr) driver_.destroy_stream(stream_);
  }

  Status make() { return driver_.check(driver_.create_stream(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"); }
  [[nodiscard]] CUstream get() const { return stream_; }
  [[nodiscard]] Status wait() const {
    return driver_.check(driver_.synchronize_stream(stream_), "cuStreamSynchronize");
  }

 private:
  const cuda::DriverApi& driver_;
  CUstream stream_ = nullptr;
};

/// Events of a device, by which times are told. A context must be current.
class DeviceEvents {
 public:
  explicit DeviceEvents(const cuda::DriverApi& driver) : driver_(driver) {}
  DeviceEvents(const DeviceEvents&) = delete;
  DeviceEvents& operator=(const DeviceEvents&) = delete;
  ~DeviceEvents();

  Status make(std::size_t count);
  [[nodiscard]] Status record(std::size_t index, CUstream stream) const;
  /// From one to the next, us; all must have happened.
  [[nodiscard]] Result<double> after(std::size_t index) const;

 private:
  const cuda::DriverApi& driver_;
  std::vector<CUevent> events_;
};

}  // namespace stitch::library
