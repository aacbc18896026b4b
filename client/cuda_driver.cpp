#include "client/cuda_driver.h"

#include <dlfcn.h>

// cuda.h maps names to the current version of an entry (cuMemAlloc to cuMemAlloc_v2); so does this.
#define STITCH_TEXT_INNER(name) #name
#define STITCH_TEXT(name) STITCH_TEXT_INNER(name)

namespace stitch::client {
namespace {

template <class Entry>
bool find(void* library, const char* name, Entry& entry) {
  entry = reinterpret_cast<Entry>(::dlsym(library, name));
  return entry != nullptr;
}

/// The name of the first entry that is missing; null when all are there.
const char* find_all(void* library, CudaDriver& driver) {
#define STITCH_FIND(member, name) \
  if (!find(library, STITCH_TEXT(name), driver.member)) return STITCH_TEXT(name)
  STITCH_FIND(init, cuInit);
  STITCH_FIND(error_name, cuGetErrorName);
  STITCH_FIND(error_string, cuGetErrorString);
  STITCH_FIND(device_get, cuDeviceGet);
  STITCH_FIND(device_attribute, cuDeviceGetAttribute);
  STITCH_FIND(retain_primary, cuDevicePrimaryCtxRetain);
  STITCH_FIND(release_primary, cuDevicePrimaryCtxRelease);
  STITCH_FIND(push_context, cuCtxPushCurrent);
  STITCH_FIND(pop_context, cuCtxPopCurrent);
  STITCH_FIND(synchronize, cuCtxSynchronize);
  STITCH_FIND(load_module, cuModuleLoadData);
  STITCH_FIND(unload_module, cuModuleUnload);
  STITCH_FIND(get_function, cuModuleGetFunction);
  STITCH_FIND(set_attribute, cuFuncSetAttribute);
  STITCH_FIND(launch, cuLaunchKernelEx);
  STITCH_FIND(allocate, cuMemAlloc);
  STITCH_FIND(free, cuMemFree);
  STITCH_FIND(copy_to_device, cuMemcpyHtoD);
  STITCH_FIND(copy_to_host, cuMemcpyDtoH);
  STITCH_FIND(copy_on_device, cuMemcpyDtoDAsync);
  STITCH_FIND(fill, cuMemsetD8);
#undef STITCH_FIND
  return nullptr;
}

}  // namespace

Result<std::shared_ptr<const CudaDriver>> CudaDriver::load(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return make_error(ErrorKind::unavailable, "no CUDA driver on this machine: {}", ::dlerror());
  }
  auto driver = std::make_shared<CudaDriver>();
  if (const char* missing = find_all(handle, *driver)) {
    return make_error(ErrorKind::unavailable, "the CUDA driver {} is too old: it has no {}", library, missing);
  }
  STITCH_TRY(driver->check(driver->init(0), "cuInit", ErrorKind::unavailable));
  return std::shared_ptr<const CudaDriver>(std::move(driver));
}

Status CudaDriver::check(CUresult result, const char* call, ErrorKind kind) const {
  if (result == CUDA_SUCCESS) return {};
  const char *name = nullptr, *text = nullptr;
  error_name(result, &name);
  error_string(result, &text);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) kind = ErrorKind::resource_exhausted;
  return make_error(kind, "{}: {} ({})", call, name != nullptr ? name : "unknown error", text != nullptr ? text : "");
}

}  // namespace stitch::client
