// Launches that need more of the driver than their arguments: its words for cooperative groups, a host that answers.
#include <gmock/gmock.h>

#include <atomic>
#include <span>
#include <thread>

#include "tests/driver/driver_fixture.h"

namespace stitch::driver::test {
namespace {

class DriverLaunch : public DriverFixture {};

/// wait(flag, out): spins until the host has set *flag, then stores it.
constexpr const char* waiting = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry wait(.param .u64 flag, .param .u64 out) {
  .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [flag]; ld.param.u64 %rd2, [out];
again:
  ld.relaxed.sys.global.u32 %r1, [%rd1];
  setp.ne.u32 %p1, %r1, 0; @%p1 bra done;
  nanosleep.u32 1000; bra again;
done:
  st.global.u32 [%rd2], %r1; ret;
}
)";

TEST_F(DriverLaunch, KernelsWaitForWordsThatTheHostWrites) {
  const CUfunction wait = kernel(waiting, "wait");
  void* host = nullptr;
  ASSERT_CU(CU(cuMemHostAlloc)(&host, 8, CU_MEMHOSTALLOC_DEVICEMAP));
  auto* words = static_cast<std::atomic<unsigned>*>(host);
  words[0] = 0;
  auto flag = reinterpret_cast<CUdeviceptr>(host);
  CUdeviceptr out = flag + 4;
  void* parameters[] = {&flag, &out};
  CUstream stream = nullptr;
  ASSERT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_CU(CU(cuLaunchKernel)(wait, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
  // The kernel spins, and memory is had all the same.
  CUdeviceptr other = 0;
  ASSERT_CU(CU(cuMemAlloc)(&other, 1024));
  EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
  words[0] = 7;
  ASSERT_CU(CU(cuStreamSynchronize)(stream)) << log();
  EXPECT_EQ(words[1].load(), 7);
  EXPECT_CU(CU(cuMemFree)(other));
  EXPECT_CU(CU(cuMemFreeHost)(host));
}

TEST_F(DriverLaunch, ASpinOnTheDevicesMemoryIsADeadlock) {
  const CUfunction wait = kernel(waiting, "wait");
  CUdeviceptr flag = 0;
  ASSERT_CU(CU(cuMemAlloc)(&flag, 8));
  ASSERT_CU(CU(cuMemsetD32)(flag, 0, 2));
  CUdeviceptr out = flag + 4;
  void* parameters[] = {&flag, &out};
  ASSERT_CU(CU(cuLaunchKernel)(wait, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_LAUNCH_TIMEOUT);
}

/// What cooperative_groups' grid barrier does (cooperative_groups/details/sync.h): the driver's words name a workspace,
/// whose second word is the barrier. Every block stores its number + 1, then block 0 adds all up.
constexpr const char* grid_barrier = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry sum(.param .u64 parts, .param .u64 out) {
  .reg .pred %p<5>; .reg .b32 %r<20>; .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [parts]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2;
  cvt.u64.u32 %rd3, %r1; shl.b64 %rd3, %rd3, 32; cvt.u64.u32 %rd4, %r2; or.b64 %rd5, %rd3, %rd4;
  setp.eq.u64 %p1, %rd5, 0; @%p1 bra none;
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %nctaid.x; add.u32 %r5, %r3, 1;
  mul.wide.u32 %rd6, %r3, 4; add.s64 %rd7, %rd1, %rd6; st.global.u32 [%rd7], %r5;
  mov.u32 %r6, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra arrive;
  mov.u32 %r7, 0x80000001; sub.u32 %r6, %r7, %r4;
arrive:
  atom.add.release.gpu.global.u32 %r8, [%rd5+4], %r6;
wait:
  ld.acquire.gpu.global.u32 %r9, [%rd5+4]; xor.b32 %r10, %r8, %r9; and.b32 %r10, %r10, 0x80000000;
  setp.eq.u32 %p3, %r10, 0; @%p3 bra wait;
  @%p2 bra done;
  mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u64 %rd8, %rd1;
more:
  ld.global.u32 %r13, [%rd8]; add.u32 %r11, %r11, %r13; add.s64 %rd8, %rd8, 4; add.u32 %r12, %r12, 1;
  setp.lt.u32 %p4, %r12, %r4; @%p4 bra more;
  st.global.u32 [%rd2], %r11;
  bra done;
none:
  mov.u32 %r14, 99; st.global.u32 [%rd2], %r14;
done:
  ret;
}
)";

TEST_F(DriverLaunch, CooperativeLaunchesHaveABarrierOfTheGrid) {
  const CUfunction sum = kernel(grid_barrier, "sum");
  CUdeviceptr parts = 0, out = 0;
  constexpr unsigned blocks = 40;
  ASSERT_CU(CU(cuMemAlloc)(&parts, blocks * 4));
  ASSERT_CU(CU(cuMemAlloc)(&out, 4));
  void* parameters[] = {&parts, &out};
  for (int launch = 0; launch < 3; ++launch) {
    ASSERT_CU(CU(cuLaunchCooperativeKernel)(sum, blocks, 1, 1, 1, 1, 1, 0, nullptr, parameters));
    ASSERT_CU(CU(cuCtxSynchronize)()) << log();
    EXPECT_EQ(read(out, 1)[0], blocks * (blocks + 1) / 2);
  }
  EXPECT_EQ(log(), "");
  // Others have no workspace, and cooperative_groups says that their grid is no group.
  ASSERT_CU(CU(cuLaunchKernel)(sum, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_EQ(read(out, 1)[0], 99);
  EXPECT_CU(CU(cuMemFree)(parts));
  EXPECT_CU(CU(cuMemFree)(out));
}

/// load(map, out): a tile of 4 x 4 words at (2, 1) by cp.async.bulk.tensor, one word per thread stored.
constexpr const char* tensor_load = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry load(.param .align 64 .b8 map[128], .param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<10>; .reg .b64 %rd<6>;
  .shared .align 128 .b8 tile[64]; .shared .align 8 .b64 done;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile; mov.u32 %r3, done;
  setp.ne.u32 %p1, %r1, 0; @%p1 bra wait;
  mbarrier.init.shared.b64 [%r3], 1; fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r3], 64;
  mov.b64 %rd3, map; cvta.param.u64 %rd3, %rd3;
  mov.u32 %r4, 2; mov.u32 %r5, 1;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd3, {%r4, %r5}], [%r3];
wait:
  bar.sync 0;
again:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra again;
  shl.b32 %r6, %r1, 2; add.u32 %r7, %r2, %r6; ld.shared.u32 %r8, [%r7];
  cvt.u64.u32 %rd4, %r6; add.s64 %rd5, %rd1, %rd4; st.global.u32 [%rd5], %r8; ret;
}
)";

TEST_F(DriverLaunch, TensorMapsAreEncodedAndTaken) {
  constexpr unsigned columns = 8, rows = 4;
  std::vector<unsigned> values(columns * rows);
  for (unsigned i = 0; i < values.size(); ++i) values[i] = 100 + i;
  CUdeviceptr tensor = 0, out = 0;
  ASSERT_CU(CU(cuMemAlloc)(&tensor, values.size() * 4));
  ASSERT_CU(CU(cuMemAlloc)(&out, 64));
  ASSERT_CU(CU(cuMemcpyHtoD)(tensor, values.data(), values.size() * 4));
  CUtensorMap map;
  const cuuint64_t sizes[] = {columns, rows}, strides[] = {columns * 4};
  const cuuint32_t box[] = {4, 4}, steps[] = {1, 1};
  const auto encode = [&](CUdeviceptr at, const cuuint64_t* pitch, CUtensorMapFloatOOBfill fill) {
    return CU(cuTensorMapEncodeTiled)(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, reinterpret_cast<void*>(at), sizes,
                                      pitch, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                      CU_TENSOR_MAP_L2_PROMOTION_NONE, fill);
  };
  const cuuint64_t odd[] = {20};
  EXPECT_EQ(encode(tensor, odd, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(log(), testing::HasSubstr("stride 20 of dimension 1 is no multiple of 16"));
  EXPECT_EQ(encode(tensor, strides, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(tensor + 4, strides, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE), CUDA_ERROR_INVALID_VALUE);
  ASSERT_CU(encode(tensor + 1024, strides, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  ASSERT_CU(CU(cuTensorMapReplaceAddress)(&map, reinterpret_cast<void*>(tensor)));
  log();
  void* parameters[] = {&map, &out};
  ASSERT_CU(CU(cuLaunchKernel)(kernel(tensor_load, "load"), 1, 1, 1, 16, 1, 1, 0, nullptr, parameters, nullptr));
  ASSERT_CU(CU(cuCtxSynchronize)()) << log();
  const auto got = read(out, 16);
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned column = 2 + i % 4, row = 1 + i / 4;
    EXPECT_EQ(got[i], row < rows ? 100 + row * columns + column : 0) << i;
  }
  EXPECT_EQ(log(), "");
  EXPECT_CU(CU(cuMemFree)(tensor));
  EXPECT_CU(CU(cuMemFree)(out));
}

}  // namespace
}  // namespace stitch::driver::test
