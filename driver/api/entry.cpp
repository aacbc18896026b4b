#include "driver/api/entry.h"

#include <unistd.h>

namespace stitch::driver {

thread_local bool PerThread::active = false;

CUstreamCaptureMode& thread_capture_mode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

CUresult Call::ready() const {
  if (driver.process == 0 || driver.process != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
  // What a stream calls on the host must not call the driver (cuLaunchHostFunc, cuStreamAddCallback).
  return driver.engine.is_own_thread() ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

CUresult Call::context(CUcontext& current) const {
  const auto& stack = context_stack();
  if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  current = stack.back();
  if (!driver.contexts.contains(current)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return static_cast<CUresult>(current->fault.load());
}

CUresult Call::stream(CUstream handle, CUstream& stream) {
  const bool per_thread = handle == CU_STREAM_PER_THREAD || (handle == nullptr && PerThread::active);
  if (per_thread || handle == nullptr || handle == CU_STREAM_LEGACY) {
    CUcontext current = nullptr;
    STITCH_CU_TRY(context(current));
    stream = current->legacy;
    if (!per_thread) return CUDA_SUCCESS;
    CUstream& own = current->per_thread[std::this_thread::get_id()];
    if (own == nullptr) own = driver.new_stream(current, CU_STREAM_DEFAULT, 0);
    stream = own;
    return CUDA_SUCCESS;
  }
  if (!driver.streams.contains(handle)) {
    // A handle from before the fault that destroyed everything is no news; any other is.
    CUcontext current = nullptr;
    STITCH_CU_TRY(context(current));
    return refuse(CUDA_ERROR_INVALID_HANDLE, "a stream that does not exist, or was destroyed");
  }
  stream = handle;
  return static_cast<CUresult>(handle->context->fault.load());
}

CUresult Call::device(CUdevice ordinal, const EmulatedDevice*& device) const {
  if (ordinal < 0 || ordinal >= static_cast<int>(driver.devices.size())) return CUDA_ERROR_INVALID_DEVICE;
  device = &driver.devices[ordinal];
  return CUDA_SUCCESS;
}

CUresult Call::refuse(CUresult result, std::string why, MisuseKind kind) {
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::string line = fmt::format("{}: {}", name != nullptr ? name : "error", why);
  add_to_logs(result, line);
  driver.log.add(kind, std::move(line));
  return result;
}

CUresult Call::wait(CUcontext context, const StreamClock& clock) {
  driver.wait(lock, clock);
  return static_cast<CUresult>(context->fault.load());
}

CUresult Call::not_while_capturing(bool in_any_mode) {
  if (!in_any_mode && thread_capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  for (CUstream stream : driver.streams) {
    if (stream->capture == nullptr || stream->capture->invalidated) continue;
    const Capture& capture = *stream->capture;
    const bool own = capture.thread == std::this_thread::get_id();
    const bool concerned =
        capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL || (capture.mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && own);
    if (in_any_mode) {
      stream->capture->invalidated = true;
      return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a wait for the whole context, while a stream is captured");
    }
    if (!concerned || (!own && thread_capture_mode() == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) continue;
    stream->capture->invalidated = true;
    return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a call that waits or allocates, while a stream is captured");
  }
  return CUDA_SUCCESS;
}

CUresult Call::issue(CUstream stream, Work work) {
  if (stream->capture != nullptr) return add_captured(*this, stream, std::move(work));
  if (stream == stream->context->legacy) {
    for (CUstream other : stream->context->streams) {
      if (other->capture == nullptr || !other->blocking || other->capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        continue;
      other->capture->invalidated = true;
      return refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                    "work on the default stream, which waits for a stream that is captured");
    }
  }
  submit(driver, stream, std::move(work));
  return CUDA_SUCCESS;
}

CUresult Call::issue_and_wait(CUstream stream, Work work) {
  STITCH_CU_TRY(not_while_capturing());
  STITCH_CU_TRY(issue(stream, std::move(work)));
  return wait(stream->context, stream->known);
}

}  // namespace stitch::driver
