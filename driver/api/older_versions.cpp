// Functions that have newer versions, for programs that were built with an older toolkit: what differs is one parameter
// or nothing.
#include <cuda.h>

#include "driver/api/entry.h"

namespace {

CUmemLocation device_location(CUdevice device) {
  CUmemLocation location{};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == CU_DEVICE_CPU ? 0 : device;
  return location;
}

// The current versions, by names that stay when the ones of cuda.h are undefined.
constexpr auto create_context = &cuCtxCreate;
constexpr auto destroy_context = &cuCtxDestroy;
constexpr auto pop_context = &cuCtxPopCurrent;
constexpr auto push_context = &cuCtxPushCurrent;
constexpr auto release_primary = &cuDevicePrimaryCtxRelease;
constexpr auto reset_primary = &cuDevicePrimaryCtxReset;
constexpr auto set_primary_flags = &cuDevicePrimaryCtxSetFlags;
constexpr auto elapsed_time = &cuEventElapsedTime;
constexpr auto destroy_event = &cuEventDestroy;
constexpr auto destroy_stream = &cuStreamDestroy;
constexpr auto get_uuid = &cuDeviceGetUuid;
constexpr auto begin_capture = &cuStreamBeginCapture;
constexpr auto capture_info = &cuStreamGetCaptureInfo;
constexpr auto update_dependencies = &cuStreamUpdateCaptureDependencies;
constexpr auto add_dependencies = &cuGraphAddDependencies;
constexpr auto remove_dependencies = &cuGraphRemoveDependencies;
constexpr auto get_edges = &cuGraphGetEdges;
constexpr auto get_dependencies = &cuGraphNodeGetDependencies;
constexpr auto get_dependents = &cuGraphNodeGetDependentNodes;
constexpr auto add_graph_node = &cuGraphAddNode;
constexpr auto add_kernel_node = &cuGraphAddKernelNode;
constexpr auto set_kernel_node = &cuGraphKernelNodeSetParams;
constexpr auto set_executable_kernel = &cuGraphExecKernelNodeSetParams;
constexpr auto instantiate_graph = &cuGraphInstantiate;
constexpr auto update_executable = &cuGraphExecUpdate;
constexpr auto prefetch = &cuMemPrefetchAsync;
constexpr auto advise = &cuMemAdvise;
constexpr auto register_host = &cuMemHostRegister;
constexpr auto find_address = &cuGetProcAddress;
constexpr auto copy_batch = &cuMemcpyBatchAsync;

CUDA_KERNEL_NODE_PARAMS newer(const CUDA_KERNEL_NODE_PARAMS_v1& parameters) {
  CUDA_KERNEL_NODE_PARAMS result{};
  result.func = parameters.func;
  result.gridDimX = parameters.gridDimX;
  result.gridDimY = parameters.gridDimY;
  result.gridDimZ = parameters.gridDimZ;
  result.blockDimX = parameters.blockDimX;
  result.blockDimY = parameters.blockDimY;
  result.blockDimZ = parameters.blockDimZ;
  result.sharedMemBytes = parameters.sharedMemBytes;
  result.kernelParams = parameters.kernelParams;
  result.extra = parameters.extra;
  return result;
}

}  // namespace

#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuCtxPopCurrent
#undef cuCtxPushCurrent
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuEventElapsedTime
#undef cuEventDestroy
#undef cuStreamDestroy
#undef cuDeviceGetUuid
#undef cuStreamBeginCapture
#undef cuStreamGetCaptureInfo
#undef cuStreamUpdateCaptureDependencies
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies
#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphAddNode
#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeSetParams
#undef cuGraphExecKernelNodeSetParams
#undef cuGraphInstantiate
#undef cuGraphExecUpdate
#undef cuMemPrefetchAsync
#undef cuMemAdvise
#undef cuMemHostRegister
#undef cuGetProcAddress
#undef cuMemcpyBatchAsync

extern "C" {

CUresult CUDAAPI cuCtxCreate(CUcontext* context, unsigned flags, CUdevice device) {
  return create_context(context, nullptr, flags, device);
}
CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return create_context(context, nullptr, flags, device);
}
CUresult CUDAAPI cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count, unsigned flags,
                                CUdevice device) {
  if (affinity != nullptr || count != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return create_context(context, nullptr, flags, device);
}
CUresult CUDAAPI cuCtxDestroy(CUcontext context) { return destroy_context(context); }
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) { return pop_context(context); }
CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) { return push_context(context); }
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) { return release_primary(device); }
CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device) { return reset_primary(device); }
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  return set_primary_flags(device, flags);
}
CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return elapsed_time(milliseconds, start, end);
}
CUresult CUDAAPI cuEventDestroy(CUevent event) { return destroy_event(event); }
CUresult CUDAAPI cuStreamDestroy(CUstream stream) { return destroy_stream(stream); }
CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return get_uuid(uuid, device); }
CUresult CUDAAPI cuStreamBeginCapture(CUstream stream) { return begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL); }
CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return capture_info(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                           CUgraph* graph, const CUgraphNode** dependencies, size_t* count) {
  return capture_info(stream, status, id, graph, dependencies, nullptr, count);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies, size_t count,
                                                   unsigned flags) {
  return update_dependencies(stream, dependencies, nullptr, count, flags);
}
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return add_dependencies(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                           size_t count) {
  return remove_dependencies(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return get_edges(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* before, size_t* count) {
  return get_dependencies(node, before, nullptr, count);
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* after, size_t* count) {
  return get_dependents(node, after, nullptr, count);
}
CUresult CUDAAPI cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                CUgraphNodeParams* parameters) {
  return add_graph_node(node, graph, before, nullptr, count, parameters);
}
CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS current = newer(*parameters);
  return add_kernel_node(node, graph, before, count, &current);
}
CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS current = newer(*parameters);
  return set_kernel_node(node, &current);
}
CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS current = newer(*parameters);
  return set_executable_kernel(executable, node, &current);
}
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, CUgraphNode* culprit, char* log,
                                    size_t size) {
  if (culprit != nullptr) *culprit = nullptr;
  if (log != nullptr && size > 0) *log = '\0';
  return instantiate_graph(executable, graph, 0);
}
CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec* executable, CUgraph graph, CUgraphNode* culprit, char* log,
                                       size_t size) {
  return cuGraphInstantiate(executable, graph, culprit, log, size);
}
CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphNode* culprit,
                                   CUgraphExecUpdateResult* result) {
  if (result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info{};
  const CUresult updated = update_executable(executable, graph, &info);
  *result = info.result;
  if (culprit != nullptr) *culprit = info.errorNode;
  return updated;
}
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
  return prefetch(address, bytes, device_location(device), 0, stream);
}
CUresult CUDAAPI cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device) {
  return advise(address, bytes, advice, device_location(device));
}
CUresult CUDAAPI cuMemHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return register_host(pointer, bytes, flags);
}
CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pointer, int version, cuuint64_t flags) {
  return find_address(symbol, pointer, version, flags, nullptr);
}
CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                                    CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                                    size_t* failed, CUstream stream) {
  if (failed != nullptr) *failed = SIZE_MAX;
  return copy_batch(to, from, bytes, count, attributes, indices, attribute_count, stream);
}

}  // extern "C"
