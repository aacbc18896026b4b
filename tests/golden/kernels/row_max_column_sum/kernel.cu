// fragment 0, kernel 0: 132 blocks of 1024 threads, 16896 bytes of dynamic shared memory, cooperative

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// partial max of %1, partial sum of %2
__device__ __forceinline__ void group_0_0(const f32* __restrict__ in0, f32* __restrict__ scratch0, f32* __restrict__ scratch1, const int tile, unsigned char* const shared) {
  // axes  i: 4096 = warp 16, register 4, grid 64; j: 1024 = vector 4, lane 32, warp 2, grid 4
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int j_warp = static_cast<int>(threadIdx.x) / 32 % 2;
  const int i_warp = static_cast<int>(threadIdx.x) / 64;
  const int j_grid = tile % 4;
  const int i_grid = tile / 4;
  const int i0 = i_warp + i_grid * 64;
  const int j = (j_lane + 32 * j_warp) * 4 + j_grid * 256;
  f32 max0[4];
#pragma unroll
  for (int i_r = 0; i_r < 4; ++i_r) {
    max0[i_r] = __int_as_float(0xff800000);
  }
  f32 sum1[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = 0.0f;
  }

  // sweep 0: reduce 1, reduce 2
  f32 in0_0[4][4];
#pragma unroll
  for (int i_r = 0; i_r < 4; ++i_r) {
    const int i = i0 + i_r * 16;
    load<4, Cached::streamed>(in0_0[i_r], in0 + (i * 1024 + j));
  }
#pragma unroll
  for (int i_r = 0; i_r < 4; ++i_r) {
    const int i = i0 + i_r * 16;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      max0[i_r] = Max::combine(max0[i_r], in0_0[i_r][v]);
      sum1[v] += in0_0[i_r][v];
    }
  }

  // partial results of this tile
#pragma unroll
  for (int i_r = 0; i_r < 4; ++i_r) {
    max0[i_r] = reduce_lanes<Max, 16, 8, 4, 2, 1>(max0[i_r]);
  }
  f32* const partial0 = reinterpret_cast<f32*>(shared);
  f32* const partial1 = reinterpret_cast<f32*>(shared + 512);
  if (j_lane == 0) {
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      partial0[j_warp * 64 + i_warp + i_r * 16] = max0[i_r];
    }
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    partial1[i_warp * 256 + (j_lane + 32 * j_warp) * 4 + v] = sum1[v];
  }
  __syncthreads();
#pragma unroll
  for (int i_r = 0; i_r < 4; ++i_r) {
    max0[i_r] = reduce_shared<Max, 2, 64>(partial0 + i_warp + i_r * 16);
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = reduce_shared<Sum, 16, 256>(partial1 + (j_lane + 32 * j_warp) * 4 + v);
  }
  if (j_lane == 0 && j_warp == 0) {
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 16;
      scratch0[j_grid * 4096 + i] = max0[i_r];
    }
  }
  if (i_warp == 0) {
    #pragma unroll
    for (int v = 0; v < 4; v += 4) {
      store<4>(scratch1 + i_grid * 1024 + (j + v), &sum1[v]);
    }
  }
}

// max of %1
__device__ __forceinline__ void group_1_0(f32* __restrict__ scratch0, f32* __restrict__ out0, const int tile, unsigned char* const shared) {
  // axes  i: 4 = lane 4; j: 4096 = vector 4, lane 8, warp 32, grid 4
  const int j_lane = static_cast<int>(threadIdx.x) % 8;
  const int i_lane = static_cast<int>(threadIdx.x) / 8 % 4;
  const int j_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_grid = tile;
  const int i = i_lane;
  const int j = (j_lane + 8 * j_warp) * 4 + j_grid * 1024;

  // sweep 0: reduce 1
  f32 max0[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    max0[v] = __int_as_float(0xff800000);
  }
  {
    f32 scratch0_0[4];
    load<4, Cached::shared_between_blocks>(scratch0_0, scratch0 + (static_cast<s64>(i) * 4096 + static_cast<s64>(j)));
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      max0[v] = Max::combine(max0[v], scratch0_0[v]);
    }
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    max0[v] = reduce_lanes<Max, 16, 8>(max0[v]);
  }

  // sweep 1: store 1
  {
    f32 result_1[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      result_1[v] = max0[v];
    }
    if (i_lane == 0) {
      store<4>(out0 + j, result_1);
    }
  }
}

// sum of %2
__device__ __forceinline__ void group_1_1(f32* __restrict__ scratch0, f32* __restrict__ out0, const int tile, unsigned char* const shared) {
  // axes  i: 64 = lane 8, warp 8; j: 1024 = vector 4, lane 4, warp 4, grid 16
  const int j_lane = static_cast<int>(threadIdx.x) % 4;
  const int i_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int j_warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int i_warp = static_cast<int>(threadIdx.x) / 128;
  const int j_grid = tile;
  const int i = (i_lane + 8 * i_warp);
  const int j = (j_lane + 4 * j_warp) * 4 + j_grid * 64;

  // sweep 0: reduce 2
  f32 sum0[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = 0.0f;
  }
  {
    f32 scratch0_0[4];
    load<4, Cached::shared_between_blocks>(scratch0_0, scratch0 + (i * 1024 + j));
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      sum0[v] += scratch0_0[v];
    }
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = reduce_lanes<Sum, 16, 8, 4>(sum0[v]);
  }
  f32* const partial0 = reinterpret_cast<f32*>(shared);
  if (i_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial0[i_warp * 64 + (j_lane + 4 * j_warp) * 4 + v] = sum0[v];
    }
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = reduce_shared<Sum, 8, 64>(partial0 + (j_lane + 4 * j_warp) * 4 + v);
  }

  // sweep 1: store 2
  {
    f32 result_1[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      result_1[v] = sum0[v];
    }
    if (i_lane == 0 && i_warp == 0) {
      store<4>(out0 + j, result_1);
    }
  }
}

}  // namespace

struct Table {
  u64 words[8];
};

extern "C" __global__ void __launch_bounds__(1024, 1)
stitch_4c059f5dc0f1(const __grid_constant__ Table table) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto none = await_predecessor();
  u32* const counters = reinterpret_cast<u32*>(table.words[0]);
  for (int tile = static_cast<int>(blockIdx.x); tile < 256; tile += 132) {
    const u64* const row = table.words + 1;
    group_0_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), tile, shared);
    __syncthreads();
  }

  grid_barrier(counters + 0, gridDim.x);
  {
    const int tile = static_cast<int>(blockIdx.x);
    if (tile < 4) {
      const u64* const row = table.words + 4;
      group_1_0(reinterpret_cast<f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile, shared);
    }
    else if (tile < 20) {
      const u64* const row = table.words + 6;
      group_1_1(reinterpret_cast<f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile - 4, shared);
    }
  }
}
