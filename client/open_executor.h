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
  DeviceKind kind = DeviceKind::emulated;
  int ordinal = 0;  ///< of a GPU, as CUDA numbers those that this process sees
};

/// Why nothing is launched on the emulated device.
inline Error no_addresses() {
  return {ErrorKind::unsupported, "the emulated device has no addresses to launch with; use run"};
}

/// Error: unavailable (no driver, no such device).
Result<OpenExecutor> open_executor(DeviceKind kind, int ordinal);

}  // namespace stitch::client
