#pragma once

#include "driver/api/entry.h"

namespace stitch::driver {

/// A launch as the caller puts it.
struct LaunchRequest {
  const void* handle = nullptr;  ///< a CUfunction or a CUkernel
  CUcontext context = nullptr;
  const CUlaunchConfig& config;
  void** parameters = nullptr;
  void** extra = nullptr;
};

/// Checks a launch against kernel and device, as the driver of a GPU would, and takes its parameters. Errors:
/// CUDA_ERROR_INVALID_HANDLE, _INVALID_VALUE, _INVALID_CLUSTER_SIZE, _LAUNCH_OUT_OF_RESOURCES,
/// _COOPERATIVE_LAUNCH_TOO_LARGE; each is in the log with its reason.
CUresult prepare_launch(Call& call, const LaunchRequest& request, KernelWork& work);

/// What an attribute changes in a launch; hints change nothing.
void apply_attribute(KernelWork& work, CUlaunchAttributeID id, const CUlaunchAttributeValue& value);

}  // namespace stitch::driver
