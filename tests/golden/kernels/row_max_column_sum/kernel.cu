// fragment 0, kernel 0: 128 blocks of 128 threads, 114688 bytes of dynamic shared memory, cooperative

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// max of %1, partial sum of %2
__device__ __forceinline__ void group_0_0(const f32* __restrict__ in0, f32* __restrict__ out0, f32* __restrict__ scratch0, const int tile, unsigned char* const shared) {
  // axes  i: 4096 = lane 2, warp 4, loop 4, grid 128; j: 1024 = vector 4, lane 16, register 16
  const int j_lane = static_cast<int>(threadIdx.x) % 16;
  const int i_lane = static_cast<int>(threadIdx.x) / 16 % 2;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i0 = (i_lane + 2 * i_warp) + i_grid * 8;
  const int j0 = j_lane * 4;
  f32 sum2[16][4];
#pragma unroll
  for (int j_r = 0; j_r < 16; ++j_r) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      sum2[j_r][v] = 0.0f;
    }
  }
  // the next turns' loads, on their way to shared memory while this one's are used
  const auto ask = [&](const int i_loop, const int stage) {
    const int i = i0 + i_loop * 1024;
    f32* const in0_0_stage = reinterpret_cast<f32*>(shared + stage * 32768);
    #pragma unroll
    for (int j_r = 0; j_r < 16; ++j_r) {
      const int j = j0 + j_r * 64;
      copy_async<4>(in0_0_stage + (j_r * 128 + static_cast<int>(threadIdx.x)) * 4, in0 + ((i * 1024 + j)));
    }
  };
  ask(0, 0);
  commit_copies();
  ask(1, 1);
  commit_copies();
  for (int i_loop = 0; i_loop < 4; ++i_loop) {
    const int i = i0 + i_loop * 1024;
    wait_for_groups<1>();
    if ((i_loop + 2) < 4) ask((i_loop + 2), ((i_loop + 2) % 3));
    commit_copies();
    const int stage = (i_loop % 3);
    f32* const in0_0_stage = reinterpret_cast<f32*>(shared + stage * 32768);

    // sweep 0: reduce 1, reduce 2
    f32 max0 = __int_as_float(0xff800000);
    {
      f32 in0_0[16][4];
      #pragma unroll
      for (int j_r = 0; j_r < 16; ++j_r) {
        const int j = j0 + j_r * 64;
        load<4, Cached::shared>(in0_0[j_r], in0_0_stage + (j_r * 128 + static_cast<int>(threadIdx.x)) * 4);
      }
      #pragma unroll
      for (int j_r = 0; j_r < 16; ++j_r) {
        const int j = j0 + j_r * 64;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          max0 = Max::combine(max0, in0_0[j_r][v]);
          sum2[j_r][v] += in0_0[j_r][v];
        }
      }
    }
    max0 = reduce_lanes<Max, 8, 4, 2, 1>(max0);

    // sweep 1: store 1
    {
      if (j_lane == 0) {
        out0[i] = max0;
      }
    }
  }

  // partial results of this tile
#pragma unroll
  for (int j_r = 0; j_r < 16; ++j_r) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      sum2[j_r][v] = reduce_lanes<Sum, 16>(sum2[j_r][v]);
    }
  }
  f32* const partial2 = reinterpret_cast<f32*>(shared + 98304);
  if (i_lane == 0) {
    #pragma unroll
    for (int j_r = 0; j_r < 16; ++j_r) {
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        partial2[i_warp * 1024 + j_lane * 4 + j_r * 64 + v] = sum2[j_r][v];
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int j_r = 0; j_r < 16; ++j_r) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      sum2[j_r][v] = reduce_shared<Sum, 4, 1024>(partial2 + j_lane * 4 + j_r * 64 + v);
    }
  }
  if (i_lane == 0 && i_warp == 0) {
    #pragma unroll
    for (int j_r = 0; j_r < 16; ++j_r) {
      const int j = j0 + j_r * 64;
      #pragma unroll
      for (int v = 0; v < 4; v += 4) {
        store<4>(scratch0 + i_grid * 1024 + (j + v), &sum2[j_r][v]);
      }
    }
  }
}

// sum of %2
__device__ __forceinline__ void group_1_0(f32* __restrict__ scratch0, f32* __restrict__ out0, const int tile, unsigned char* const shared) {
  // axes  i: 128 = lane 8, warp 4, register 4; j: 1024 = vector 4, lane 4, grid 64
  const int j_lane = static_cast<int>(threadIdx.x) % 4;
  const int i_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_grid = tile;
  const int i0 = (i_lane + 8 * i_warp);
  const int j = j_lane * 4 + j_grid * 16;

  // sweep 0: reduce 2
  f32 sum0[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = 0.0f;
  }
  {
    f32 scratch0_0[4][4];
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 32;
      load<4, Cached::shared_between_blocks>(scratch0_0[i_r], scratch0 + (i * 1024 + j));
    }
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 32;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        sum0[v] += scratch0_0[i_r][v];
      }
    }
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = reduce_lanes<Sum, 16, 8, 4>(sum0[v]);
  }
  f32* const partial0 = reinterpret_cast<f32*>(shared + 98304);
  if (i_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial0[i_warp * 16 + j_lane * 4 + v] = sum0[v];
    }
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = reduce_shared<Sum, 4, 16>(partial0 + j_lane * 4 + v);
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
  u64 words[6];
};

extern "C" __global__ void __launch_bounds__(128, 1)
stitch_4c059f5dc0f1(const __grid_constant__ Table table) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto none = await_predecessor();
  u32* const counters = reinterpret_cast<u32*>(table.words[0]);
  {
    const int tile = static_cast<int>(blockIdx.x);
    const u64* const row = table.words + 1;
    group_0_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), tile, shared);
  }

  grid_barrier(counters + 0, gridDim.x);
  {
    const int tile = static_cast<int>(blockIdx.x);
    if (tile < 64) {
      const u64* const row = table.words + 4;
      group_1_0(reinterpret_cast<f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile, shared);
    }
  }
}
