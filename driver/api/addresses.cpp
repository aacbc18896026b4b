// cuGetProcAddress, by which programs find all other functions, and what is said of those that there are not.
#include <cstring>
#include <string_view>

#include "driver/api/entry.h"
#include "driver/api/symbols.h"
#include "driver/api/unsupported.h"

namespace stitch::driver {

int refuse_unsupported(const char* function) {
  Call call;
  return call.refuse(CUDA_ERROR_NOT_SUPPORTED, fmt::format("the emulated driver has no {}", function),
                     MisuseKind::unsupported);
}

namespace {

/// The newest form of a function that a program of this version of CUDA may know.
const Symbol* find_symbol(std::string_view name, int version, DefaultStream stream, bool& known) {
  const Symbol* best = nullptr;
  known = false;
  for (const Symbol& symbol : symbols()) {
    if (name != symbol.name || symbol.stream != stream) continue;
    known = true;
    if (symbol.since <= version && (best == nullptr || symbol.since > best->since)) best = &symbol;
  }
  return best;
}

}  // namespace
}  // namespace stitch::driver

using namespace stitch::driver;

/// By this whoever loads the library can tell it from a GPU's (cuda/driver_api.h does).
extern "C" const int stitch_emulated_driver;
extern "C" const int stitch_emulated_driver = 1;

/// What the process has done so far: modules and libraries loaded, kernels launched that have ended.
extern "C" void stitch_emulated_totals(std::uint64_t* images, std::uint64_t* launches);
extern "C" void stitch_emulated_totals(std::uint64_t* images, std::uint64_t* launches) {
  Call call;
  if (images != nullptr) *images = call.driver.images_loaded;
  if (launches != nullptr) *launches = call.driver.log.launches();
}

/// What the process has asked of the driver so far: calls (but of functions that look at nothing of it, such as
/// cuGetErrorName), how often the host waited for a device (whether or not there was anything to wait for), and how
/// often memory was allocated. What a piece of code does between two of these calls is the difference, less one call.
extern "C" void stitch_emulated_calls(std::uint64_t* calls, std::uint64_t* waits, std::uint64_t* allocations);
extern "C" void stitch_emulated_calls(std::uint64_t* calls, std::uint64_t* waits, std::uint64_t* allocations) {
  Call call;
  if (calls != nullptr) *calls = call.driver.calls;
  if (waits != nullptr) *waits = call.driver.waits;
  if (allocations != nullptr) *allocations = call.driver.memory.allocations();
}

CUresult CUDAAPI cuGetProcAddress(const char* name, void** pointer, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  if (!all_given(name, pointer)) return CUDA_ERROR_INVALID_VALUE;
  constexpr cuuint64_t both = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if ((flags & ~both) != 0 || (flags & both) == both) return CUDA_ERROR_INVALID_VALUE;
  bool known = false;
  const Symbol* found = nullptr;
  if ((flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0) {
    found = find_symbol(name, version, DefaultStream::per_thread, known);
  }
  bool known_legacy = false;
  if (found == nullptr) found = find_symbol(name, version, DefaultStream::legacy, known_legacy);
  *pointer = found == nullptr ? nullptr : reinterpret_cast<void*>(found->address);
  if (status != nullptr) {
    *status = found != nullptr        ? CU_GET_PROC_ADDRESS_SUCCESS
              : known || known_legacy ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
  }
  return found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
