// Initialisation, versions, errors, logs.
#include <cudaProfiler.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>

#include "driver/api/entry.h"

namespace stitch::driver {
namespace {

struct ErrorText {
  CUresult result;
  const char* name;
  const char* text;
};
#define STITCH_ERROR(result, text) \
  ErrorText { result, #result, text }
/// In the words of the driver.
constexpr std::array error_texts = {
    STITCH_ERROR(CUDA_SUCCESS, "no error"),
    STITCH_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    STITCH_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    STITCH_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    STITCH_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    STITCH_ERROR(CUDA_ERROR_PROFILER_DISABLED, "profiler disabled while using external profiling tool"),
    STITCH_ERROR(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    STITCH_ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    STITCH_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    STITCH_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    STITCH_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    STITCH_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    STITCH_ERROR(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "context already current"),
    STITCH_ERROR(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    STITCH_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    STITCH_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    STITCH_ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    STITCH_ERROR(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "exclusive-thread device already in use by a different thread"),
    STITCH_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    STITCH_ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    STITCH_ERROR(CUDA_ERROR_NVLINK_UNCORRECTABLE, "uncorrectable NVLink error detected during the execution"),
    STITCH_ERROR(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "PTX JIT compiler library not found"),
    STITCH_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    STITCH_ERROR(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
    STITCH_ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    STITCH_ERROR(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
    STITCH_ERROR(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed"),
    STITCH_ERROR(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    STITCH_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    STITCH_ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    STITCH_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    STITCH_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    STITCH_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    STITCH_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    STITCH_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    STITCH_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    STITCH_ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    STITCH_ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    STITCH_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    STITCH_ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    STITCH_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                 "part or all of the requested memory range is already mapped"),
    STITCH_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    STITCH_ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    STITCH_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    STITCH_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    STITCH_ERROR(CUDA_ERROR_INVALID_ADDRESS_SPACE, "operation not supported on global/shared address space"),
    STITCH_ERROR(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    STITCH_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    STITCH_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    STITCH_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    STITCH_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    STITCH_ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    STITCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    STITCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    STITCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences"),
    STITCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    STITCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    STITCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"),
    STITCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                 "operation would make the legacy stream depend on a capturing blocking stream"),
    STITCH_ERROR(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"),
    STITCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                 "attempt to terminate a thread-local capture sequence from another thread"),
    STITCH_ERROR(CUDA_ERROR_TIMEOUT, "wait operation timed out"),
    STITCH_ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                 "the graph update was not performed because it included changes which violated constraints specific "
                 "to instantiated graph update"),
    STITCH_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, "an async error has occurred in external entity outside of CUDA"),
    STITCH_ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster configuration is invalid"),
    STITCH_ERROR(CUDA_ERROR_FUNCTION_NOT_LOADED, "function not loaded"),
    STITCH_ERROR(CUDA_ERROR_INVALID_RESOURCE_TYPE, "invalid resource type"),
    STITCH_ERROR(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "invalid resource configuration"),
    STITCH_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef STITCH_ERROR

const ErrorText* find_text(CUresult result) {
  const auto found = std::ranges::find(error_texts, result, &ErrorText::result);
  return found == error_texts.end() ? nullptr : &*found;
}

/// The end of the process: what is left is waited for a little, what is not freed is named, and all is reported.
void report_at_exit() {
  Driver& driver = Driver::instance();
  if (driver.process != getpid()) return;
  constexpr double patience_s = 2;
  const bool idle = driver.engine.wait_for_all(patience_s);
  if (!idle) driver.log.add(MisuseKind::leak, "work was still running, or waiting, when the process ended");
  bool lost = false;
  for (CUcontext context : driver.contexts) lost |= context->fault.load() != CUDA_SUCCESS;
  for (const Allocation& allocation : driver.memory.all()) {
    // Whoever lost its context cannot free; a library's own pools and modules end with the process.
    if (lost || allocation.kind == MemoryKind::variable || allocation.ending) continue;
    driver.log.add(MisuseKind::leak,
                   fmt::format("{} ({} bytes) was never freed", allocation.name, allocation.buffer.bytes));
  }
  driver.log.report(driver.devices.empty() ? "none" : driver.devices.front().name);
}

/// What cuLogs… hands out.
struct Logs {
  struct Callback {
    CUlogsCallback function;
    void* data;
  };
  std::deque<std::string> lines;
  std::uint64_t dropped = 0;
  std::map<std::uint64_t, Callback> callbacks;
  std::uint64_t next = 1;
};
Logs& logs() {
  static auto* logs = new Logs;
  return *logs;
}
constexpr std::size_t most_lines = 100;

CUlogsCallbackHandle handle_of(std::uint64_t id) { return reinterpret_cast<CUlogsCallbackHandle>(id); }

/// The lines from `iterator` on; moves it to the end.
std::string text_since(CUlogIterator* iterator) {
  const std::uint64_t first = iterator != nullptr ? std::max<std::uint64_t>(*iterator, logs().dropped) : logs().dropped;
  std::string text;
  for (std::uint64_t i = first; i < logs().dropped + logs().lines.size(); ++i) {
    text += logs().lines[i - logs().dropped] + "\n";
  }
  if (iterator != nullptr) *iterator = static_cast<CUlogIterator>(logs().dropped + logs().lines.size());
  return text;
}

}  // namespace

void add_to_logs(CUresult result, const std::string& line) {
  Logs& all = logs();
  all.lines.push_back(line);
  if (all.lines.size() > most_lines) {
    all.lines.pop_front();
    ++all.dropped;
  }
  std::string copy = line;
  for (const auto& [id, callback] : all.callbacks) {
    callback.function(callback.data, result == CUDA_SUCCESS ? CU_LOG_LEVEL_WARNING : CU_LOG_LEVEL_ERROR, copy.data(),
                      copy.size());
  }
}

}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Call call;
  Driver& driver = call.driver;
  if (driver.devices.empty())
    return call.refuse(CUDA_ERROR_NO_DEVICE, "STITCH_EMULATED_DEVICE: " + driver.why_no_devices);
  if (driver.process == getpid()) return CUDA_SUCCESS;
  if (driver.process != 0) return CUDA_ERROR_NOT_INITIALIZED;  // a child of a process that had the driver
  driver.process = getpid();
  std::atexit(report_at_exit);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* text = find_text(error);
  *name = text == nullptr ? nullptr : text->name;
  return text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char** string) {
  if (string == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* text = find_text(error);
  *string = text == nullptr ? nullptr : text->text;
  return text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuLogsRegisterCallback(CUlogsCallback callback, void* data, CUlogsCallbackHandle* handle) {
  return entry([&](Call&) -> CUresult {
    if (callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t id = logs().next++;
    logs().callbacks[id] = {callback, data};
    if (handle != nullptr) *handle = handle_of(id);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  return entry([&](Call&) -> CUresult {
    for (const auto& [id, callback] : logs().callbacks) {
      if (handle_of(id) != handle) continue;
      logs().callbacks.erase(id);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuLogsCurrent(CUlogIterator* iterator, unsigned flags) {
  return entry([&](Call&) -> CUresult {
    if (iterator == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *iterator = static_cast<CUlogIterator>(logs().dropped + logs().lines.size());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer, size_t* size, unsigned flags) {
  return entry([&](Call&) -> CUresult {
    if (buffer == nullptr || size == nullptr || *size == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    std::string text = text_since(iterator);
    if (text.size() + 1 > *size) text.erase(0, text.size() + 1 - *size);
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    *size = text.size();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLogsDumpToFile(CUlogIterator* iterator, const char* path, unsigned flags) {
  return entry([&](Call&) -> CUresult {
    if (path == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    std::FILE* file = std::fopen(path, "w");
    if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::fputs(text_since(iterator).c_str(), file);
    std::fclose(file);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuProfilerStart() { return CUDA_SUCCESS; }
CUresult CUDAAPI cuProfilerStop() { return CUDA_SUCCESS; }
