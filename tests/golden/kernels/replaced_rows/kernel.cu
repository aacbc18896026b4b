// fragment 0, kernel 0: 512 blocks of 256 threads, 8288 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// scatter of %3
extern "C" __global__ void __launch_bounds__(256, 4)
stitch_ac28b976a2af(const f32* __restrict__ in0, const s32* __restrict__ in1, const f32* __restrict__ in2, f32* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 4096 = warp 8, grid 512; j: 64 = lane 32, register 2; k: 1024 = loop 1024
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = i_warp + i_grid * 8;
  const int j0 = j_lane;
  const int k0 = 0;
  await_predecessor(in0, in1, in2, out0);

  // the last of 1024 updates per element, listed by the block, 1024 at a time
  f32 total[2];
#pragma unroll
  for (int j_r = 0; j_r < 2; ++j_r) {
    const int j = j0 + j_r * 32;
    const f32 in0_0 = load_one<Cached::streamed>(&in0[(i * 64 + j)]);
    total[j_r] = static_cast<f32>(in0_0);
  }
  int2* const list = reinterpret_cast<int2*>(shared);
  int* const found = reinterpret_cast<int*>(list + 1024);
  int2* const ranges = reinterpret_cast<int2*>(found + 8);
  const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
  int lowest = 0x7fffffff, highest = -1;
  lowest = min(lowest, static_cast<int>(i));
  highest = max(highest, static_cast<int>(min(i, 4095)));
  if (lane == 0) ranges[part] = make_int2(lowest, highest);
  __syncthreads();
  if (lane < 8) {
    lowest = ranges[lane].x;
    highest = ranges[lane].y;
  }
  lowest = lowest_of_warp(lowest);
  highest = highest_of_warp(highest);
  for (int first = 0; first < 1024; first += 1024) {
    unsigned own = 0;
    int count = 0;
    #pragma unroll 4
    for (int turn = 0; turn < 4; ++turn) {
      const int at = first + part * 128 + turn * 32 + lane;
      const int k = min(at, 1023);
      const s32 in1_1 = load_one<Cached::streamed>(&in1[k]);
      const auto goes_to = in1_1;
      const bool here = at < 1024 && goes_to >= lowest && goes_to <= highest;
      const unsigned all = __ballot_sync(0xffffffffu, here);
      own = lane == turn ? all : own;
      count += __popc(all);
    }
    if (lane == 0) found[part] = count;
    __syncthreads();
    int listed = lane < 8 ? found[lane] : 0, to = lane < part ? listed : 0;
    #pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      listed += __shfl_xor_sync(0xffffffffu, listed, step);
      to += __shfl_xor_sync(0xffffffffu, to, step);
    }
    for (int turn = 0; turn < 4; ++turn) {
      const unsigned all = __shfl_sync(0xffffffffu, own, turn);
      if (all >> lane & 1) {
        const int at = first + part * 128 + turn * 32 + lane;
        const int k = min(at, 1023);
        const s32 in1_1 = load_one<Cached::streamed>(&in1[k]);
        const auto goes_to = in1_1;
        list[to + __popc(all & ((1u << lane) - 1))] = make_int2(at, static_cast<int>(goes_to));
      }
      to += __popc(all);
    }
    __syncthreads();
    for (int start = 0; start < listed; start += 32) {
      const int2 entry = start + lane < listed ? list[start + lane] : make_int2(0, -1);
      unsigned hits = __ballot_sync(0xffffffffu, entry.y == i);
      const int count = __popc(hits);
      #pragma unroll 4
      for (int turn = 0; turn < count; ++turn, hits &= hits - 1) {
        const int k = __shfl_sync(0xffffffffu, entry.x, __ffs(static_cast<int>(hits)) - 1);
        #pragma unroll
        for (int j_r = 0; j_r < 2; ++j_r) {
          const int j = j0 + j_r * 32;
          const f32 in2_7 = load_one<Cached::streamed>(&in2[(j + k * 64)]);
          total[j_r] = static_cast<f32>(in2_7);
        }
      }
    }
  }
#pragma unroll
  for (int j_r = 0; j_r < 2; ++j_r) {
    const int j = j0 + j_r * 32;
    out0[(i * 64 + j)] = narrow<f32>(static_cast<f32>(total[j_r]));
  }
}
