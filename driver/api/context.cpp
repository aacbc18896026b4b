// Contexts: primary ones and others, and which of them is current.
#include <algorithm>

#include "driver/api/entry.h"

using namespace stitch::driver;

namespace {

template <class Body>
CUresult context_entry(Body&& body) {
  return entry([&](Call& call) -> CUresult {
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    return body(call, context);
  });
}

constexpr unsigned known_flags = CU_CTX_FLAGS_MASK;

/// Lets go of a primary context, which ends with the last one that holds it.
CUresult reset_primary(Call& call, CUdevice ordinal) {
  const auto found = call.driver.primary.find(ordinal);
  if (found == call.driver.primary.end()) return CUDA_SUCCESS;
  CUcontext context = found->second;
  call.driver.wait(call.lock, call.driver.all_of(context));
  call.driver.primary.erase(ordinal);
  call.driver.destroy_context(context);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    STITCH_CU_TRY(call.device(ordinal, device));
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUcontext& primary = call.driver.primary[ordinal];
    if (primary == nullptr) primary = call.driver.new_context(ordinal, call.driver.primary_flags[ordinal], true);
    ++primary->retained;
    *context = primary;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    STITCH_CU_TRY(call.device(ordinal, device));
    const auto found = call.driver.primary.find(ordinal);
    if (found == call.driver.primary.end()) return CUDA_ERROR_INVALID_CONTEXT;
    if (--found->second->retained > 0) return CUDA_SUCCESS;
    return reset_primary(call, ordinal);
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice ordinal) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    STITCH_CU_TRY(call.device(ordinal, device));
    return reset_primary(call, ordinal);
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned flags) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    STITCH_CU_TRY(call.device(ordinal, device));
    if ((flags & ~known_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    call.driver.primary_flags[ordinal] = flags;
    if (const auto found = call.driver.primary.find(ordinal); found != call.driver.primary.end()) {
      found->second->flags = flags;
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    STITCH_CU_TRY(call.device(ordinal, device));
    if (!all_given(flags, active)) return CUDA_ERROR_INVALID_VALUE;
    *flags = call.driver.primary_flags[ordinal];
    *active = call.driver.primary.contains(ordinal) ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxCreate(CUcontext* context, CUctxCreateParams* parameters, unsigned flags, CUdevice ordinal) {
  return entry([&](Call& call) -> CUresult {
    const EmulatedDevice* device = nullptr;
    STITCH_CU_TRY(call.device(ordinal, device));
    if (context == nullptr || (flags & ~known_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (parameters != nullptr && (parameters->numExecAffinityParams != 0 || parameters->cigParams != nullptr)) {
      return call.refuse(CUDA_ERROR_NOT_SUPPORTED, "cuCtxCreate with execution affinity or graphics",
                         MisuseKind::unsupported);
    }
    *context = call.driver.new_context(ordinal, flags, false);
    context_stack().push_back(*context);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxDestroy(CUcontext context) {
  return entry([&](Call& call) -> CUresult {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!call.driver.contexts.contains(context) || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
    call.driver.wait(call.lock, call.driver.all_of(context));
    call.driver.destroy_context(context);
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == context) stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  return entry([&](Call& call) -> CUresult {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!call.driver.contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    context_stack().push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) {
  return entry([&](Call&) -> CUresult {
    auto& stack = context_stack();
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  return entry([&](Call& call) -> CUresult {
    if (context != nullptr && !call.driver.contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    auto& stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
  return entry([&](Call&) -> CUresult {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = context_stack().empty() ? nullptr : context_stack().back();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  return entry([&](Call& call) -> CUresult {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (context == nullptr) {
      if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
      context = context_stack().back();
    }
    if (!call.driver.contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) { return cuCtxGetDevice_v2(device, nullptr); }

CUresult CUDAAPI cuCtxGetFlags(unsigned* flags) {
  return context_entry([&](Call&, CUcontext context) -> CUresult {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = context->flags;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetFlags(unsigned flags) {
  return context_entry([&](Call&, CUcontext context) -> CUresult {
    if ((flags & ~known_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    context->flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long* id) {
  return entry([&](Call& call) -> CUresult {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (context == nullptr) STITCH_CU_TRY(call.context(context));
    if (!call.driver.contexts.contains(context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = context->id;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext context, unsigned* version) {
  return entry([&](Call& call) -> CUresult {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (context != nullptr && !call.driver.contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    *version = 3020;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext context) {
  return entry([&](Call& call) -> CUresult {
    if (context == nullptr) STITCH_CU_TRY(call.context(context));
    if (!call.driver.contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    STITCH_CU_TRY(call.not_while_capturing(true));
    return call.wait(context, call.driver.all_of(context));
  });
}

CUresult CUDAAPI cuCtxSynchronize() { return cuCtxSynchronize_v2(nullptr); }

CUresult CUDAAPI cuCtxGetLimit(size_t* value, CUlimit limit) {
  return context_entry([&](Call&, CUcontext context) -> CUresult {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto found = context->limits.find(limit);
    if (found == context->limits.end()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = found->second;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  return context_entry([&](Call&, CUcontext context) -> CUresult {
    const auto found = context->limits.find(limit);
    if (found == context->limits.end()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    found->second = value;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache* config) {
  return context_entry([&](Call&, CUcontext context) -> CUresult {
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *config = context->cache;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config) {
  return context_entry([&](Call&, CUcontext context) -> CUresult {
    context->cache = config;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache() {
  return context_entry([](Call&, CUcontext) -> CUresult { return CUDA_SUCCESS; });
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return context_entry([&](Call&, CUcontext) -> CUresult {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxRecordEvent(CUcontext context, CUevent event) {
  return entry([&](Call& call) -> CUresult {
    if (!call.driver.contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    STITCH_CU_TRY(call.need(call.driver.events, event));
    event->recorded = true;
    event->capture.reset();
    event->at = call.driver.all_of(context);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxWaitEvent(CUcontext context, CUevent event) {
  return entry([&](Call& call) -> CUresult {
    if (!call.driver.contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
    STITCH_CU_TRY(call.need(call.driver.events, event));
    for (CUstream stream : context->streams) stream->learn(event->at);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext, unsigned) {
  return entry([](Call&) -> CUresult { return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED; });
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext) {
  return entry([](Call&) -> CUresult { return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED; });
}
