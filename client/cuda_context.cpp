#include "client/cuda_context.h"

namespace stitch::client {

CudaContext::~CudaContext() {
  if (context != nullptr) driver->release_primary(device);
}

CurrentContext::CurrentContext(const CudaContext& context) : context_(context) {
  status_ = context.driver->check(context.driver->push_context(context.context), "cuCtxPushCurrent");
}

CurrentContext::~CurrentContext() {
  CUcontext popped = nullptr;
  if (status_) context_.driver->pop_context(&popped);
}

Status DeviceMemory::make(std::int64_t bytes) {
  release();
  const std::size_t size = bytes > 0 ? bytes : 1;
  return driver_.check(driver_.allocate(&address_, size), "cuMemAlloc");
}

void DeviceMemory::release() {
  if (address_ != 0) driver_.free(std::exchange(address_, 0));
}

}  // namespace stitch::client
