#include "client/cuda_context.h"

#include <vector>

namespace stitch::client {

CudaContext::~CudaContext() {
  if (context != nullptr) driver->release_primary(device);
}

CurrentContext::CurrentContext(const CudaContext& context) : context_(context) {
  CUcontext now = nullptr;
  if (context.driver->get_current(&now) == CUDA_SUCCESS && now == context.context) return;
  status_ = context.driver->check(context.driver->push_context(context.context), "cuCtxPushCurrent");
  pushed_ = status_.ok();
}

CurrentContext::~CurrentContext() {
  CUcontext popped = nullptr;
  if (pushed_) context_.driver->pop_context(&popped);
}

Status run_on_host_memory(const cuda::DriverApi& driver, Inputs parameters, Outputs results,
                          const std::function<Status(Addresses parameters, Addresses results)>& enqueue) {
  // What was launched on other streams before, whose workspace or arena this run has, too.
  STITCH_TRY(driver.check(driver.synchronize_context(), "cuCtxSynchronize"));
  std::vector<DeviceMemory> held;
  std::vector<std::uint64_t> from, to;
  for (const auto& parameter : parameters) {
    STITCH_TRY(held.emplace_back(driver).make(std::ssize(parameter)));
    from.push_back(held.back().address());
    STITCH_TRY(driver.check(driver.copy_to_device(from.back(), parameter.data(), parameter.size()), "cuMemcpyHtoD"));
  }
  for (const auto& result : results) {
    STITCH_TRY(held.emplace_back(driver).make(std::ssize(result)));
    to.push_back(held.back().address());
  }
  STITCH_TRY(enqueue(from, to));
  STITCH_TRY(driver.check(driver.synchronize_context(), "cuCtxSynchronize"));
  for (std::size_t i = 0; i < results.size(); ++i)
    STITCH_TRY(driver.check(driver.copy_to_host(results[i].data(), to[i], results[i].size()), "cuMemcpyDtoH"));
  return {};
}

}  // namespace stitch::client
