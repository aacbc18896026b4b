#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/device_spec.h"
#include "base/device_traits.h"
#include "base/result.h"
#include "client/executor.h"
#include "cuda/driver_api.h"
#include "library/device_memory.h"

namespace stitch::client {

/// A device's primary context, held for as long as somebody uses it.
struct CudaContext {
  std::shared_ptr<const cuda::DriverApi> driver;
  CUdevice device = 0;
  CUcontext context = nullptr;
  int capability = 0;  ///< 90
  DeviceTraits traits;
  std::optional<DeviceSpec> spec;  ///< of the GPU's class; nothing where the driver does not say what it is

  CudaContext() = default;
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext();
};

/// Makes the context current on this thread for a while, where it is not.
class CurrentContext {
 public:
  explicit CurrentContext(const CudaContext& context);
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext();
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const CudaContext& context_;
  bool pushed_ = false;
  Status status_;
};

/// While it is there, this thread loads, allocates, and waits for streams of its own although some other thread
/// captures one in the global mode, whose capture would fail for it otherwise (CUDA driver API,
/// cuThreadExchangeStreamCaptureMode). To wait for the whole context breaks captures in any mode.
class BesideCaptures {
 public:
  explicit BesideCaptures(const cuda::DriverApi& driver) : driver_(driver) { driver_.exchange_capture_mode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures() { driver_.exchange_capture_mode(&mode_); }

 private:
  const cuda::DriverApi& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

using library::DeviceMemory;

/// Waits for what the context has to do, copies parameters into device memory of their own, lets `enqueue` put work on
/// the default stream with their addresses and those of as much memory for the results, waits, and copies the results
/// back. Not while a stream is captured. A context must be current. Errors: resource_exhausted, runtime, those of
/// `enqueue`.
Status run_on_host_memory(const cuda::DriverApi& driver, Inputs parameters, Outputs results,
                          const std::function<Status(Addresses parameters, Addresses results)>& enqueue);

}  // namespace stitch::client
