// fragment 0, kernel 0: 500 blocks of 128 threads, 2096 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// scatter of %4
extern "C" __global__ void __launch_bounds__(128, 4)
stitch_9abe76edd9bc(const s32* __restrict__ in0, const f32* __restrict__ in1, f32* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 1000 = warp 4, grid 250; j: 64 = lane 32, grid 2; k: 256 = loop 256
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_grid = tile % 2;
  const int i_grid = tile / 2;
  const int i = i_warp + i_grid * 4;
  const int j = j_lane + j_grid * 32;
  const int k0 = 0;
  await_predecessor(in0, in1, out0);

  // sum of 256 updates per element, listed by the block, 256 at a time
  f32 total;
  total = static_cast<f32>(0.0f);
  int2* const list = reinterpret_cast<int2*>(shared);
  int* const found = reinterpret_cast<int*>(list + 256);
  int2* const ranges = reinterpret_cast<int2*>(found + 4);
  const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
  int lowest = 0x7fffffff, highest = -1;
  lowest = min(lowest, static_cast<int>(i));
  highest = max(highest, static_cast<int>(min(i, 999)));
  if (lane == 0) ranges[part] = make_int2(lowest, highest);
  __syncthreads();
  if (lane < 4) {
    lowest = ranges[lane].x;
    highest = ranges[lane].y;
  }
  lowest = lowest_of_warp(lowest);
  highest = highest_of_warp(highest);
  for (int first = 0; first < 256; first += 256) {
    unsigned own = 0;
    int count = 0;
    #pragma unroll 4
    for (int turn = 0; turn < 2; ++turn) {
      const int at = first + part * 64 + turn * 32 + lane;
      const int k = min(at, 255);
      const s32 in0_1 = load_one<Cached::streamed>(&in0[k]);
      const auto goes_to = in0_1;
      const bool here = at < 256 && goes_to >= lowest && goes_to <= highest;
      const unsigned all = __ballot_sync(0xffffffffu, here);
      own = lane == turn ? all : own;
      count += __popc(all);
    }
    if (lane == 0) found[part] = count;
    __syncthreads();
    int listed = lane < 4 ? found[lane] : 0, to = lane < part ? listed : 0;
    #pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      listed += __shfl_xor_sync(0xffffffffu, listed, step);
      to += __shfl_xor_sync(0xffffffffu, to, step);
    }
    for (int turn = 0; turn < 2; ++turn) {
      const unsigned all = __shfl_sync(0xffffffffu, own, turn);
      if (all >> lane & 1) {
        const int at = first + part * 64 + turn * 32 + lane;
        const int k = min(at, 255);
        const s32 in0_1 = load_one<Cached::streamed>(&in0[k]);
        const auto goes_to = in0_1;
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
        const f32 in1_7 = load_one<Cached::streamed>(&in1[(j + k * 64)]);
        total = Sum::combine(total, static_cast<f32>(in1_7));
      }
    }
  }
  out0[(i * 64 + j)] = narrow<f32>(static_cast<f32>(total));
}
