// fragment 0, kernel 0: 128 blocks of 512 threads, 196608 bytes of dynamic shared memory, cooperative

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// partial sum of %4, sum of %11, sum of %13, sum of %21, sum of %24, partial sum of %36; 2 add, 13 multiply, 1 rsqrt, 3 subtract
__device__ __forceinline__ void group_0_0(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, f32* __restrict__ scratch0, f32* __restrict__ out0, f32* __restrict__ scratch1, f32* __restrict__ out1, const int tile, unsigned char* const shared) {
  // axes  i: 4096 = warp 8, loop 4, grid 128; j: 768 = vector 4, lane 32, warp 2, register 3
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int j_warp = static_cast<int>(threadIdx.x) / 32 % 2;
  const int i_warp = static_cast<int>(threadIdx.x) / 64;
  const int i_grid = tile;
  const int i0 = i_warp + i_grid * 8;
  const int j0 = (j_lane + 32 * j_warp) * 4;
  f32 sum0[3][4];
#pragma unroll
  for (int j_r = 0; j_r < 3; ++j_r) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      sum0[j_r][v] = 0.0f;
    }
  }
  f32 sum6[3][4];
#pragma unroll
  for (int j_r = 0; j_r < 3; ++j_r) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      sum6[j_r][v] = 0.0f;
    }
  }
  // the same for every iteration of the tile
  f32 in2_2[3][4];
#pragma unroll
  for (int j_r = 0; j_r < 3; ++j_r) {
    const int j = j0 + j_r * 256;
    load<4, Cached::streamed>(in2_2[j_r], in2 + j);
  }
  f32 in3_26[3][4];
#pragma unroll
  for (int j_r = 0; j_r < 3; ++j_r) {
    const int j = j0 + j_r * 256;
    load<4, Cached::streamed>(in3_26[j_r], in3 + j);
  }
  // the next turns' loads, on their way to shared memory while this one's are used
  const auto ask = [&](const int i_loop, const int stage) {
    const int i = i0 + i_loop * 1024;
    f32* const in0_0_stage = reinterpret_cast<f32*>(shared + stage * 24576);
    f32* const in1_1_stage = reinterpret_cast<f32*>(shared + 73728 + stage * 24576);
    #pragma unroll
    for (int j_r = 0; j_r < 3; ++j_r) {
      const int j = j0 + j_r * 256;
      copy_async<4>(in0_0_stage + (j_r * 512 + static_cast<int>(threadIdx.x)) * 4, in0 + ((i * 768 + j)));
    }
    #pragma unroll
    for (int j_r = 0; j_r < 3; ++j_r) {
      const int j = j0 + j_r * 256;
      copy_async<4>(in1_1_stage + (j_r * 512 + static_cast<int>(threadIdx.x)) * 4, in1 + ((i * 768 + j)));
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
    f32* const in0_0_stage = reinterpret_cast<f32*>(shared + stage * 24576);
    f32* const in1_1_stage = reinterpret_cast<f32*>(shared + 73728 + stage * 24576);
    f32 in0_0[3][4];
    f32 in1_1[3][4];
    f32 subtract_7[3][4];

    // sweep 0: reduce 4, reduce 11, reduce 13
    f32 sum1 = 0.0f;
    f32 sum2 = 0.0f;
    {
      #pragma unroll
      for (int j_r = 0; j_r < 3; ++j_r) {
        const int j = j0 + j_r * 256;
        load<4, Cached::shared>(in0_0[j_r], in0_0_stage + (j_r * 512 + static_cast<int>(threadIdx.x)) * 4);
        load<4, Cached::shared>(in1_1[j_r], in1_1_stage + (j_r * 512 + static_cast<int>(threadIdx.x)) * 4);
      }
      #pragma unroll
      for (int j_r = 0; j_r < 3; ++j_r) {
        const int j = j0 + j_r * 256;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const f32 multiply_3 = in0_0[j_r][v] * in2_2[j_r][v];
          sum0[j_r][v] += in0_0[j_r][v];
          sum1 += in1_1[j_r][v];
          sum2 += multiply_3;
        }
      }
    }
    sum1 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum1);
    sum2 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum2);
    f32* const partial1 = reinterpret_cast<f32*>(shared + 147456);
    f32* const partial2 = reinterpret_cast<f32*>(shared + 147520);
    if (j_lane == 0) {
      partial1[i_warp * 2 + j_warp] = sum1;
    }
    if (j_lane == 0) {
      partial2[i_warp * 2 + j_warp] = sum2;
    }
    __syncthreads();
    sum1 = reduce_shared<Sum, 2, 1>(partial1 + (i_warp) * 2);
    sum2 = reduce_shared<Sum, 2, 1>(partial2 + (i_warp) * 2);

    // sweep 1: reduce 21, reduce 24
    f32 sum3 = 0.0f;
    f32 sum4 = 0.0f;
    const f32 multiply_6 = 0.0013020834f * sum1;
    {
      #pragma unroll
      for (int j_r = 0; j_r < 3; ++j_r) {
        const int j = j0 + j_r * 256;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const f32 multiply_3 = in0_0[j_r][v] * in2_2[j_r][v];
          subtract_7[j_r][v] = in1_1[j_r][v] - multiply_6;
          const f32 multiply_8 = subtract_7[j_r][v] * subtract_7[j_r][v];
          const f32 multiply_9 = multiply_3 * subtract_7[j_r][v];
          sum3 += multiply_8;
          sum4 += multiply_9;
        }
      }
    }
    sum3 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum3);
    sum4 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum4);
    f32* const partial3 = reinterpret_cast<f32*>(shared + 172032);
    f32* const partial4 = reinterpret_cast<f32*>(shared + 172096);
    if (j_lane == 0) {
      partial3[i_warp * 2 + j_warp] = sum3;
    }
    if (j_lane == 0) {
      partial4[i_warp * 2 + j_warp] = sum4;
    }
    __syncthreads();
    sum3 = reduce_shared<Sum, 2, 1>(partial3 + (i_warp) * 2);
    sum4 = reduce_shared<Sum, 2, 1>(partial4 + (i_warp) * 2);

    // sweep 2: store 34, reduce 36, store 38
    const f32 multiply_12 = 0.0013020834f * sum3;
    const f32 add_13 = 1e-05f + multiply_12;
    const f32 rsqrt_14 = rsqrtf(add_13);
    const f32 multiply_16 = 0.0013020834f * sum2;
    const f32 multiply_19 = sum4 * rsqrt_14;
    const f32 multiply_20 = 0.0013020834f * multiply_19;
    {
      #pragma unroll
      for (int j_r = 0; j_r < 3; ++j_r) {
        const int j = j0 + j_r * 256;
        f32 result_5[4];
        f32 result_7[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const f32 multiply_3 = in0_0[j_r][v] * in2_2[j_r][v];
          const f32 subtract_17 = multiply_3 - multiply_16;
          const f32 multiply_21 = subtract_7[j_r][v] * rsqrt_14;
          const f32 multiply_22 = multiply_20 * multiply_21;
          const f32 subtract_23 = subtract_17 - multiply_22;
          const f32 multiply_24 = rsqrt_14 * subtract_23;
          const f32 multiply_25 = in0_0[j_r][v] * multiply_21;
          const f32 multiply_27 = in2_2[j_r][v] * multiply_21;
          const f32 add_28 = in3_26[j_r][v] + multiply_27;
          result_5[v] = multiply_24;
          sum6[j_r][v] += multiply_25;
          result_7[v] = add_28;
        }
        store<4>(out0 + (i * 768 + j), result_5);
        store<4>(out1 + (i * 768 + j), result_7);
      }
    }
  }

  // partial results of this tile
  __syncthreads();
  f32* const partial0 = reinterpret_cast<f32*>(shared + 147456);
  f32* const partial6 = reinterpret_cast<f32*>(shared + 172032);
#pragma unroll
  for (int j_r = 0; j_r < 3; ++j_r) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial0[i_warp * 768 + (j_lane + 32 * j_warp) * 4 + j_r * 256 + v] = sum0[j_r][v];
    }
  }
#pragma unroll
  for (int j_r = 0; j_r < 3; ++j_r) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial6[i_warp * 768 + (j_lane + 32 * j_warp) * 4 + j_r * 256 + v] = sum6[j_r][v];
    }
  }
  __syncthreads();
#pragma unroll
  for (int j_r = 0; j_r < 3; ++j_r) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      sum0[j_r][v] = reduce_shared<Sum, 8, 768>(partial0 + (j_lane + 32 * j_warp) * 4 + j_r * 256 + v);
    }
  }
#pragma unroll
  for (int j_r = 0; j_r < 3; ++j_r) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      sum6[j_r][v] = reduce_shared<Sum, 8, 768>(partial6 + (j_lane + 32 * j_warp) * 4 + j_r * 256 + v);
    }
  }
  if (i_warp == 0) {
    #pragma unroll
    for (int j_r = 0; j_r < 3; ++j_r) {
      const int j = j0 + j_r * 256;
      #pragma unroll
      for (int v = 0; v < 4; v += 4) {
        store<4>(scratch0 + i_grid * 768 + (j + v), &sum0[j_r][v]);
      }
    }
  }
  if (i_warp == 0) {
    #pragma unroll
    for (int j_r = 0; j_r < 3; ++j_r) {
      const int j = j0 + j_r * 256;
      #pragma unroll
      for (int v = 0; v < 4; v += 4) {
        store<4>(scratch1 + i_grid * 768 + (j + v), &sum6[j_r][v]);
      }
    }
  }
}

// sum of %4, sum of %36
__device__ __forceinline__ void group_1_0(f32* __restrict__ scratch0, f32* __restrict__ scratch1, f32* __restrict__ out0, f32* __restrict__ out1, const int tile, unsigned char* const shared) {
  // axes  i: 128 = lane 8, warp 8, register 2; j: 768 = vector 4, lane 4, warp 2, grid 24
  const int j_lane = static_cast<int>(threadIdx.x) % 4;
  const int i_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int j_warp = static_cast<int>(threadIdx.x) / 32 % 2;
  const int i_warp = static_cast<int>(threadIdx.x) / 64;
  const int j_grid = tile;
  const int i0 = (i_lane + 8 * i_warp);
  const int j = (j_lane + 4 * j_warp) * 4 + j_grid * 32;

  // sweep 0: reduce 4, reduce 36
  f32 sum0[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = 0.0f;
  }
  f32 sum1[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = 0.0f;
  }
  {
    f32 scratch0_0[2][4];
    f32 scratch1_1[2][4];
    #pragma unroll
    for (int i_r = 0; i_r < 2; ++i_r) {
      const int i = i0 + i_r * 64;
      load<4, Cached::shared_between_blocks>(scratch0_0[i_r], scratch0 + (i * 768 + j));
      load<4, Cached::shared_between_blocks>(scratch1_1[i_r], scratch1 + (i * 768 + j));
    }
    #pragma unroll
    for (int i_r = 0; i_r < 2; ++i_r) {
      const int i = i0 + i_r * 64;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        sum0[v] += scratch0_0[i_r][v];
        sum1[v] += scratch1_1[i_r][v];
      }
    }
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = reduce_lanes<Sum, 16, 8, 4>(sum0[v]);
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = reduce_lanes<Sum, 16, 8, 4>(sum1[v]);
  }
  f32* const partial0 = reinterpret_cast<f32*>(shared + 147456);
  f32* const partial1 = reinterpret_cast<f32*>(shared + 148480);
  if (i_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial0[i_warp * 32 + (j_lane + 4 * j_warp) * 4 + v] = sum0[v];
    }
  }
  if (i_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial1[i_warp * 32 + (j_lane + 4 * j_warp) * 4 + v] = sum1[v];
    }
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = reduce_shared<Sum, 8, 32>(partial0 + (j_lane + 4 * j_warp) * 4 + v);
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = reduce_shared<Sum, 8, 32>(partial1 + (j_lane + 4 * j_warp) * 4 + v);
  }

  // sweep 1: store 4, store 36
  {
    f32 result_2[4];
    f32 result_3[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      result_2[v] = sum0[v];
      result_3[v] = sum1[v];
    }
    if (i_lane == 0 && i_warp == 0) {
      store<4>(out0 + j, result_2);
    }
    if (i_lane == 0 && i_warp == 0) {
      store<4>(out1 + j, result_3);
    }
  }
}

}  // namespace

struct Table {
  u64 words[13];
};

extern "C" __global__ void __launch_bounds__(512, 1)
stitch_11d2132ac418(const __grid_constant__ Table table) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto none = await_predecessor();
  u32* const counters = reinterpret_cast<u32*>(table.words[0]);
  {
    const int tile = static_cast<int>(blockIdx.x);
    const u64* const row = table.words + 1;
    group_0_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), tile, shared);
  }

  grid_barrier(counters + 0, gridDim.x);
  {
    const int tile = static_cast<int>(blockIdx.x);
    if (tile < 24) {
      const u64* const row = table.words + 9;
      group_1_0(reinterpret_cast<f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), reinterpret_cast<f32*>(row[3] + none), tile, shared);
    }
  }
}
