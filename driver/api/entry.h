#pragma once

#include <cuda.h>

#include <string>
#include <utility>

#include "driver/state/driver.h"

/// What every function of the driver begins with. A function is a row like this, and all of them are exported under the
/// names that cuda.h maps theirs to (cuMemAlloc is cuMemAlloc_v2):
///
///   CUresult CUDAAPI cuEventQuery(CUevent event) {
///     return entry([&](Call& call) -> CUresult {
///       STITCH_CU_TRY(call.need(call.driver.events, event));
///       …
///     });
///   }
#define STITCH_CU_TRY(expression)                                                     \
  do {                                                                                \
    if (const CUresult stitch_result = (expression); stitch_result != CUDA_SUCCESS) { \
      return stitch_result;                                                           \
    }                                                                                 \
  } while (false)

namespace stitch::driver {

/// A call under way: it holds the driver's lock.
class Call {
 public:
  Call() : driver(Driver::instance()), lock(driver.mutex) { ++driver.calls; }

  Driver& driver;
  Lock lock;

  /// The current context, unless there is none or a fault has lost it.
  CUresult context(CUcontext& current) const;
  /// The stream that a handle means: 0 is the default stream (of this thread, inside a PerThread), and so are
  /// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD. Its context must not be lost.
  CUresult stream(CUstream handle, CUstream& stream);
  CUresult device(CUdevice ordinal, const EmulatedDevice*& device) const;

  /// Whether a handle is one.
  template <class Set, class Handle>
  CUresult need(const Set& set, Handle handle) const {
    return handle != nullptr && set.contains(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  /// Notes what is wrong with the call, and returns the error.
  CUresult refuse(CUresult result, std::string why, MisuseKind kind = MisuseKind::invalid_call);

  /// Waits without the lock, then tells whether `context` is well.
  CUresult wait(CUcontext context, const StreamClock& clock);
  /// Refuses what must not be called while a stream is captured, and invalidates the capture, as captures that do not
  /// allow it have asked for; `in_any_mode`: all captures, those too that allow unsafe calls.
  CUresult not_while_capturing(bool in_any_mode = false);
  /// Puts work on a stream, or into the graph that it is captured into.
  CUresult issue(CUstream stream, Work work);
  /// The same, then waits for it: for the functions without Async.
  CUresult issue_and_wait(CUstream stream, Work work);

  /// Errors that depend on nothing but the process.
  [[nodiscard]] CUresult ready() const;
};

/// While one lives, the default stream is this thread's: for functions whose name ends in _ptsz or _ptds.
class PerThread {
 public:
  PerThread() : before_(std::exchange(active, true)) {}
  ~PerThread() { active = before_; }
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;
  static thread_local bool active;

 private:
  bool before_;
};

/// How strictly this thread takes captures (cuThreadExchangeStreamCaptureMode).
CUstreamCaptureMode& thread_capture_mode();

/// Whether a pointer that the caller wants something written to is there.
template <class... Pointers>
bool all_given(Pointers... pointers) {
  return ((pointers != nullptr) && ...);
}

/// Runs the body of a function of an initialised driver.
template <class Body>
CUresult entry(Body&& body) {
  Call call;
  STITCH_CU_TRY(call.ready());
  return body(call);
}

/// Adds a line to what cuLogs… hands out.
void add_to_logs(CUresult result, const std::string& line);

// ---- driver/api/virtual_memory.cpp

/// Bytes of a device that cuMemCreate took and that something still holds.
std::uint64_t physical_bytes(Driver& driver, CUdevice device);
/// Whether an address is one that cuMemAddressReserve gave.
bool is_reserved(Driver& driver, CUdeviceptr address);

// ---- driver/api/capture.cpp

/// Adds what a captured stream is given to its graph. Error: the capture was invalidated.
CUresult add_captured(Call& call, CUstream stream, Work work);
/// A node of a graph, behind `before`.
CUgraphNode add_node(Driver& driver, CUgraph graph, std::vector<CUgraphNode> before, Work work);
/// An event of a captured stream stands for what the stream depends on; waiting for it joins the capture.
CUresult wait_captured(Call& call, CUstream stream, CUevent event);

}  // namespace stitch::driver
