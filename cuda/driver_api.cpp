#include "cuda/driver_api.h"

#include <dlfcn.h>

// cuda.h maps names to the current version of an entry (cuMemAlloc to cuMemAlloc_v2); so does this.
#define STITCH_TEXT_INNER(name) #name
#define STITCH_TEXT(name) STITCH_TEXT_INNER(name)
#define STITCH_FIND(member, name)                                                                                      \
  if (api.member = reinterpret_cast<decltype(api.member)>(::dlsym(library, STITCH_TEXT(name))); api.member == nullptr) \
  return STITCH_TEXT(name)

namespace stitch::cuda {
namespace {

/// The name of the first entry that is missing; null when all are there.
const char* find_device_entries(void* library, DriverApi& api) {
  STITCH_FIND(init, cuInit);
  STITCH_FIND(version, cuDriverGetVersion);
  STITCH_FIND(error_name, cuGetErrorName);
  STITCH_FIND(error_string, cuGetErrorString);
  STITCH_FIND(device_count, cuDeviceGetCount);
  STITCH_FIND(device_get, cuDeviceGet);
  STITCH_FIND(device_name, cuDeviceGetName);
  STITCH_FIND(device_uuid, cuDeviceGetUuid);
  STITCH_FIND(device_memory, cuDeviceTotalMem);
  STITCH_FIND(device_attribute, cuDeviceGetAttribute);
  STITCH_FIND(retain_primary, cuDevicePrimaryCtxRetain);
  STITCH_FIND(release_primary, cuDevicePrimaryCtxRelease);
  STITCH_FIND(set_current, cuCtxSetCurrent);
  return nullptr;
}

const char* find_kernel_entries(void* library, DriverApi& api) {
  STITCH_FIND(load_module, cuModuleLoadDataEx);
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
  STITCH_FIND(fill_async, cuMemsetD8Async);
  return nullptr;
}

const char* find_stream_entries(void* library, DriverApi& api) {
  STITCH_FIND(create_stream, cuStreamCreate);
  STITCH_FIND(destroy_stream, cuStreamDestroy);
  STITCH_FIND(synchronize, cuStreamSynchronize);
  STITCH_FIND(begin_capture, cuStreamBeginCapture);
  STITCH_FIND(end_capture, cuStreamEndCapture);
  STITCH_FIND(instantiate, cuGraphInstantiate);
  STITCH_FIND(upload_graph, cuGraphUpload);
  STITCH_FIND(launch_graph, cuGraphLaunch);
  STITCH_FIND(destroy_graph, cuGraphDestroy);
  STITCH_FIND(destroy_executable, cuGraphExecDestroy);
  return nullptr;
}

}  // namespace

Result<std::shared_ptr<const DriverApi>> DriverApi::load(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return make_error(ErrorKind::unavailable, "no CUDA driver on this machine: {}", ::dlerror());
  }
  auto api = std::make_shared<DriverApi>();
  for (const auto find : {find_device_entries, find_kernel_entries, find_stream_entries}) {
    if (const char* missing = find(handle, *api)) {
      return make_error(ErrorKind::unavailable, "the CUDA driver {} is too old: it has no {}", library, missing);
    }
  }
  STITCH_TRY(api->check(api->init(0), "cuInit", ErrorKind::unavailable));
  return std::shared_ptr<const DriverApi>(std::move(api));
}

Status DriverApi::check(CUresult result, const char* call, ErrorKind kind) const {
  if (result == CUDA_SUCCESS) return {};
  const char *name = nullptr, *text = nullptr;
  // The toolkit's library to link against has every entry, and only this to say.
  if (result == CUDA_ERROR_STUB_LIBRARY) name = "CUDA_ERROR_STUB_LIBRARY", text = "no driver, but a stub of one";
  error_name(result, &name);
  error_string(result, &text);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) kind = ErrorKind::resource_exhausted;
  return make_error(kind, "{}: {} ({})", call, name != nullptr ? name : "unknown error",
                    text != nullptr ? text : fmt::format("error {}", static_cast<int>(result)));
}

/// CUDA_ERROR_CONTAINED, which not every toolkit's header names.
constexpr auto error_contained = static_cast<CUresult>(226);

bool loses_context(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
    case error_contained: return true;
    default: return false;
  }
}

}  // namespace stitch::cuda
