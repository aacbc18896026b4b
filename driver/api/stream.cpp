// Streams: their order, what they call on the host, what they wait for.
#include <algorithm>

#include "driver/api/entry.h"

using namespace stitch::driver;

namespace {

template <class Body>
CUresult stream_entry(CUstream handle, Body&& body) {
  return entry([&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    return body(call, stream);
  });
}

constexpr int highest_priority = -5;

CUstreamBatchMemOpParams word_operation(CUstreamBatchMemOpType kind, CUdeviceptr address, cuuint64_t value,
                                        unsigned flags) {
  CUstreamBatchMemOpParams word{};
  word.operation = kind;
  if (kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || kind == CU_STREAM_MEM_OP_WAIT_VALUE_64) {
    word.waitValue.address = address;
    word.waitValue.value64 = value;
    word.waitValue.flags = flags;
  } else {
    word.writeValue.address = address;
    word.writeValue.value64 = value;
    word.writeValue.flags = flags;
  }
  return word;
}

CUresult word_on_stream(CUstream handle, const CUstreamBatchMemOpParams& word) {
  return stream_entry(handle, [&](Call& call, CUstream stream) -> CUresult {
    const CUdeviceptr address = word.waitValue.address;
    const bool narrow =
        word.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || word.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32;
    const auto allocation = call.driver.memory.find(address);
    const std::uint64_t bytes = narrow ? 4 : 8;
    if (address % bytes != 0 || !allocation ||
        address - allocation->buffer.address + bytes > allocation->buffer.bytes) {
      return call.refuse(CUDA_ERROR_INVALID_VALUE,
                         fmt::format("a memory operation on {} bytes at 0x{:x}", bytes, address));
    }
    return call.issue(stream, WordsWork{{word}});
  });
}

}  // namespace

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return entry([&](Call& call) -> CUresult {
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    if (stream == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return CUDA_ERROR_INVALID_VALUE;
    *stream = call.driver.new_stream(context, flags, std::clamp(priority, highest_priority, 0));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  return entry([&](Call& call) -> CUresult {
    STITCH_CU_TRY(call.need(call.driver.streams, stream));
    if (stream == stream->context->legacy) return CUDA_ERROR_INVALID_HANDLE;
    call.driver.destroy_stream(stream);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  return stream_entry(handle, [&](Call& call, CUstream stream) -> CUresult {
    if (stream->capture != nullptr) {
      stream->capture->invalidated = true;
      return call.refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a wait for a stream that is captured");
    }
    return call.wait(stream->context, call.driver.clock_for(stream));
  });
}

CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  return stream_entry(handle, [&](Call& call, CUstream stream) -> CUresult {
    if (stream->capture != nullptr) {
      stream->capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    const StreamClock clock = call.driver.clock_for(stream);
    if (!call.driver.engine.is_done(clock)) return CUDA_ERROR_NOT_READY;
    call.driver.host.join(clock);
    call.driver.memory.forget(call.driver.host);
    return static_cast<CUresult>(stream->context->fault.load());
  });
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  return stream_entry(handle, [&](Call& call, CUstream stream) -> CUresult {
    STITCH_CU_TRY(call.need(call.driver.events, event));
    if (event->capture != nullptr && (flags & CU_EVENT_WAIT_EXTERNAL) == 0) return wait_captured(call, stream, event);
    if (stream->capture != nullptr) {
      if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      if ((flags & CU_EVENT_WAIT_EXTERNAL) != 0) return add_captured(call, stream, WaitWork{event});
      stream->capture->invalidated = true;
      return call.refuse(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a captured stream waits for an event from outside");
    }
    if (event->recorded) stream->learn(event->at);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  return stream_entry(handle, [&](Call& call, CUstream stream) -> CUresult {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return call.issue(stream, HostWork{function, data, {}});
  });
}

CUresult CUDAAPI cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data, unsigned flags) {
  return stream_entry(handle, [&](Call& call, CUstream stream) -> CUresult {
    if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != nullptr) {
      stream->capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return call.issue(stream,
                      HostWork{nullptr, nullptr, [callback, handle, data] { callback(handle, CUDA_SUCCESS, data); }});
  });
}

CUresult CUDAAPI cuStreamGetPriority(CUstream handle, int* priority) {
  return stream_entry(handle, [&](Call&, CUstream stream) -> CUresult {
    if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *priority = stream->priority;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return stream_entry(handle, [&](Call&, CUstream stream) -> CUresult {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = stream->flags;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long* id) {
  return stream_entry(handle, [&](Call&, CUstream stream) -> CUresult {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *id = stream->id;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return stream_entry(handle, [&](Call&, CUstream stream) -> CUresult {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = stream->context->device;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  return stream_entry(handle, [&](Call&, CUstream stream) -> CUresult {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = stream->context;
    if (green != nullptr) *green = nullptr;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return cuStreamGetCtx_v2(handle, context, nullptr);
}

CUresult CUDAAPI cuStreamGetGreenCtx(CUstream handle, CUgreenCtx* green) {
  return stream_entry(handle, [&](Call&, CUstream) -> CUresult {
    if (green == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *green = nullptr;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamCopyAttributes(CUstream target, CUstream source) {
  return entry([&](Call& call) -> CUresult {
    CUstream from = nullptr, to = nullptr;
    STITCH_CU_TRY(call.stream(source, from));
    STITCH_CU_TRY(call.stream(target, to));
    to->attributes = from->attributes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  return stream_entry(handle, [&](Call&, CUstream stream) -> CUresult {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *value = stream->attributes[attribute];
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = stream->priority;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue* value) {
  return stream_entry(handle, [&](Call&, CUstream stream) -> CUresult {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    stream->attributes[attribute] = *value;
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) stream->priority = std::clamp(value->priority, highest_priority, 0);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamAttachMemAsync(CUstream handle, CUdeviceptr, size_t, unsigned) {
  return stream_entry(handle, [](Call&, CUstream) -> CUresult { return CUDA_SUCCESS; });
}

CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return word_on_stream(stream, word_operation(CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags));
}

CUresult CUDAAPI cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return word_on_stream(stream, word_operation(CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags));
}

CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return word_on_stream(stream, word_operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags));
}

CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return word_on_stream(stream, word_operation(CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags));
}

CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* words, unsigned) {
  if (words == nullptr || count > 256) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const auto kind = words[i].operation;
    if (kind == CU_STREAM_MEM_OP_BARRIER || kind == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES) continue;
    STITCH_CU_TRY(word_on_stream(stream, words[i]));
  }
  return CUDA_SUCCESS;
}
