// fragment 0, kernel 0: 245 blocks of 256 threads, 32 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// partial sum of %1
__device__ __forceinline__ void group_0_0(const f32* __restrict__ in0, f32* __restrict__ scratch0, const int tile, unsigned char* const shared) {
  // axes  i: 1000003 = vector 4, lane 32, warp 8, register 4, grid 245
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i0 = (i_lane + 32 * i_warp) * 4 + i_grid * 4096;
  f32 sum0 = 0.0f;

  // sweep 0: reduce 1
  f32 in0_0[4][4];
#pragma unroll
  for (int i_r = 0; i_r < 4; ++i_r) {
    const int i = i0 + i_r * 1024;
    if (i < 1000003) {
      load_tail<4, Cached::streamed>(in0_0[i_r], in0 + i, 1000003 - i);
    }
  }
#pragma unroll
  for (int i_r = 0; i_r < 4; ++i_r) {
    const int i = i0 + i_r * 1024;
    if (i < 1000003) {
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        if ((i + v) < 1000003) sum0 += in0_0[i_r][v];
      }
    }
  }

  // partial results of this tile
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);
  f32* const partial0 = reinterpret_cast<f32*>(shared);
  if (i_lane == 0) {
    partial0[0 * 8 + i_warp] = sum0;
  }
  __syncthreads();
  sum0 = reduce_shared<Sum, 8, 1>(partial0 + (0) * 8);
  if (i_lane == 0 && i_warp == 0) {
    scratch0[i_grid * 1 + 0] = sum0;
  }
}

// sum of %1
__device__ __forceinline__ void group_1_0(f32* __restrict__ scratch0, f32* __restrict__ out0, const int tile, unsigned char* const shared) {
  // axes  i: 245 = vector 4, lane 32, register 2
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i0 = i_lane * 4;
  const bool active = threadIdx.x < 32;

  // sweep 0: reduce 1
  f32 sum0 = 0.0f;
  {
    f32 scratch0_0[2][4];
    #pragma unroll
    for (int i_r = 0; i_r < 2; ++i_r) {
      const int i = i0 + i_r * 128;
      if (i < 245 && active) {
        load_tail<4, Cached::shared_between_blocks>(scratch0_0[i_r], scratch0 + i, 245 - i);
      }
    }
    #pragma unroll
    for (int i_r = 0; i_r < 2; ++i_r) {
      const int i = i0 + i_r * 128;
      if (i < 245 && active) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          if ((i + v) < 245) sum0 += scratch0_0[i_r][v];
        }
      }
    }
  }
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);

  // sweep 1: store 1
  {
    if (active) {
      if (i_lane == 0) {
        out0[0] = sum0;
      }
    }
  }
}

}  // namespace

struct Table {
  u64 words[5];
};

extern "C" __global__ void __launch_bounds__(256, 2)
stitch_7738bfa20864(const __grid_constant__ Table table) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto none = await_predecessor();
  u32* const counters = reinterpret_cast<u32*>(table.words[0]);
  {
    const int tile = static_cast<int>(blockIdx.x);
    const u64* const row = table.words + 1;
    group_0_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile, shared);
  }

  // what follows is for the block that arrives last
  if (!arrives_last(counters + 0, gridDim.x)) return;
  {
    const int tile = 0;
    const u64* const row = table.words + 3;
    group_1_0(reinterpret_cast<f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile, shared);
  }
}
