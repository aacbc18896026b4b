// The emulated driver as a program sees it: through its exported functions, with PTX kernels.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "tests/driver/driver_fixture.h"

namespace stitch::driver::test {
namespace {

using testing::HasSubstr;

class EmulatedDriver : public DriverFixture {
 protected:
  void SetUp() override {
    DriverFixture::SetUp();
    ASSERT_CU(CU(cuModuleLoadData)(&module_, kernels));
    ASSERT_CU(CU(cuModuleGetFunction)(&add_one_, module_, "add_one"));
  }

  CUdeviceptr words(unsigned count) {
    CUdeviceptr address = 0;
    EXPECT_CU(CU(cuMemAlloc)(&address, count * 4));
    EXPECT_CU(CU(cuMemsetD32)(address, 0, count));
    return address;
  }
  CUresult add_one(CUdeviceptr address, unsigned count, CUstream stream) {
    void* parameters[] = {&address, &count};
    return CU(cuLaunchKernel)(add_one_, (count + 63) / 64, 1, 1, 64, 1, 1, 0, stream, parameters, nullptr);
  }

  CUmodule module_ = nullptr;
  CUfunction add_one_ = nullptr;
};

TEST_F(EmulatedDriver, SaysThatItIsEmulated) {
  std::array<char, 100> name{};
  ASSERT_CU(CU(cuDeviceGetName)(name.data(), name.size(), 0));
  EXPECT_STREQ(name.data(), "NVIDIA H100-SXM5-80GB (emulated by Stitch)");
  CUuuid uuid{};
  ASSERT_CU(CU(cuDeviceGetUuid)(&uuid, 0));
  EXPECT_EQ(std::string(uuid.bytes, 15), "Stitch-emulated");
  EXPECT_EQ(CU(cuDeviceGet)(nullptr, 1), CUDA_ERROR_INVALID_DEVICE);
  int major = 0;
  ASSERT_CU(CU(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  EXPECT_EQ(major, 9);
}

TEST_F(EmulatedDriver, StreamsAreInOrderAndEventsOrderThem) {
  CUstream first = nullptr, second = nullptr;
  ASSERT_CU(CU(cuStreamCreate)(&first, CU_STREAM_NON_BLOCKING));
  ASSERT_CU(CU(cuStreamCreate)(&second, CU_STREAM_NON_BLOCKING));
  CUevent event = nullptr;
  ASSERT_CU(CU(cuEventCreate)(&event, CU_EVENT_DEFAULT));
  const CUdeviceptr x = words(1000);
  ASSERT_CU(CU(cuCtxSynchronize)());
  for (int i = 0; i < 20; ++i) {
    ASSERT_CU(add_one(x, 1000, first));
    ASSERT_CU(CU(cuEventRecord)(event, first));
    ASSERT_CU(CU(cuStreamWaitEvent)(second, event, 0));
    ASSERT_CU(add_one(x, 1000, second));
    ASSERT_CU(CU(cuEventRecord)(event, second));
    ASSERT_CU(CU(cuStreamWaitEvent)(first, event, 0));
  }
  ASSERT_CU(CU(cuStreamSynchronize)(second));
  EXPECT_EQ(read(x, 1000), std::vector<unsigned>(1000, 40));
  EXPECT_EQ(CU(cuStreamQuery)(first), CUDA_SUCCESS);
  EXPECT_CU(CU(cuMemFree)(x));
}

TEST_F(EmulatedDriver, ElapsedTimesAreNone) {
  CUevent start = nullptr, end = nullptr;
  ASSERT_CU(CU(cuEventCreate)(&start, CU_EVENT_DEFAULT));
  ASSERT_CU(CU(cuEventCreate)(&end, CU_EVENT_DEFAULT));
  float ms = 0;
  EXPECT_EQ(CU(cuEventElapsedTime)(&ms, start, end), CUDA_ERROR_INVALID_HANDLE) << "not recorded";
  ASSERT_CU(CU(cuEventRecord)(start, nullptr));
  ASSERT_CU(CU(cuEventRecord)(end, nullptr));
  ASSERT_CU(CU(cuEventSynchronize)(end));
  ASSERT_CU(CU(cuEventElapsedTime)(&ms, start, end));
  EXPECT_TRUE(std::isnan(ms));
}

TEST_F(EmulatedDriver, AFaultStaysAsItDoesOnAGpu) {
  CUfunction wild = nullptr;
  ASSERT_CU(CU(cuModuleGetFunction)(&wild, module_, "wild"));
  CUdeviceptr x = words(16);
  void* parameters[] = {&x};
  ASSERT_CU(CU(cuLaunchKernel)(wild, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr y = 0;
  EXPECT_EQ(CU(cuMemAlloc)(&y, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUcontext other = nullptr;
  ASSERT_CU(CU(cuCtxCreate)(&other, nullptr, 0, 0)) << "another context is well";
  EXPECT_CU(CU(cuMemAlloc)(&y, 4));
  EXPECT_CU(CU(cuMemFree)(y));
  EXPECT_CU(CU(cuCtxDestroy)(other));
}

TEST_F(EmulatedDriver, GraphsAreCapturedUpdatedAndLaunched) {
  CUstream stream = nullptr, side = nullptr;
  ASSERT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_CU(CU(cuStreamCreate)(&side, CU_STREAM_NON_BLOCKING));
  CUevent fork = nullptr, join = nullptr;
  ASSERT_CU(CU(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING));
  ASSERT_CU(CU(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING));
  const CUdeviceptr x = words(100), y = words(100);
  ASSERT_CU(CU(cuCtxSynchronize)());
  const auto capture = [&](unsigned count) {
    EXPECT_CU(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CU(add_one(x, count, stream));
    EXPECT_CU(CU(cuEventRecord)(fork, stream));
    EXPECT_CU(CU(cuStreamWaitEvent)(side, fork, 0));
    EXPECT_CU(CU(cuMemsetD32Async)(y, 7, 100, side));
    EXPECT_CU(add_one(x, count, stream));
    EXPECT_CU(CU(cuEventRecord)(join, side));
    EXPECT_CU(CU(cuStreamWaitEvent)(stream, join, 0));
    EXPECT_CU(CU(cuMemcpyDtoDAsync)(x, y, 4, stream));
    CUgraph graph = nullptr;
    EXPECT_CU(CU(cuStreamEndCapture)(stream, &graph));
    return graph;
  };
  CUgraph graph = capture(100);
  std::size_t nodes = 0;
  ASSERT_CU(CU(cuGraphGetNodes)(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 4U);
  EXPECT_EQ(read(x, 1).front(), 0U) << "nothing ran";
  CUgraphExec executable = nullptr;
  ASSERT_CU(CU(cuGraphInstantiate)(&executable, graph, 0));
  ASSERT_CU(CU(cuGraphLaunch)(executable, stream));
  ASSERT_CU(CU(cuGraphLaunch)(executable, stream));
  ASSERT_CU(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(read(x, 2), (std::vector<unsigned>{7, 4}));
  CUgraph shorter = capture(1);
  CUgraphExecUpdateResultInfo info{};
  ASSERT_CU(CU(cuGraphExecUpdate)(executable, shorter, &info));
  ASSERT_CU(CU(cuGraphLaunch)(executable, stream));
  ASSERT_CU(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(read(x, 2), (std::vector<unsigned>{7, 4})) << "only the first word is counted now";
  CUgraph other = nullptr;
  ASSERT_CU(CU(cuGraphCreate)(&other, 0));
  EXPECT_EQ(CU(cuGraphExecUpdate)(executable, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  for (CUgraph each : {graph, shorter, other}) EXPECT_CU(CU(cuGraphDestroy)(each));
  EXPECT_CU(CU(cuGraphExecDestroy)(executable));
  EXPECT_CU(CU(cuMemFree)(x));
  EXPECT_CU(CU(cuMemFree)(y));
}

TEST_F(EmulatedDriver, ACaptureThatIsDisturbedSaysSo) {
  CUstream stream = nullptr;
  ASSERT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_DEFAULT));
  CUgraph graph = nullptr;
  ASSERT_CU(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUdeviceptr x = 0;
  EXPECT_EQ(CU(cuMemAlloc)(&x, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(CU(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_CU(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(add_one(0, 1, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(CU(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(CU(cuStreamBeginCapture)(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST_F(EmulatedDriver, LaunchesThatDoNotFitAreRefused) {
  const struct {
    unsigned grid, block, shared;
    CUresult result;
    const char* why;
  } cases[] = {
      {1, 2048, 0, CUDA_ERROR_INVALID_VALUE, "a block of 2048 x 1 x 1 threads"},
      {0, 32, 0, CUDA_ERROR_INVALID_VALUE, "a dimension of the launch is 0"},
      {1, 32, 100'000, CUDA_ERROR_INVALID_VALUE, "100000 bytes of dynamic shared memory; allowed are 49152"},
  };
  CUdeviceptr x = words(1);
  unsigned count = 1;
  void* parameters[] = {&x, &count};
  for (const auto& each : cases) {
    EXPECT_EQ(
        CU(cuLaunchKernel)(add_one_, each.grid, 1, 1, each.block, 1, 1, each.shared, nullptr, parameters, nullptr),
        each.result);
    EXPECT_THAT(log(), HasSubstr(each.why));
  }
  int resident = 0;
  ASSERT_CU(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&resident, add_one_, 1024, 0));
  EXPECT_EQ(resident, 2);
  EXPECT_CU(CU(cuLaunchCooperativeKernel)(add_one_, 2 * 132, 1, 1, 1024, 1, 1, 0, nullptr, parameters));
  EXPECT_EQ(CU(cuLaunchCooperativeKernel)(add_one_, 2 * 132 + 1, 1, 1, 1024, 1, 1, 0, nullptr, parameters),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  EXPECT_THAT(log(), HasSubstr("a cooperative launch of 265 blocks, of which 264 can be resident"));
  std::size_t size = 8;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &x, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  EXPECT_EQ(CU(cuLaunchKernel)(add_one_, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(log(), HasSubstr("kernel add_one takes 12 bytes of parameters, and gets 8"));
  EXPECT_CU(CU(cuMemFree)(x));
}

TEST_F(EmulatedDriver, VariablesAreAModulesOwn) {
  CUmodule again = nullptr;
  ASSERT_CU(CU(cuModuleLoadData)(&again, kernels));
  CUfunction bump = nullptr;
  ASSERT_CU(CU(cuModuleGetFunction)(&bump, module_, "bump"));
  ASSERT_CU(CU(cuLaunchKernel)(bump, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  ASSERT_CU(CU(cuCtxSynchronize)());
  CUdeviceptr first = 0, second = 0;
  std::size_t bytes = 0;
  ASSERT_CU(CU(cuModuleGetGlobal)(&first, &bytes, module_, "counter"));
  ASSERT_CU(CU(cuModuleGetGlobal)(&second, nullptr, again, "counter"));
  EXPECT_EQ(bytes, 4U);
  EXPECT_EQ(read(first, 1).front(), 6U);
  EXPECT_EQ(read(second, 1).front(), 5U);
  EXPECT_EQ(CU(cuModuleGetGlobal)(&first, nullptr, module_, "nothing"), CUDA_ERROR_NOT_FOUND);
  ASSERT_CU(CU(cuModuleUnload)(again));
  EXPECT_EQ(CU(cuModuleUnload)(again), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(EmulatedDriver, ImagesThatItCannotRunAreNamed) {
  CUmodule module = nullptr;
  const std::array<unsigned char, 64> elf = {0x7F, 'E', 'L', 'F'};
  EXPECT_EQ(CU(cuModuleLoadData)(&module, elf.data()), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_THAT(log(), HasSubstr("an emulated device needs PTX"));
  EXPECT_EQ(CU(cuModuleLoadData)(&module, "rubbish"), CUDA_ERROR_INVALID_IMAGE);
  std::array<char, 400> errors{};
  std::array options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values = {errors.data(), reinterpret_cast<void*>(errors.size())};
  EXPECT_EQ(CU(cuModuleLoadDataEx)(&module, ".version 8.0\n.target sm_80\n.visible .entry k( {\n", options.size(),
                                   options.data(), values.data()),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(errors.data(), HasSubstr("PTX line 3"));
  EXPECT_EQ(CU(cuModuleLoadData)(&module, ".version 9.0\n.target sm_100a\n.address_size 64\n"),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(CU(cuModuleGetFunction)(&add_one_, module_, "nothing"), CUDA_ERROR_NOT_FOUND);
}

TEST_F(EmulatedDriver, HostAndManagedMemoryAreSeenByKernels) {
  unsigned* pinned = nullptr;
  CUdeviceptr managed = 0;
  void* raw = nullptr;
  ASSERT_CU(CU(cuMemHostAlloc)(&raw, 64, 0));
  pinned = static_cast<unsigned*>(raw);
  ASSERT_CU(CU(cuMemAllocManaged)(&managed, 64, CU_MEM_ATTACH_GLOBAL));
  auto* shared = reinterpret_cast<unsigned*>(managed);
  std::vector<unsigned> own(16, 30);
  ASSERT_CU(CU(cuMemHostRegister)(own.data(), 64, 0));
  for (unsigned i = 0; i < 16; ++i) {
    pinned[i] = 10;
    shared[i] = 20;
  }
  for (const CUdeviceptr address :
       {reinterpret_cast<CUdeviceptr>(pinned), managed, reinterpret_cast<CUdeviceptr>(own.data())}) {
    ASSERT_CU(add_one(address, 16, nullptr));
  }
  ASSERT_CU(CU(cuCtxSynchronize)());
  EXPECT_EQ(pinned[15], 11U);
  EXPECT_EQ(shared[0], 21U);
  EXPECT_EQ(own[7], 31U);
  CUmemorytype type{};
  ASSERT_CU(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(pinned)));
  EXPECT_EQ(type, CU_MEMORYTYPE_HOST);
  EXPECT_CU(CU(cuMemHostUnregister)(own.data()));
  EXPECT_EQ(CU(cuMemHostUnregister)(own.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_CU(CU(cuMemFreeHost)(pinned));
  EXPECT_CU(CU(cuMemFree)(managed));
}

TEST_F(EmulatedDriver, CopiesOfPlanesAndVolumes) {
  std::vector<unsigned char> from(60), to(60, 0xFF);
  std::iota(from.begin(), from.end(), static_cast<unsigned char>(0));
  CUdeviceptr plane = 0;
  std::size_t pitch = 0;
  ASSERT_CU(CU(cuMemAllocPitch)(&plane, &pitch, 10, 6, 4));
  CUDA_MEMCPY2D in{};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = from.data();
  in.srcPitch = 10;
  in.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  in.dstDevice = plane;
  in.dstPitch = pitch;
  in.WidthInBytes = 10;
  in.Height = 6;
  ASSERT_CU(CU(cuMemcpy2D)(&in));
  CUDA_MEMCPY2D out{};
  out.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  out.srcDevice = plane;
  out.srcPitch = pitch;
  out.srcY = 1;
  out.srcXInBytes = 2;
  out.dstMemoryType = CU_MEMORYTYPE_HOST;
  out.dstHost = to.data();
  out.dstPitch = 10;
  out.WidthInBytes = 8;
  out.Height = 5;
  ASSERT_CU(CU(cuMemcpy2D)(&out));
  EXPECT_EQ(to[0], 12);
  EXPECT_EQ(to[47], 59);
  EXPECT_EQ(to[8], 0xFF);
  out.Height = 6;
  EXPECT_EQ(CU(cuMemcpy2D)(&out), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(log(), HasSubstr("a copy reads "));
  EXPECT_CU(CU(cuMemFree)(plane));
}

TEST_F(EmulatedDriver, FunctionsAreFoundByNameAndVersion) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  ASSERT_CU(CU(cuGetProcAddress)("cuMemAlloc", &found, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  EXPECT_EQ(found, reinterpret_cast<void*>(CU(cuMemAlloc)));
  ASSERT_CU(CU(cuGetProcAddress)("cuNothing", &found, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  ASSERT_CU(CU(cuGetProcAddress)("cuLibraryLoadData", &found, 11000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CUarray array = nullptr;
  EXPECT_EQ(CU(cuArrayCreate)(&array, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(log(), HasSubstr("the emulated driver has no cuArrayCreate_v2"));
}

TEST_F(EmulatedDriver, TellsWhatItIsAskedFor) {
  using Counts = std::array<std::uint64_t, 3>;  // calls, waits, allocations
  auto asked = [last = Counts{}]() mutable {
    Counts now{}, since{};
    entry_of<void(std::uint64_t*, std::uint64_t*, std::uint64_t*)>("stitch_emulated_calls")(&now[0], &now[1], &now[2]);
    for (int i = 0; i < 3; ++i) since[i] = now[i] - last[i];
    --since[0];
    last = now;
    return since;
  };
  CUstream stream = nullptr;
  ASSERT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  asked();
  CUdeviceptr x = 0;
  ASSERT_CU(CU(cuMemAlloc)(&x, 400));
  EXPECT_EQ(asked(), (Counts{1, 0, 1}));
  ASSERT_CU(CU(cuMemsetD32Async)(x, 0, 100, stream));
  ASSERT_CU(add_one(x, 100, stream));
  EXPECT_EQ(asked(), (Counts{2, 0, 0}));
  ASSERT_CU(CU(cuStreamSynchronize)(stream));
  ASSERT_CU(CU(cuStreamSynchronize)(stream));  // there is nothing left to wait for
  EXPECT_EQ(asked(), (Counts{2, 2, 0}));
  EXPECT_EQ(read(x, 1).front(), 1U);
  EXPECT_EQ(asked(), (Counts{1, 1, 0}));
}

TEST_F(EmulatedDriver, HostFunctionsRunInOrderAndMustNotCallTheDriver) {
  struct State {
    CUresult inside = CUDA_SUCCESS;
    int calls = 0;
  } state;
  ASSERT_CU(CU(cuLaunchHostFunc)(
      nullptr,
      [](void* data) {
        auto* seen = static_cast<State*>(data);
        CUdeviceptr address = 0;
        seen->inside = CU(cuMemAlloc)(&address, 4);
        ++seen->calls;
      },
      &state));
  ASSERT_CU(CU(cuStreamSynchronize)(nullptr));
  EXPECT_EQ(state.calls, 1);
  EXPECT_EQ(state.inside, CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(EmulatedDriver, AStreamWaitsForAWordOfMemory) {
  void* raw = nullptr;
  ASSERT_CU(CU(cuMemHostAlloc)(&raw, 64, 0));
  auto* flag = static_cast<volatile unsigned*>(raw);
  CUstream stream = nullptr;
  ASSERT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr x = words(4);
  ASSERT_CU(CU(cuCtxSynchronize)());
  ASSERT_CU(CU(cuStreamWaitValue32)(stream, reinterpret_cast<CUdeviceptr>(raw), 3, CU_STREAM_WAIT_VALUE_EQ));
  ASSERT_CU(add_one(x, 4, stream));
  EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
  *flag = 3;
  ASSERT_CU(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(read(x, 4), std::vector<unsigned>(4, 1));
  EXPECT_CU(CU(cuMemFree)(x));
  EXPECT_CU(CU(cuMemFreeHost)(raw));
}

}  // namespace
}  // namespace stitch::driver::test
