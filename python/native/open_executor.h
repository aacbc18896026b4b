#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "client/executor.h"
#include "profiler/device/device.h"

namespace stitch::python {

/// An executor with what it stands on.
struct OpenExecutor {
  std::unique_ptr<profiler::Device> device;  ///< of the emulated executor
  std::unique_ptr<client::Executor> executor;
};

/// `device`: "emulated", or "cuda" with the GPU's number in this process. Errors: invalid_argument (another word),
/// unavailable (no driver, no such GPU).
Result<OpenExecutor> open_executor(std::string_view device, int ordinal);

}  // namespace stitch::python
