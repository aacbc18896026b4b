#include "client/open_executor.h"

#include "client/cuda_executor.h"
#include "client/emulated_executor.h"
#include "profiler/device/emulated_device.h"

namespace stitch::client {

Result<OpenExecutor> open_executor(DeviceKind kind, int ordinal) {
  OpenExecutor opened;
  opened.kind = kind;
  opened.ordinal = ordinal;
  if (kind == DeviceKind::cuda) {
    STITCH_ASSIGN(opened.executor, CudaExecutor::create(ordinal));
    return opened;
  }
  if (ordinal != 0)
    return make_error(ErrorKind::unavailable, "there is one emulated device, and {} is not its number", ordinal);
  opened.device = std::make_unique<profiler::EmulatedDevice>();
  opened.executor = std::make_unique<EmulatedExecutor>(*opened.device);
  return opened;
}

}  // namespace stitch::client
