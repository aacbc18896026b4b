// fragment 0, kernel 0: 64 blocks of 512 threads in clusters of 8, 2176 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// sum of %10, sum of %19; 3 add, 1 maximum, 7 multiply, 1 rsqrt, 1 subtract
extern "C" __global__ void __launch_bounds__(512, 1)
stitch_e754d9dac521(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, f32* __restrict__ out0, f32* __restrict__ out1, f32* __restrict__ out2) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x / 8);
  // axes  i: 12544 = lane 8, warp 16, register 13, cluster 8; j: 128 = vector 4, lane 4, grid 8
  const int j_lane = static_cast<int>(threadIdx.x) % 4;
  const int i_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_cluster = static_cast<int>(blockIdx.x % 8);  // rank in the cluster
  const int j_grid = tile;
  const int i0 = (i_lane + 8 * i_warp) + i_cluster * 1664;
  const int j = j_lane * 4 + j_grid * 16;
  await_predecessor(in0, in1, in2, in3, out0, out1, out2);
  f32 in0_0[13][4];
  f32 subtract_4[13][4];

  // sweep 0: reduce 10
  f32 sum0[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = 0.0f;
  }
  {
    #pragma unroll
    for (int i_r = 0; i_r < 13; ++i_r) {
      const int i = i0 + i_r * 128;
      if (i < 12544) {
        load<4, Cached::streamed>(in0_0[i_r], in0 + (i * 128 + j));
      }
    }
    #pragma unroll
    for (int i_r = 0; i_r < 13; ++i_r) {
      const int i = i0 + i_r * 128;
      if (i < 12544) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          sum0[v] += in0_0[i_r][v];
        }
      }
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
      partial0[i_warp * 16 + j_lane * 4 + v] = sum0[v];
    }
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = reduce_shared<Sum, 16, 16>(partial0 + j_lane * 4 + v);
  }
  if (i_lane == 0 && i_warp == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      (partial0 + 256)[j_lane * 4 + v] = sum0[v];
    }
  }
  cluster_barrier();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = reduce_cluster<Sum, 8>((partial0 + 256) + j_lane * 4 + v);
  }

  // sweep 1: reduce 19, store 23
  f32 sum1[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = 0.0f;
  }
  {
    f32 in1_8[4];
    f32 multiply_3[4];
    load<4, Cached::streamed>(in1_8, in1 + j);
    f32 result_3[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      multiply_3[v] = sum0[v] * 7.9719386e-05f;
      const f32 multiply_10 = in1_8[v] * 0.9f;
      const f32 multiply_12 = 0.1f * multiply_3[v];
      const f32 add_13 = multiply_10 + multiply_12;
      result_3[v] = add_13;
    }
    if (i_lane == 0 && i_warp == 0 && i_cluster == 0) {
      store<4>(out1 + j, result_3);
    }
    #pragma unroll
    for (int i_r = 0; i_r < 13; ++i_r) {
      const int i = i0 + i_r * 128;
      if (i < 12544) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          subtract_4[i_r][v] = in0_0[i_r][v] - multiply_3[v];
          const f32 multiply_5 = subtract_4[i_r][v] * subtract_4[i_r][v];
          sum1[v] += multiply_5;
        }
      }
    }
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = reduce_lanes<Sum, 16, 8, 4>(sum1[v]);
  }
  f32* const partial1 = reinterpret_cast<f32*>(shared + 1088);
  if (i_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial1[i_warp * 16 + j_lane * 4 + v] = sum1[v];
    }
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = reduce_shared<Sum, 16, 16>(partial1 + j_lane * 4 + v);
  }
  if (i_lane == 0 && i_warp == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      (partial1 + 256)[j_lane * 4 + v] = sum1[v];
    }
  }
  cluster_barrier();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = reduce_cluster<Sum, 8>((partial1 + 256) + j_lane * 4 + v);
  }
  cluster_arrive();  // the others may leave: their shared memory has been read

  // sweep 2: store 20, store 31
  {
    f32 in2_15[4];
    f32 in3_16[4];
    f32 multiply_20[4];
    load<4, Cached::streamed>(in2_15, in2 + j);
    load<4, Cached::streamed>(in3_16, in3 + j);
    f32 result_2[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_7 = 7.9719386e-05f * sum1[v];
      const f32 add_18 = 1e-05f + multiply_7;
      const f32 rsqrt_19 = rsqrtf(add_18);
      multiply_20[v] = in3_16[v] * rsqrt_19;
      result_2[v] = multiply_7;
    }
    if (i_lane == 0 && i_warp == 0 && i_cluster == 0) {
      store<4>(out0 + j, result_2);
    }
    #pragma unroll
    for (int i_r = 0; i_r < 13; ++i_r) {
      const int i = i0 + i_r * 128;
      if (i < 12544) {
        f32 result_4[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const f32 multiply_21 = subtract_4[i_r][v] * multiply_20[v];
          const f32 add_22 = in2_15[v] + multiply_21;
          const f32 maximum_23 = maximum(0.0f, add_22);
          result_4[v] = maximum_23;
        }
        store<4>(out2 + (i * 128 + j), result_4);
      }
    }
  }
  cluster_wait();
}
