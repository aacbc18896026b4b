// Written by scripts/driver_symbols from the headers of a CUDA toolkit.
// clang-format off
CUresult CUDAAPI cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags) {
  const PerThread scope;
  return cuEventRecordWithFlags(hEvent, hStream, flags);
}
CUresult CUDAAPI cuEventRecord_ptsz(CUevent hEvent, CUstream hStream) {
  const PerThread scope;
  return cuEventRecord(hEvent, hStream);
}
CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
  const PerThread scope;
  return cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams);
}
CUresult CUDAAPI cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
  const PerThread scope;
  return cuGraphLaunch(hGraphExec, hStream);
}
CUresult CUDAAPI cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
  const PerThread scope;
  return cuGraphUpload(hGraphExec, hStream);
}
CUresult CUDAAPI cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams) {
  const PerThread scope;
  return cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams);
}
CUresult CUDAAPI cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void *userData) {
  const PerThread scope;
  return cuLaunchHostFunc(hStream, fn, userData);
}
CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) {
  const PerThread scope;
  return cuLaunchKernelEx(config, f, kernelParams, extra);
}
CUresult CUDAAPI cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra) {
  const PerThread scope;
  return cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
}
CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
  const PerThread scope;
  return cuMemAllocAsync(dptr, bytesize, hStream);
}
CUresult CUDAAPI cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  const PerThread scope;
  return cuMemAllocFromPoolAsync(dptr, bytesize, pool, hStream);
}
CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream) {
  const PerThread scope;
  return cuMemDiscardAndPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}
CUresult CUDAAPI cuMemDiscardBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream hStream) {
  const PerThread scope;
  return cuMemDiscardBatchAsync(dptrs, sizes, count, flags, hStream);
}
CUresult CUDAAPI cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
  const PerThread scope;
  return cuMemFreeAsync(dptr, hStream);
}
CUresult CUDAAPI cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags, CUstream hStream) {
  const PerThread scope;
  return cuMemPrefetchAsync(devPtr, count, location, flags, hStream);
}
CUresult CUDAAPI cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream) {
  const PerThread scope;
  return cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}
CUresult CUDAAPI cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *pCopy, CUstream hStream) {
  const PerThread scope;
  return cuMemcpy2DAsync(pCopy, hStream);
}
CUresult CUDAAPI cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *pCopy) {
  const PerThread scope;
  return cuMemcpy2DUnaligned(pCopy);
}
CUresult CUDAAPI cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *pCopy) {
  const PerThread scope;
  return cuMemcpy2D(pCopy);
}
CUresult CUDAAPI cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *pCopy, CUstream hStream) {
  const PerThread scope;
  return cuMemcpy3DAsync(pCopy, hStream);
}
CUresult CUDAAPI cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *pCopy) {
  const PerThread scope;
  return cuMemcpy3D(pCopy);
}
CUresult CUDAAPI cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  const PerThread scope;
  return cuMemcpyAsync(dst, src, ByteCount, hStream);
}
CUresult CUDAAPI cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream) {
  const PerThread scope;
  return cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}
CUresult CUDAAPI cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
  const PerThread scope;
  return cuMemcpyDtoDAsync(dstDevice, srcDevice, ByteCount, hStream);
}
CUresult CUDAAPI cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  const PerThread scope;
  return cuMemcpyDtoD(dstDevice, srcDevice, ByteCount);
}
CUresult CUDAAPI cuMemcpyDtoHAsync_v2_ptsz(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
  const PerThread scope;
  return cuMemcpyDtoHAsync(dstHost, srcDevice, ByteCount, hStream);
}
CUresult CUDAAPI cuMemcpyDtoH_v2_ptds(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  const PerThread scope;
  return cuMemcpyDtoH(dstHost, srcDevice, ByteCount);
}
CUresult CUDAAPI cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream) {
  const PerThread scope;
  return cuMemcpyHtoDAsync(dstDevice, srcHost, ByteCount, hStream);
}
CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
  const PerThread scope;
  return cuMemcpyHtoD(dstDevice, srcHost, ByteCount);
}
CUresult CUDAAPI cuMemcpyPeerAsync_ptsz(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream) {
  const PerThread scope;
  return cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream);
}
CUresult CUDAAPI cuMemcpyPeer_ptds(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount) {
  const PerThread scope;
  return cuMemcpyPeer(dstDevice, dstContext, srcDevice, srcContext, ByteCount);
}
CUresult CUDAAPI cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  const PerThread scope;
  return cuMemcpy(dst, src, ByteCount);
}
CUresult CUDAAPI cuMemsetD16Async_ptsz(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
  const PerThread scope;
  return cuMemsetD16Async(dstDevice, us, N, hStream);
}
CUresult CUDAAPI cuMemsetD16_v2_ptds(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  const PerThread scope;
  return cuMemsetD16(dstDevice, us, N);
}
CUresult CUDAAPI cuMemsetD2D16Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, CUstream hStream) {
  const PerThread scope;
  return cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, hStream);
}
CUresult CUDAAPI cuMemsetD2D16_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height) {
  const PerThread scope;
  return cuMemsetD2D16(dstDevice, dstPitch, us, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D32Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, CUstream hStream) {
  const PerThread scope;
  return cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, hStream);
}
CUresult CUDAAPI cuMemsetD2D32_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height) {
  const PerThread scope;
  return cuMemsetD2D32(dstDevice, dstPitch, ui, Width, Height);
}
CUresult CUDAAPI cuMemsetD2D8Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream hStream) {
  const PerThread scope;
  return cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, hStream);
}
CUresult CUDAAPI cuMemsetD2D8_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height) {
  const PerThread scope;
  return cuMemsetD2D8(dstDevice, dstPitch, uc, Width, Height);
}
CUresult CUDAAPI cuMemsetD32Async_ptsz(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  const PerThread scope;
  return cuMemsetD32Async(dstDevice, ui, N, hStream);
}
CUresult CUDAAPI cuMemsetD32_v2_ptds(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  const PerThread scope;
  return cuMemsetD32(dstDevice, ui, N);
}
CUresult CUDAAPI cuMemsetD8Async_ptsz(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  const PerThread scope;
  return cuMemsetD8Async(dstDevice, uc, N, hStream);
}
CUresult CUDAAPI cuMemsetD8_v2_ptds(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  const PerThread scope;
  return cuMemsetD8(dstDevice, uc, N);
}
CUresult CUDAAPI cuStreamAddCallback_ptsz(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags) {
  const PerThread scope;
  return cuStreamAddCallback(hStream, callback, userData, flags);
}
CUresult CUDAAPI cuStreamAttachMemAsync_ptsz(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
  const PerThread scope;
  return cuStreamAttachMemAsync(hStream, dptr, length, flags);
}
CUresult CUDAAPI cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags) {
  const PerThread scope;
  return cuStreamBatchMemOp(stream, count, paramArray, flags);
}
CUresult CUDAAPI cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode) {
  const PerThread scope;
  return cuStreamBeginCaptureToGraph(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
}
CUresult CUDAAPI cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode) {
  const PerThread scope;
  return cuStreamBeginCapture(hStream, mode);
}
CUresult CUDAAPI cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src) {
  const PerThread scope;
  return cuStreamCopyAttributes(dst, src);
}
CUresult CUDAAPI cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph) {
  const PerThread scope;
  return cuStreamEndCapture(hStream, phGraph);
}
CUresult CUDAAPI cuStreamGetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out) {
  const PerThread scope;
  return cuStreamGetAttribute(hStream, attr, value_out);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out) {
  const PerThread scope;
  return cuStreamGetCaptureInfo(hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out);
}
CUresult CUDAAPI cuStreamGetCtx_ptsz(CUstream hStream, CUcontext *pctx) {
  const PerThread scope;
  return cuStreamGetCtx(hStream, pctx);
}
CUresult CUDAAPI cuStreamGetDevice_ptsz(CUstream hStream, CUdevice *device) {
  const PerThread scope;
  return cuStreamGetDevice(hStream, device);
}
CUresult CUDAAPI cuStreamGetFlags_ptsz(CUstream hStream, unsigned int *flags) {
  const PerThread scope;
  return cuStreamGetFlags(hStream, flags);
}
CUresult CUDAAPI cuStreamGetId_ptsz(CUstream hStream, unsigned long long *streamId) {
  const PerThread scope;
  return cuStreamGetId(hStream, streamId);
}
CUresult CUDAAPI cuStreamGetPriority_ptsz(CUstream hStream, int *priority) {
  const PerThread scope;
  return cuStreamGetPriority(hStream, priority);
}
CUresult CUDAAPI cuStreamIsCapturing_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus) {
  const PerThread scope;
  return cuStreamIsCapturing(hStream, captureStatus);
}
CUresult CUDAAPI cuStreamQuery_ptsz(CUstream hStream) {
  const PerThread scope;
  return cuStreamQuery(hStream);
}
CUresult CUDAAPI cuStreamSetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value) {
  const PerThread scope;
  return cuStreamSetAttribute(hStream, attr, value);
}
CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream hStream) {
  const PerThread scope;
  return cuStreamSynchronize(hStream);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags) {
  const PerThread scope;
  return cuStreamUpdateCaptureDependencies(hStream, dependencies, dependencyData, numDependencies, flags);
}
CUresult CUDAAPI cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  const PerThread scope;
  return cuStreamWaitEvent(hStream, hEvent, Flags);
}
CUresult CUDAAPI cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  const PerThread scope;
  return cuStreamWaitValue32(stream, addr, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  const PerThread scope;
  return cuStreamWaitValue64(stream, addr, value, flags);
}
CUresult CUDAAPI cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  const PerThread scope;
  return cuStreamWriteValue32(stream, addr, value, flags);
}
CUresult CUDAAPI cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  const PerThread scope;
  return cuStreamWriteValue64(stream, addr, value, flags);
}
