#pragma once

#include <cuda.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace stitch::client {

/// The entry points of the CUDA driver that running a plan takes, found when the program runs: libstitch needs no CUDA
/// to be built into a program or to be started.
struct CudaDriver {
  decltype(&cuInit) init = nullptr;
  decltype(&cuGetErrorName) error_name = nullptr;
  decltype(&cuGetErrorString) error_string = nullptr;
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDeviceGetAttribute) device_attribute = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) retain_primary = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) release_primary = nullptr;
  decltype(&cuCtxPushCurrent) push_context = nullptr;
  decltype(&cuCtxPopCurrent) pop_context = nullptr;
  decltype(&cuCtxSynchronize) synchronize = nullptr;
  decltype(&cuModuleLoadData) load_module = nullptr;
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

  /// Loads the library and initialises the driver. It stays loaded for good: a driver must not be unloaded. Error:
  /// unavailable (no library, an old driver without one of the entries, no GPU), saying which.
  static Result<std::shared_ptr<const CudaDriver>> load(const std::string& library = "libcuda.so.1");

  /// Success, or an error of this kind: "cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE (device kernel image is invalid)".
  [[nodiscard]] Status check(CUresult result, const char* call, ErrorKind kind = ErrorKind::runtime) const;
};

}  // namespace stitch::client
