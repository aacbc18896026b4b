#include "cuda/driver_api.h"

#include <dlfcn.h>

// cuda.h maps names to the current version of an entry (cuMemAlloc to cuMemAlloc_v2); so does this.
#define STITCH_TEXT_INNER(name) #name
#define STITCH_TEXT(name) STITCH_TEXT_INNER(name)
#define STITCH_FIND(users, member, name) finder.find(users, api.member, STITCH_TEXT(name))

namespace stitch::cuda {
namespace {

/// The uses for which an entry must be there.
enum class Users : std::uint8_t { all, run_plans, measure };

/// Finds entries in a library, and remembers the first one that is missed.
class EntryFinder {
 public:
  EntryFinder(void* library, DriverUse use) : library_(library), use_(use) {}

  template <class Entry>
  void find(Users users, Entry& entry, const char* name) {
    entry = reinterpret_cast<Entry>(::dlsym(library_, name));
    if (entry == nullptr && missing_ == nullptr && is_needed(users)) missing_ = name;
  }
  /// What newer drivers have.
  template <class Entry>
  void find_if_there(Entry& entry, const char* name) const {
    entry = reinterpret_cast<Entry>(::dlsym(library_, name));
  }
  /// Null when everything that the use needs was found.
  [[nodiscard]] const char* missing() const { return missing_; }

 private:
  [[nodiscard]] bool is_needed(Users users) const {
    return users == Users::all || (users == Users::run_plans) == (use_ == DriverUse::run_plans);
  }

  void* library_;
  DriverUse use_;
  const char* missing_ = nullptr;
};

void find_device_entries(EntryFinder& finder, DriverApi& api) {
  STITCH_FIND(Users::all, init, cuInit);
  STITCH_FIND(Users::measure, version, cuDriverGetVersion);
  STITCH_FIND(Users::all, error_name, cuGetErrorName);
  STITCH_FIND(Users::all, error_string, cuGetErrorString);
  STITCH_FIND(Users::measure, device_count, cuDeviceGetCount);
  STITCH_FIND(Users::all, device_get, cuDeviceGet);
  STITCH_FIND(Users::measure, device_name, cuDeviceGetName);
  STITCH_FIND(Users::measure, device_uuid, cuDeviceGetUuid);
  STITCH_FIND(Users::measure, device_memory, cuDeviceTotalMem);
  STITCH_FIND(Users::all, device_attribute, cuDeviceGetAttribute);
  STITCH_FIND(Users::all, retain_primary, cuDevicePrimaryCtxRetain);
  STITCH_FIND(Users::all, release_primary, cuDevicePrimaryCtxRelease);
  STITCH_FIND(Users::measure, set_current, cuCtxSetCurrent);
  STITCH_FIND(Users::run_plans, get_current, cuCtxGetCurrent);
  STITCH_FIND(Users::run_plans, push_context, cuCtxPushCurrent);
  STITCH_FIND(Users::run_plans, pop_context, cuCtxPopCurrent);
  STITCH_FIND(Users::run_plans, synchronize_context, cuCtxSynchronize);
}

void find_kernel_entries(EntryFinder& finder, DriverApi& api) {
  STITCH_FIND(Users::run_plans, load_module, cuModuleLoadData);
  STITCH_FIND(Users::measure, load_module_with, cuModuleLoadDataEx);
  STITCH_FIND(Users::all, unload_module, cuModuleUnload);
  STITCH_FIND(Users::all, get_function, cuModuleGetFunction);
  STITCH_FIND(Users::all, set_attribute, cuFuncSetAttribute);
  finder.find_if_there(api.load_function, "cuFuncLoad");
  STITCH_FIND(Users::all, launch, cuLaunchKernelEx);
  STITCH_FIND(Users::all, allocate, cuMemAlloc);
  STITCH_FIND(Users::all, free, cuMemFree);
  STITCH_FIND(Users::all, copy_to_device, cuMemcpyHtoD);
  STITCH_FIND(Users::all, copy_to_host, cuMemcpyDtoH);
  STITCH_FIND(Users::all, copy_on_device, cuMemcpyDtoDAsync);
  STITCH_FIND(Users::all, fill, cuMemsetD8);
  STITCH_FIND(Users::all, fill_async, cuMemsetD8Async);
}

void find_stream_entries(EntryFinder& finder, DriverApi& api) {
  STITCH_FIND(Users::all, create_stream, cuStreamCreate);
  STITCH_FIND(Users::all, destroy_stream, cuStreamDestroy);
  STITCH_FIND(Users::all, synchronize_stream, cuStreamSynchronize);
  STITCH_FIND(Users::run_plans, create_event, cuEventCreate);
  STITCH_FIND(Users::run_plans, destroy_event, cuEventDestroy);
  STITCH_FIND(Users::run_plans, record_event, cuEventRecord);
  // The first version of it, which older drivers have, too; there is no other difference.
  finder.find(Users::run_plans, api.elapsed, "cuEventElapsedTime");
  STITCH_FIND(Users::run_plans, exchange_capture_mode, cuThreadExchangeStreamCaptureMode);
  STITCH_FIND(Users::measure, begin_capture, cuStreamBeginCapture);
  STITCH_FIND(Users::measure, end_capture, cuStreamEndCapture);
  STITCH_FIND(Users::measure, instantiate, cuGraphInstantiate);
  STITCH_FIND(Users::measure, upload_graph, cuGraphUpload);
  STITCH_FIND(Users::measure, launch_graph, cuGraphLaunch);
  STITCH_FIND(Users::measure, destroy_graph, cuGraphDestroy);
  STITCH_FIND(Users::measure, destroy_executable, cuGraphExecDestroy);
}

}  // namespace

Result<std::shared_ptr<const DriverApi>> DriverApi::load(DriverUse use, const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return make_error(ErrorKind::unavailable, "no CUDA driver on this machine: {}", ::dlerror());
  }
  auto api = std::make_shared<DriverApi>();
  EntryFinder finder(handle, use);
  for (const auto find : {find_device_entries, find_kernel_entries, find_stream_entries}) find(finder, *api);
  if (const char* missing = finder.missing()) {
    return make_error(ErrorKind::unavailable, "the CUDA driver {} is too old: it has no {}", library, missing);
  }
  api->emulated = ::dlsym(handle, "stitch_emulated_driver") != nullptr;
  STITCH_TRY(api->check(api->init(0), "cuInit", ErrorKind::unavailable));
  return std::shared_ptr<const DriverApi>(std::move(api));
}

Status DriverApi::check(CUresult result, const char* call, ErrorKind kind) const {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  if (result == CUDA_ERROR_STUB_LIBRARY) {
    // The toolkit's library to link against has every entry, and only this to say.
    name = "CUDA_ERROR_STUB_LIBRARY";
    text = "no driver, but a stub of one";
  }
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
