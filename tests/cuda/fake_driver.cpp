// A CUDA driver for a machine without a GPU: device memory is host memory, a launch writes down what it was given, and
// a kernel named "copy" copies its first argument's bytes to its second's. Built as a library of its own and loaded
// like the real one; the test reads its log through stitch_fake_log. It has three devices: one that tells nothing but
// its compute capability, an H100 SXM5 of an OEM, and an A100 with 80 GB.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string& log() {
  static std::string text;
  return text;
}
int& current() {
  static int depth = 0;
  return depth;
}
struct Function {
  std::string name;
};
/// What the devices report, by device; as deviceQuery prints it of the real ones.
int reported(CUdevice_attribute attribute, CUdevice device) {
  struct Row {
    CUdevice_attribute attribute;
    int values[3];
  };
  constexpr Row rows[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, {9, 9, 8}},
                          {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, {0, 0, 0}},
                          {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, {0, 132, 108}},
                          {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, {0, 52428800, 41943040}},
                          {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, {0, 233472, 167936}},
                          {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, {0, 232448, 166912}},
                          {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, {0, 2048, 2048}},
                          {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, {0, 32, 32}},
                          {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, {0, 2619000, 1593000}},
                          {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, {0, 5120, 5120}}};
  for (const Row& row : rows) {
    if (row.attribute == attribute) return row.values[device];
  }
  return 0;
}
void note(const char* format, auto... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  log() += line;
  log() += '\n';
}

}  // namespace

extern "C" {

const char* stitch_fake_log() { return log().c_str(); }
void stitch_fake_clear() { log().clear(); }

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_OTHER";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "as the test wanted";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  *value = reported(attribute, device);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int bytes, CUdevice) {
  std::snprintf(name, bytes, "ACME Accelerator");
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(&current());
  note("retain");
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  note("release");
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext) {
  ++current();
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext*) {
  --current();
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  *stream = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
CUresult cuEventCreate(CUevent* event, unsigned) {
  *event = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent, CUstream) { return CUDA_SUCCESS; }
#undef cuEventElapsedTime  // the first version
CUresult cuEventElapsedTime(float* milliseconds, CUevent, CUevent) {
  *milliseconds = 0;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (current() != 1) return CUDA_ERROR_INVALID_CONTEXT;
  if (std::strncmp(static_cast<const char*>(image), "other", 5) == 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  *module = reinterpret_cast<CUmodule>(new Function);
  note("load %s", static_cast<const char*>(image));
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
  delete reinterpret_cast<Function*>(module);
  note("unload");
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  reinterpret_cast<Function*>(module)->name = name;
  *function = reinterpret_cast<CUfunction>(module);
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int value) {
  note("shared %d", value);
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void**) {
  if (current() != 1) return CUDA_ERROR_INVALID_CONTEXT;
  note("launch %s grid %u block %u shared %u stream %p", reinterpret_cast<Function*>(function)->name.c_str(),
       config->gridDimX, config->blockDimX, config->sharedMemBytes, static_cast<void*>(config->hStream));
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) note("cluster %u", attribute.value.clusterDim.x);
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) note("cooperative %d", attribute.value.cooperative);
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      note("dependent %d", attribute.value.programmaticStreamSerializationAllowed);
  }
  const auto value = [&](int i) { return *static_cast<const unsigned long long*>(arguments[i]); };
  if (reinterpret_cast<Function*>(function)->name == "copy") {
    std::memcpy(reinterpret_cast<void*>(value(1)), reinterpret_cast<const void*>(value(0)), value(3));
    note("workspace starts with %d", *reinterpret_cast<const char*>(value(2)));
  }
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  *address = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  std::memset(reinterpret_cast<void*>(*address), 0x55, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  std::free(reinterpret_cast<void*>(address));
  note("free");
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream) {
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t bytes) {
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return CUDA_SUCCESS;
}

}  // extern "C"
