#pragma once

#include "profiler/device/emulated_device.h"
#include "profiler/measure/timed_device.h"

namespace stitch::profiler {

/// The emulated device where one that measures is expected. It has no times: measuring is unsupported, or, when counts
/// are asked for, gives the 32-byte sectors that the steps load and store, one sample per rotation, marked as counts.
class CountedDevice final : public TimedDevice {
 public:
  explicit CountedDevice(EmulatedOptions options = {}, bool counts = false) : device_(options), counts_(counts) {}
  [[nodiscard]] const DeviceIdentity& identity() const override { return device_.identity(); }
  Result<std::unique_ptr<TimedSession>> timed_session() override;

 private:
  EmulatedDevice device_;
  bool counts_;
};

}  // namespace stitch::profiler
