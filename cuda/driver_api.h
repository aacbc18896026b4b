#pragma once

#include <cuda.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace stitch::cuda {

/// The entry points of the CUDA driver that stitch-runner uses, found when it runs. libstitch has a smaller table of
/// its own (client/cuda_driver.h): layers do not let the two share one.
struct DriverApi {
  decltype(&cuInit) init = nullptr;
  decltype(&cuDriverGetVersion) version = nullptr;
  decltype(&cuGetErrorName) error_name = nullptr;
  decltype(&cuGetErrorString) error_string = nullptr;

  decltype(&cuDeviceGetCount) device_count = nullptr;
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDeviceGetName) device_name = nullptr;
  decltype(&cuDeviceGetUuid) device_uuid = nullptr;
  decltype(&cuDeviceTotalMem) device_memory = nullptr;
  decltype(&cuDeviceGetAttribute) device_attribute = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) retain_primary = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) release_primary = nullptr;
  decltype(&cuCtxSetCurrent) set_current = nullptr;

  decltype(&cuModuleLoadDataEx) load_module = nullptr;
  decltype(&cuModuleUnload) unload_module = nullptr;
  decltype(&cuModuleGetFunction) get_function = nullptr;
  decltype(&cuFuncSetAttribute) set_attribute = nullptr;
  decltype(&cuLaunchKernelEx) launch = nullptr;

  decltype(&cuMemAlloc) allocate = nullptr;
  decltype(&cuMemFree) free = nullptr;
  decltype(&cuMemcpyHtoD) copy_to_device = nullptr;
  decltype(&cuMemcpyDtoH) copy_to_host = nullptr;
  decltype(&cuMemcpyDtoDAsync) copy_on_device = nullptr;
  decltype(&cuMemsetD8) fill = nullptr;
  decltype(&cuMemsetD8Async) fill_async = nullptr;

  decltype(&cuStreamCreate) create_stream = nullptr;
  decltype(&cuStreamDestroy) destroy_stream = nullptr;
  decltype(&cuStreamSynchronize) synchronize = nullptr;
  decltype(&cuStreamBeginCapture) begin_capture = nullptr;
  decltype(&cuStreamEndCapture) end_capture = nullptr;
  decltype(&cuGraphInstantiate) instantiate = nullptr;
  decltype(&cuGraphUpload) upload_graph = nullptr;
  decltype(&cuGraphLaunch) launch_graph = nullptr;
  decltype(&cuGraphDestroy) destroy_graph = nullptr;
  decltype(&cuGraphExecDestroy) destroy_executable = nullptr;

  /// Loads the library and initialises the driver; it stays loaded for good. Error: unavailable (no library, an old
  /// driver without one of the entries, no GPU), in the words of loader or driver.
  static Result<std::shared_ptr<const DriverApi>> load(const std::string& library = "libcuda.so.1");

  /// Success, or "cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE (device kernel image is invalid)". Running out of
  /// memory is resource_exhausted whatever `kind` says.
  [[nodiscard]] Status check(CUresult result, const char* call, ErrorKind kind = ErrorKind::runtime) const;
};

/// Whether an error leaves the context, and with it every session of this process, unusable: a fault of a kernel, or
/// of the hardware. CUDA driver API, "CUresult": those that say the process must be terminated and relaunched.
bool loses_context(CUresult result);

}  // namespace stitch::cuda
