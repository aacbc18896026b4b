// fragment 0, kernel 0: 792 blocks of 256 threads, 64 bytes of dynamic shared memory, cooperative

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// partial sum of %13; 1 multiply
__device__ __forceinline__ void group_0_0(const f32* __restrict__ in0, f32* __restrict__ scratch0, const int tile, unsigned char* const shared) {
  // axes  i: 589824 = vector 4, lane 32, warp 8, register 4, loop 2, grid 72
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i0 = (i_lane + 32 * i_warp) * 4 + i_grid * 4096;
  f32 sum0 = 0.0f;
  for (int i_loop = 0; i_loop < 2; ++i_loop) {

    // sweep 0: reduce 13
    f32 in0_0[4][4];
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 1024 + i_loop * 294912;
      load<4, Cached::streamed>(in0_0[i_r], in0 + i);
    }
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 1024 + i_loop * 294912;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_1 = in0_0[i_r][v] * in0_0[i_r][v];
        sum0 += multiply_1;
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

// sum of %15; 1 multiply
__device__ __forceinline__ void group_0_1(const f32* __restrict__ in0, f32* __restrict__ scratch0, const int tile, unsigned char* const shared) {
  // axes  i: 3072 = vector 4, lane 32, warp 8, register 3
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i0 = (i_lane + 32 * i_warp) * 4;

  // sweep 0: reduce 15
  f32 sum0 = 0.0f;
  {
    f32 in0_0[3][4];
    #pragma unroll
    for (int i_r = 0; i_r < 3; ++i_r) {
      const int i = i0 + i_r * 1024;
      load<4, Cached::streamed>(in0_0[i_r], in0 + i);
    }
    #pragma unroll
    for (int i_r = 0; i_r < 3; ++i_r) {
      const int i = i0 + i_r * 1024;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_1 = in0_0[i_r][v] * in0_0[i_r][v];
        sum0 += multiply_1;
      }
    }
  }
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);
  f32* const partial0 = reinterpret_cast<f32*>(shared);
  if (i_lane == 0) {
    partial0[0 * 8 + i_warp] = sum0;
  }
  __syncthreads();
  sum0 = reduce_shared<Sum, 8, 1>(partial0 + (0) * 8);

  // sweep 1: store 15
  {
    if (i_lane == 0 && i_warp == 0) {
      scratch0[0] = sum0;
    }
  }
}

// sum of %16; 1 multiply
__device__ __forceinline__ void group_0_2(const f32* __restrict__ in0, f32* __restrict__ scratch0, const int tile, unsigned char* const shared) {
  // axes  i: 2304 = vector 4, lane 32, warp 8, register 3
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i0 = (i_lane + 32 * i_warp) * 4;

  // sweep 0: reduce 16
  f32 sum0 = 0.0f;
  {
    f32 in0_0[3][4];
    #pragma unroll
    for (int i_r = 0; i_r < 3; ++i_r) {
      const int i = i0 + i_r * 1024;
      if (i < 2304) {
        load<4, Cached::streamed>(in0_0[i_r], in0 + i);
      }
    }
    #pragma unroll
    for (int i_r = 0; i_r < 3; ++i_r) {
      const int i = i0 + i_r * 1024;
      if (i < 2304) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const f32 multiply_1 = in0_0[i_r][v] * in0_0[i_r][v];
          sum0 += multiply_1;
        }
      }
    }
  }
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);
  f32* const partial0 = reinterpret_cast<f32*>(shared);
  if (i_lane == 0) {
    partial0[0 * 8 + i_warp] = sum0;
  }
  __syncthreads();
  sum0 = reduce_shared<Sum, 8, 1>(partial0 + (0) * 8);

  // sweep 1: store 16
  {
    if (i_lane == 0 && i_warp == 0) {
      scratch0[0] = sum0;
    }
  }
}

// sum of %17; 1 multiply
__device__ __forceinline__ void group_0_3(const f32* __restrict__ in0, f32* __restrict__ scratch0, const int tile, unsigned char* const shared) {
  // axes  i: 1000 = vector 4, lane 32, warp 8
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i = (i_lane + 32 * i_warp) * 4;

  // sweep 0: reduce 17
  f32 sum0 = 0.0f;
  {
    f32 in0_0[4];
    if (i < 1000) {
      load<4, Cached::streamed>(in0_0, in0 + i);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_1 = in0_0[v] * in0_0[v];
        sum0 += multiply_1;
      }
    }
  }
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);
  f32* const partial0 = reinterpret_cast<f32*>(shared);
  if (i_lane == 0) {
    partial0[0 * 8 + i_warp] = sum0;
  }
  __syncthreads();
  sum0 = reduce_shared<Sum, 8, 1>(partial0 + (0) * 8);

  // sweep 1: store 17
  {
    if (i_lane == 0 && i_warp == 0) {
      scratch0[0] = sum0;
    }
  }
}

// sum of %18; 1 multiply
__device__ __forceinline__ void group_0_4(const f32* __restrict__ in0, f32* __restrict__ scratch0, const int tile, unsigned char* const shared) {
  // axes  i: 768 = vector 4, lane 32, warp 8
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i = (i_lane + 32 * i_warp) * 4;

  // sweep 0: reduce 18
  f32 sum0 = 0.0f;
  {
    f32 in0_0[4];
    if (i < 768) {
      load<4, Cached::streamed>(in0_0, in0 + i);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_1 = in0_0[v] * in0_0[v];
        sum0 += multiply_1;
      }
    }
  }
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);
  f32* const partial0 = reinterpret_cast<f32*>(shared);
  if (i_lane == 0) {
    partial0[0 * 8 + i_warp] = sum0;
  }
  __syncthreads();
  sum0 = reduce_shared<Sum, 8, 1>(partial0 + (0) * 8);

  // sweep 1: store 18
  {
    if (i_lane == 0 && i_warp == 0) {
      scratch0[0] = sum0;
    }
  }
}

// partial sum of %20; 1 multiply
__device__ __forceinline__ void group_0_5(const f32* __restrict__ in0, f32* __restrict__ scratch0, const int tile, unsigned char* const shared) {
  // axes  i: 2359296 = vector 4, lane 32, warp 8, register 4, loop 5, grid 116
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i0 = (i_lane + 32 * i_warp) * 4 + i_grid * 4096;
  f32 sum0 = 0.0f;
  for (int i_loop = 0; i_loop < 5; ++i_loop) {

    // sweep 0: reduce 20
    f32 in0_0[4][4];
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 1024 + i_loop * 475136;
      if (i < 2359296) {
        load<4, Cached::streamed>(in0_0[i_r], in0 + i);
      }
    }
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 1024 + i_loop * 475136;
      if (i < 2359296) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const f32 multiply_1 = in0_0[i_r][v] * in0_0[i_r][v];
          sum0 += multiply_1;
        }
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

// partial sum of %23; 1 multiply
__device__ __forceinline__ void group_0_6(const f32* __restrict__ in0, f32* __restrict__ scratch0, const int tile, unsigned char* const shared) {
  // axes  i: 393216 = vector 4, lane 32, warp 8, register 4, grid 96
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i0 = (i_lane + 32 * i_warp) * 4 + i_grid * 4096;
  f32 sum0 = 0.0f;

  // sweep 0: reduce 23
  f32 in0_0[4][4];
#pragma unroll
  for (int i_r = 0; i_r < 4; ++i_r) {
    const int i = i0 + i_r * 1024;
    load<4, Cached::streamed>(in0_0[i_r], in0 + i);
  }
#pragma unroll
  for (int i_r = 0; i_r < 4; ++i_r) {
    const int i = i0 + i_r * 1024;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_1 = in0_0[i_r][v] * in0_0[i_r][v];
      sum0 += multiply_1;
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

// sum of %29; 1 multiply
__device__ __forceinline__ void group_0_7(const f32* __restrict__ in0, f32* __restrict__ scratch0, const int tile, unsigned char* const shared) {
  // axes  i: 35 = vector 4, lane 16
  const int i_lane = static_cast<int>(threadIdx.x) % 16;
  const int i = i_lane * 4;
  const bool active = threadIdx.x < 16;

  // sweep 0: reduce 29
  f32 sum0 = 0.0f;
  {
    f32 in0_0[4];
    if (i < 35 && active) {
      load_tail<4, Cached::streamed>(in0_0, in0 + i, 35 - i);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_1 = in0_0[v] * in0_0[v];
        if ((i + v) < 35) sum0 += multiply_1;
      }
    }
  }
  sum0 = reduce_lanes<Sum, 8, 4, 2, 1>(sum0);

  // sweep 1: store 29
  {
    if (active) {
      if (i_lane == 0) {
        scratch0[0] = sum0;
      }
    }
  }
}

// sum of %13
__device__ __forceinline__ void group_1_0(f32* __restrict__ scratch0, f32* __restrict__ scratch1, const int tile, unsigned char* const shared) {
  // axes  i: 72 = vector 4, lane 32
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i = i_lane * 4;
  const bool active = threadIdx.x < 32;

  // sweep 0: reduce 13
  f32 sum0 = 0.0f;
  {
    f32 scratch0_0[4];
    if (i < 72 && active) {
      load<4, Cached::shared_between_blocks>(scratch0_0, scratch0 + i);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        sum0 += scratch0_0[v];
      }
    }
  }
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);

  // sweep 1: store 13
  {
    if (active) {
      if (i_lane == 0) {
        scratch1[0] = sum0;
      }
    }
  }
}

// sum of %20
__device__ __forceinline__ void group_1_1(f32* __restrict__ scratch0, f32* __restrict__ scratch1, const int tile, unsigned char* const shared) {
  // axes  i: 116 = vector 4, lane 32
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i = i_lane * 4;
  const bool active = threadIdx.x < 32;

  // sweep 0: reduce 20
  f32 sum0 = 0.0f;
  {
    f32 scratch0_0[4];
    if (i < 116 && active) {
      load<4, Cached::shared_between_blocks>(scratch0_0, scratch0 + i);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        sum0 += scratch0_0[v];
      }
    }
  }
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);

  // sweep 1: store 20
  {
    if (active) {
      if (i_lane == 0) {
        scratch1[0] = sum0;
      }
    }
  }
}

// sum of %23
__device__ __forceinline__ void group_1_2(f32* __restrict__ scratch0, f32* __restrict__ scratch1, const int tile, unsigned char* const shared) {
  // axes  i: 96 = vector 4, lane 32
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i = i_lane * 4;
  const bool active = threadIdx.x < 32;

  // sweep 0: reduce 23
  f32 sum0 = 0.0f;
  {
    f32 scratch0_0[4];
    if (i < 96 && active) {
      load<4, Cached::shared_between_blocks>(scratch0_0, scratch0 + i);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        sum0 += scratch0_0[v];
      }
    }
  }
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);

  // sweep 1: store 23
  {
    if (active) {
      if (i_lane == 0) {
        scratch1[0] = sum0;
      }
    }
  }
}

// 7 add, 1 divide, 1 maximum, 1 multiply, 1 sqrt; 2 tensors
__device__ __forceinline__ void group_2_0(const f32* __restrict__ in0, f32* __restrict__ scratch0, f32* __restrict__ scratch1, f32* __restrict__ scratch2, f32* __restrict__ scratch3, f32* __restrict__ scratch4, f32* __restrict__ scratch5, f32* __restrict__ scratch6, f32* __restrict__ scratch7, f32* __restrict__ out0, const s64 extent, const int tile, unsigned char* const shared) {
  // axes  i: extent = vector 4, lane 32, warp 8, grid 384
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = (i_lane + 32 * i_warp) * 4 + i_grid * 1024;

  // sweep 0: store 37
  const f32 scratch0_2 = load_one<Cached::shared_between_blocks>(&scratch0[0]);
  const f32 scratch1_3 = load_one<Cached::shared_between_blocks>(&scratch1[0]);
  const f32 scratch2_4 = load_one<Cached::shared_between_blocks>(&scratch2[0]);
  const f32 scratch3_5 = load_one<Cached::shared_between_blocks>(&scratch3[0]);
  const f32 scratch4_6 = load_one<Cached::shared_between_blocks>(&scratch4[0]);
  const f32 scratch5_7 = load_one<Cached::shared_between_blocks>(&scratch5[0]);
  const f32 scratch6_8 = load_one<Cached::shared_between_blocks>(&scratch6[0]);
  const f32 add_9 = scratch5_7 + scratch6_8;
  const f32 add_10 = scratch4_6 + add_9;
  const f32 add_11 = scratch3_5 + add_10;
  const f32 add_12 = scratch2_4 + add_11;
  const f32 add_13 = scratch1_3 + add_12;
  const f32 scratch7_14 = load_one<Cached::shared_between_blocks>(&scratch7[0]);
  const f32 add_15 = add_13 + scratch7_14;
  const f32 add_16 = scratch0_2 + add_15;
  const f32 sqrt_17 = sqrtf(add_16);
  const f32 maximum_18 = maximum(1.0f, sqrt_17);
  const f32 divide_19 = 1.0f / maximum_18;
  f32 in0_0[4];
  if (i < extent) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_20 = in0_0[v] * divide_19;
      result_0[v] = multiply_20;
    }
    store_tail<4, Written::passing>(out0 + static_cast<s64>(i), result_0, extent - i);
  }
}

// 7 add, 1 divide, 1 maximum, 1 multiply, 1 sqrt; 3 tensors
__device__ __forceinline__ void group_2_1(const f32* __restrict__ in0, f32* __restrict__ scratch0, f32* __restrict__ scratch1, f32* __restrict__ scratch2, f32* __restrict__ scratch3, f32* __restrict__ scratch4, f32* __restrict__ scratch5, f32* __restrict__ scratch6, f32* __restrict__ scratch7, f32* __restrict__ out0, const s64 extent, const int tile, unsigned char* const shared) {
  // axes  i: extent = vector 4, lane 32, warp 8, register 2, grid 2
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i0 = (i_lane + 32 * i_warp) * 4 + i_grid * 2048;

  // sweep 0: store 39
  const f32 scratch0_2 = load_one<Cached::shared_between_blocks>(&scratch0[0]);
  const f32 scratch1_3 = load_one<Cached::shared_between_blocks>(&scratch1[0]);
  const f32 scratch2_4 = load_one<Cached::shared_between_blocks>(&scratch2[0]);
  const f32 scratch3_5 = load_one<Cached::shared_between_blocks>(&scratch3[0]);
  const f32 scratch4_6 = load_one<Cached::shared_between_blocks>(&scratch4[0]);
  const f32 scratch5_7 = load_one<Cached::shared_between_blocks>(&scratch5[0]);
  const f32 scratch6_8 = load_one<Cached::shared_between_blocks>(&scratch6[0]);
  const f32 add_9 = scratch5_7 + scratch6_8;
  const f32 add_10 = scratch4_6 + add_9;
  const f32 add_11 = scratch3_5 + add_10;
  const f32 add_12 = scratch2_4 + add_11;
  const f32 add_13 = scratch1_3 + add_12;
  const f32 scratch7_14 = load_one<Cached::shared_between_blocks>(&scratch7[0]);
  const f32 add_15 = add_13 + scratch7_14;
  const f32 add_16 = scratch0_2 + add_15;
  const f32 sqrt_17 = sqrtf(add_16);
  const f32 maximum_18 = maximum(1.0f, sqrt_17);
  const f32 divide_19 = 1.0f / maximum_18;
  f32 in0_0[2][4];
#pragma unroll
  for (int i_r = 0; i_r < 2; ++i_r) {
    const int i = i0 + i_r * 1024;
    if (i < extent) {
      load_tail<4, Cached::streamed>(in0_0[i_r], in0 + static_cast<s64>(i), extent - i);
    }
  }
#pragma unroll
  for (int i_r = 0; i_r < 2; ++i_r) {
    const int i = i0 + i_r * 1024;
    if (i < extent) {
      f32 result_0[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_20 = in0_0[i_r][v] * divide_19;
        result_0[v] = multiply_20;
      }
      store_tail<4, Written::passing>(out0 + static_cast<s64>(i), result_0, extent - i);
    }
  }
}

// 7 add, 1 divide, 1 maximum, 1 multiply, 1 sqrt; 2 tensors
__device__ __forceinline__ void group_2_2(const f32* __restrict__ in0, f32* __restrict__ scratch0, f32* __restrict__ scratch1, f32* __restrict__ scratch2, f32* __restrict__ scratch3, f32* __restrict__ scratch4, f32* __restrict__ scratch5, f32* __restrict__ scratch6, f32* __restrict__ scratch7, f32* __restrict__ out0, const s64 extent, const int tile, unsigned char* const shared) {
  // axes  i: extent = vector 4, lane 32, warp 8
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i = (i_lane + 32 * i_warp) * 4;

  // sweep 0: store 40
  const f32 scratch0_2 = load_one<Cached::shared_between_blocks>(&scratch0[0]);
  const f32 scratch1_3 = load_one<Cached::shared_between_blocks>(&scratch1[0]);
  const f32 scratch2_4 = load_one<Cached::shared_between_blocks>(&scratch2[0]);
  const f32 scratch3_5 = load_one<Cached::shared_between_blocks>(&scratch3[0]);
  const f32 scratch4_6 = load_one<Cached::shared_between_blocks>(&scratch4[0]);
  const f32 scratch5_7 = load_one<Cached::shared_between_blocks>(&scratch5[0]);
  const f32 scratch6_8 = load_one<Cached::shared_between_blocks>(&scratch6[0]);
  const f32 add_9 = scratch5_7 + scratch6_8;
  const f32 add_10 = scratch4_6 + add_9;
  const f32 add_11 = scratch3_5 + add_10;
  const f32 add_12 = scratch2_4 + add_11;
  const f32 add_13 = scratch1_3 + add_12;
  const f32 scratch7_14 = load_one<Cached::shared_between_blocks>(&scratch7[0]);
  const f32 add_15 = add_13 + scratch7_14;
  const f32 add_16 = scratch0_2 + add_15;
  const f32 sqrt_17 = sqrtf(add_16);
  const f32 maximum_18 = maximum(1.0f, sqrt_17);
  const f32 divide_19 = 1.0f / maximum_18;
  f32 in0_0[4];
  if (i < extent) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_20 = in0_0[v] * divide_19;
      result_0[v] = multiply_20;
    }
    store_tail<4, Written::passing>(out0 + static_cast<s64>(i), result_0, extent - i);
  }
}

// 7 add, 1 divide, 1 maximum, 1 multiply, 1 sqrt
__device__ __forceinline__ void group_2_3(const f32* __restrict__ in0, f32* __restrict__ scratch0, f32* __restrict__ scratch1, f32* __restrict__ scratch2, f32* __restrict__ scratch3, f32* __restrict__ scratch4, f32* __restrict__ scratch5, f32* __restrict__ scratch6, f32* __restrict__ scratch7, f32* __restrict__ out0, const s64 extent, const int tile, unsigned char* const shared) {
  // axes  i: extent = vector 4, lane 16
  const int i_lane = static_cast<int>(threadIdx.x) % 16;
  const int i = i_lane * 4;
  const bool active = threadIdx.x < 16;

  // sweep 0: store 44
  const f32 scratch0_2 = active ? load_one<Cached::shared_between_blocks>(&scratch0[0]) : 0.0f;
  const f32 scratch1_3 = active ? load_one<Cached::shared_between_blocks>(&scratch1[0]) : 0.0f;
  const f32 scratch2_4 = active ? load_one<Cached::shared_between_blocks>(&scratch2[0]) : 0.0f;
  const f32 scratch3_5 = active ? load_one<Cached::shared_between_blocks>(&scratch3[0]) : 0.0f;
  const f32 scratch4_6 = active ? load_one<Cached::shared_between_blocks>(&scratch4[0]) : 0.0f;
  const f32 scratch5_7 = active ? load_one<Cached::shared_between_blocks>(&scratch5[0]) : 0.0f;
  const f32 scratch6_8 = active ? load_one<Cached::shared_between_blocks>(&scratch6[0]) : 0.0f;
  const f32 add_9 = scratch5_7 + scratch6_8;
  const f32 add_10 = scratch4_6 + add_9;
  const f32 add_11 = scratch3_5 + add_10;
  const f32 add_12 = scratch2_4 + add_11;
  const f32 add_13 = scratch1_3 + add_12;
  const f32 scratch7_14 = active ? load_one<Cached::shared_between_blocks>(&scratch7[0]) : 0.0f;
  const f32 add_15 = add_13 + scratch7_14;
  const f32 add_16 = scratch0_2 + add_15;
  const f32 sqrt_17 = sqrtf(add_16);
  const f32 maximum_18 = maximum(1.0f, sqrt_17);
  const f32 divide_19 = 1.0f / maximum_18;
  f32 in0_0[4];
  if (i < extent && active) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_20 = in0_0[v] * divide_19;
      result_0[v] = multiply_20;
    }
    store_tail<4, Written::passing>(out0 + static_cast<s64>(i), result_0, extent - i);
  }
}

}  // namespace

struct Table {
  u64 words[118];
};

extern "C" __global__ void __launch_bounds__(256, 6)
stitch_633a7ad8f05e(const __grid_constant__ Table table) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto none = await_predecessor();
  u32* const counters = reinterpret_cast<u32*>(table.words[0]);
  {
    const int tile = static_cast<int>(blockIdx.x);
    if (tile < 72) {
      const u64* const row = table.words + 1;
      group_0_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile, shared);
    }
    else if (tile < 73) {
      const u64* const row = table.words + 3;
      group_0_1(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile - 72, shared);
    }
    else if (tile < 74) {
      const u64* const row = table.words + 5;
      group_0_2(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile - 73, shared);
    }
    else if (tile < 75) {
      const u64* const row = table.words + 7;
      group_0_3(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile - 74, shared);
    }
    else if (tile < 76) {
      const u64* const row = table.words + 9;
      group_0_4(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile - 75, shared);
    }
    else if (tile < 192) {
      const u64* const row = table.words + 11;
      group_0_5(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile - 76, shared);
    }
    else if (tile < 288) {
      const u64* const row = table.words + 13;
      group_0_6(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile - 192, shared);
    }
    else if (tile < 289) {
      const u64* const row = table.words + 15;
      group_0_7(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile - 288, shared);
    }
  }

  // for the block that arrives last, while the others wait
  if (arrives_last_at_gate(counters + 0, gridDim.x)) {
    for (int tile = 0; tile < 3; ++tile) {
      if (tile < 1) {
        const u64* const row = table.words + 17;
        group_1_0(reinterpret_cast<f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile, shared);
      }
      else if (tile < 2) {
        const u64* const row = table.words + 19;
        group_1_1(reinterpret_cast<f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile - 1, shared);
      }
      else if (tile < 3) {
        const u64* const row = table.words + 21;
        group_1_2(reinterpret_cast<f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile - 2, shared);
      }
    }

    open_gate(counters + 0);
  }
  // from the end, of which L2 still has something
  for (int tile = static_cast<int>(blockIdx.x) + (2118 - static_cast<int>(blockIdx.x)) / 792 * 792; tile >= 0; tile -= 792) {
    if (tile < 960) {
      int low = 0, high = 1;
      while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (static_cast<int>(table.words[34 + middle * 12]) <= tile) low = middle;
        else high = middle - 1;
      }
      const u64* const row = table.words + 23 + low * 12;
      group_2_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), reinterpret_cast<f32*>(row[3] + none), reinterpret_cast<f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), reinterpret_cast<f32*>(row[8] + none), reinterpret_cast<f32*>(row[9] + none), static_cast<s64>(row[10]), tile - static_cast<int>(row[11]), shared);
    }
    else if (tile < 2116) {
      int low = 0, high = 2;
      while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (static_cast<int>(table.words[58 + middle * 12]) <= tile - 960) low = middle;
        else high = middle - 1;
      }
      const u64* const row = table.words + 47 + low * 12;
      group_2_1(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), reinterpret_cast<f32*>(row[3] + none), reinterpret_cast<f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), reinterpret_cast<f32*>(row[8] + none), reinterpret_cast<f32*>(row[9] + none), static_cast<s64>(row[10]), tile - 960 - static_cast<int>(row[11]), shared);
    }
    else if (tile < 2118) {
      int low = 0, high = 1;
      while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (static_cast<int>(table.words[94 + middle * 12]) <= tile - 2116) low = middle;
        else high = middle - 1;
      }
      const u64* const row = table.words + 83 + low * 12;
      group_2_2(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), reinterpret_cast<f32*>(row[3] + none), reinterpret_cast<f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), reinterpret_cast<f32*>(row[8] + none), reinterpret_cast<f32*>(row[9] + none), static_cast<s64>(row[10]), tile - 2116 - static_cast<int>(row[11]), shared);
    }
    else if (tile < 2119) {
      const u64* const row = table.words + 107;
      group_2_3(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), reinterpret_cast<f32*>(row[3] + none), reinterpret_cast<f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), reinterpret_cast<f32*>(row[8] + none), reinterpret_cast<f32*>(row[9] + none), static_cast<s64>(row[10]), tile - 2118, shared);
    }
  }
}
