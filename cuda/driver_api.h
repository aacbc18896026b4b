#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace stitch::cuda {

/// What a program is going to do with the driver: which entries must be there.
enum class DriverUse : std::uint8_t {
  run_plans,  ///< libstitch: loads kernels and launches them on its caller's memory and streams
  measure,    ///< stitch-runner: describes a GPU, owns a stream of it, captures graphs and times them
};

/// The entry points of the CUDA driver, found in its library when a program runs: nothing that is built here links the
/// driver, so everything starts on a machine that has none, and says so only when a GPU is asked for.
///
///   STITCH_ASSIGN(const auto driver, DriverApi::load(DriverUse::run_plans));
///   CUdevice device = 0;
///   STITCH_TRY(driver->check(driver->device_get(&device, 0), "cuDeviceGet", ErrorKind::unavailable));
///
/// client/cuda_executor runs plans through it and profiler/gpu measures through it. Each finds the entries of its own
/// DriverUse; of the other ones it finds those that the library has, and null for the rest. An entry is of the version
/// that cuda.h gives its name (`allocate` is cuMemAlloc_v2).
struct DriverApi {
  bool emulated =
      false;  ///< the library is Stitch's own (driver/): what it runs is checked, and nothing it says is a time

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
  decltype(&cuCtxGetCurrent) get_current = nullptr;
  decltype(&cuCtxPushCurrent) push_context = nullptr;
  decltype(&cuCtxPopCurrent) pop_context = nullptr;
  decltype(&cuCtxSynchronize) synchronize_context = nullptr;

  decltype(&cuModuleLoadData) load_module = nullptr;
  decltype(&cuModuleLoadDataEx) load_module_with = nullptr;  ///< options of its compiler of PTX
  decltype(&cuModuleUnload) unload_module = nullptr;
  decltype(&cuModuleGetFunction) get_function = nullptr;
  decltype(&cuFuncSetAttribute) set_attribute = nullptr;
  CUresult(CUDAAPI* load_function)(CUfunction) = nullptr;  ///< cuFuncLoad; null: a driver before 12.4
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
  decltype(&cuStreamSynchronize) synchronize_stream = nullptr;
  decltype(&cuEventCreate) create_event = nullptr;
  decltype(&cuEventDestroy) destroy_event = nullptr;
  decltype(&cuEventRecord) record_event = nullptr;
  decltype(&cuEventElapsedTime) elapsed = nullptr;
  decltype(&cuThreadExchangeStreamCaptureMode) exchange_capture_mode = nullptr;
  decltype(&cuStreamBeginCapture) begin_capture = nullptr;
  decltype(&cuStreamEndCapture) end_capture = nullptr;
  decltype(&cuGraphInstantiate) instantiate = nullptr;
  decltype(&cuGraphUpload) upload_graph = nullptr;
  decltype(&cuGraphLaunch) launch_graph = nullptr;
  decltype(&cuGraphDestroy) destroy_graph = nullptr;
  decltype(&cuGraphExecDestroy) destroy_executable = nullptr;

  /// Loads the library and initialises the driver; it stays loaded for good, as a driver must not be unloaded. Error:
  /// unavailable (no library, an old driver without an entry that `use` needs, no GPU), in the words of loader or
  /// driver.
  static Result<std::shared_ptr<const DriverApi>> load(DriverUse use, const std::string& library = "libcuda.so.1");

  /// Success, or "cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE (device kernel image is invalid)". Running out of
  /// memory is resource_exhausted whatever `kind` says.
  [[nodiscard]] Status check(CUresult result, const char* call, ErrorKind kind = ErrorKind::runtime) const;
};

/// Whether an error leaves the context, and with it every session of this process, unusable: a fault of a kernel, or
/// of the hardware. CUDA driver API, "CUresult": those that say the process must be terminated and relaunched.
bool loses_context(CUresult result);

}  // namespace stitch::cuda
