#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "cuda/driver_api.h"
#include "library/stream_libraries.h"
#include "profiler/device/device.h"
#include "profiler/gpu/cupti_api.h"
#include "profiler/gpu/monitor.h"

namespace stitch::profiler {

struct GpuOptions {
  int ordinal = 0;                      ///< as CUDA numbers the GPUs that it is let see
  std::string driver = "libcuda.so.1";  ///< libraries, as the loader takes them
  std::string cupti;                    ///< "": where CuptiApi::load looks
  std::string nvml = "libnvidia-ml.so.1";
  std::int64_t most_bytes = 0;  ///< of device memory that is taken at once; 0: whatever there is
};

/// One GPU as this process has it: libraries, primary context, one stream. Made, used and destroyed by one thread.
class GpuContext {
 public:
  /// Errors: unavailable (no driver, no such GPU; the driver's own words). Without CUPTI or NVML there is a context
  /// nevertheless, which cannot time, or does not know its clocks.
  static Result<std::shared_ptr<GpuContext>> open(const GpuOptions& options);
  ~GpuContext();
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;

  /// The driver's check; remembers when the error is one that loses the context.
  Status check(CUresult result, const char* call, ErrorKind kind = ErrorKind::runtime);
  /// Waits for everything on the stream.
  Status synchronize() { return check(driver->synchronize_stream(stream), "cuStreamSynchronize"); }
  /// Device memory within `GpuOptions::most_bytes`, until `free`. What a context takes for itself and for code is not
  /// counted. Errors: resource_exhausted, those of `check`.
  Result<CUdeviceptr> allocate(std::size_t bytes);
  Status free(CUdeviceptr memory);
  /// Overwrites twice the L2's size, on the stream, so that nothing of before is left in it. Error: resource_exhausted.
  Status flush_l2();
  [[nodiscard]] DeviceState state() const { return monitor ? monitor->state() : DeviceState{}; }
  [[nodiscard]] bool lost() const { return lost_; }

  std::shared_ptr<const cuda::DriverApi> driver;
  std::shared_ptr<const CuptiApi> cupti;  ///< null: no_cupti says why
  std::string no_cupti;
  std::unique_ptr<GpuMonitor> monitor;  ///< null: there is none
  std::string no_counters;              ///< why counting failed before; not tried again
  bool graph_times_tried = false;       ///< whether CUPTI times graphs as a whole is known
  std::string no_graph_times;           ///< why it does not
  library::StreamLibraries libraries;   ///< where calls are looked for
  DeviceIdentity identity;
  int ordinal = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;  ///< waits for the default stream and the other way round, so that copies need no events

 private:
  GpuContext() = default;
  Status find_device();
  Status identify();
  Result<int> attribute(CUdevice_attribute which) const;

  CUdevice device_ = 0;
  std::int64_t most_bytes_ = 0, taken_bytes_ = 0;
  std::map<CUdeviceptr, std::int64_t> taken_;
  bool lost_ = false;
  std::size_t l2_bytes_ = 0;
  CUdeviceptr flush_buffer_ = 0;
};

}  // namespace stitch::profiler
