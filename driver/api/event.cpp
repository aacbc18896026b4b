// Events.
#include <limits>

#include "driver/api/entry.h"

using namespace stitch::driver;

CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned flags) {
  return entry([&](Call& call) -> CUresult {
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    const bool shared = (flags & CU_EVENT_INTERPROCESS) != 0;
    if (event == nullptr || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (shared) return call.refuse(CUDA_ERROR_NOT_SUPPORTED, "events between processes", MisuseKind::unsupported);
    *event = new CUevent_st;
    (*event)->context = context;
    (*event)->flags = flags;
    call.driver.events.insert(*event);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  return entry([&](Call& call) -> CUresult {
    STITCH_CU_TRY(call.need(call.driver.events, event));
    call.driver.events.erase(event);
    delete event;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    STITCH_CU_TRY(call.need(call.driver.events, event));
    if (event->context != stream->context) {
      return call.refuse(CUDA_ERROR_INVALID_HANDLE, "an event of another context than the stream's");
    }
    if (stream->capture != nullptr) {
      if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      if ((flags & CU_EVENT_RECORD_EXTERNAL) != 0) return add_captured(call, stream, RecordWork{event});
      event->capture = stream->capture;
      event->nodes = stream->tail;
      return CUDA_SUCCESS;
    }
    event->recorded = true;
    event->capture.reset();
    event->at = call.driver.clock_for(stream);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) { return cuEventRecordWithFlags(event, stream, 0); }

CUresult CUDAAPI cuEventQuery(CUevent event) {
  return entry([&](Call& call) -> CUresult {
    STITCH_CU_TRY(call.need(call.driver.events, event));
    if (event->capture != nullptr) {
      event->capture->invalidated = true;
      return CUDA_ERROR_CAPTURED_EVENT;
    }
    if (event->context != nullptr) STITCH_CU_TRY(static_cast<CUresult>(event->context->fault.load()));
    if (!call.driver.engine.is_done(event->at)) return CUDA_ERROR_NOT_READY;
    call.driver.host.join(event->at);
    call.driver.memory.forget(call.driver.host);
    return event->context == nullptr ? CUDA_SUCCESS : static_cast<CUresult>(event->context->fault.load());
  });
}

CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  return entry([&](Call& call) -> CUresult {
    STITCH_CU_TRY(call.need(call.driver.events, event));
    if (event->capture != nullptr) {
      event->capture->invalidated = true;
      return CUDA_ERROR_CAPTURED_EVENT;
    }
    CUcontext context = event->context;
    if (context == nullptr) return CUDA_SUCCESS;
    return call.wait(context, StreamClock(event->at));
  });
}

/// There are no times here: what a GPU would have measured nobody knows. Not a number says so, where a number would be
/// taken for one.
CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return entry([&](Call& call) -> CUresult {
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (CUevent event : {start, end}) {
      STITCH_CU_TRY(call.need(call.driver.events, event));
      if (!event->recorded || (event->flags & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
    }
    for (CUevent event : {start, end}) {
      if (!call.driver.engine.is_done(event->at)) return CUDA_ERROR_NOT_READY;
    }
    *milliseconds = std::numeric_limits<float>::quiet_NaN();
    return CUDA_SUCCESS;
  });
}
