#include "python/native/open_executor.h"

#include "client/cuda_executor.h"
#include "client/emulated_executor.h"
#include "profiler/device/emulated_device.h"

namespace stitch::python {

Result<OpenExecutor> open_executor(std::string_view device, int ordinal) {
  OpenExecutor opened;
  if (device == "emulated") {
    opened.device = std::make_unique<profiler::EmulatedDevice>();
    opened.executor = std::make_unique<client::EmulatedExecutor>(*opened.device);
    return opened;
  }
  if (device == "cuda") {
    STITCH_ASSIGN(opened.executor, client::CudaExecutor::create(ordinal));
    return opened;
  }
  return make_error(ErrorKind::invalid_argument, "device '{}' is none: \"emulated\" or \"cuda\"", device);
}

}  // namespace stitch::python
