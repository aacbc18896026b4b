#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "profiler/measure/measurement.h"

namespace stitch::profiler {

/// Clocks, temperature, power and throttling of one GPU, from NVML. Reads, never sets.
class GpuMonitor {
 public:
  /// `uuid`: "GPU-…". Error: unavailable (no library, no such GPU); whoever measures goes on without.
  static Result<std::unique_ptr<GpuMonitor>> open(const std::string& uuid,
                                                  const std::string& library = "libnvidia-ml.so.1");
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  /// As of now; what NVML does not tell stays absent.
  [[nodiscard]] DeviceState state() const;
  /// "580.95.05"; empty: not known.
  [[nodiscard]] std::string driver_version() const;

  struct Api;

 private:
  GpuMonitor(std::unique_ptr<Api> api, void* device);
  std::unique_ptr<Api> api_;
  void* device_;
};

/// The reasons among `bits` (nvmlClocksEventReasons, nvml.h) for which a GPU runs slower than it was told to; clocks
/// that were set on purpose, or idleness, are none.
std::vector<std::string> throttle_reasons(unsigned long long bits);

}  // namespace stitch::profiler
