#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "client/executor.h"
#include "profiler/device/device.h"

namespace stitch::client {

enum class DeviceKind : std::uint8_t {
  emulated,  ///< host memory only; checks every access
  cuda,      ///< a GPU, as CUDA numbers those that this process sees
};

/// An executor with what it stands on.
struct OpenExecutor {
  std::unique_ptr<profiler::Device> device;  ///< of the emulated executor
  std::unique_ptr<Executor> executor;
};

/// Error: unavailable (no driver, no such device).
Result<OpenExecutor> open_executor(DeviceKind kind, int ordinal);

}  // namespace stitch::client
