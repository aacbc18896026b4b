// fragment 0, kernel 0: 1024 blocks of 256 threads, 64 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// sum of %8, sum of %14; 2 add, 5 multiply, 1 rsqrt, 1 subtract
extern "C" __global__ void __launch_bounds__(256, 4)
stitch_99e22eb365fb(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, f32* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 4096 = warp 4, grid 1024; j: 768 = vector 4, lane 32, warp 2, register 3
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int j_warp = static_cast<int>(threadIdx.x) / 32 % 2;
  const int i_warp = static_cast<int>(threadIdx.x) / 64;
  const int i_grid = tile;
  const int i = i_warp + i_grid * 4;
  const int j0 = (j_lane + 32 * j_warp) * 4;
  await_predecessor(in0, in1, in2, out0);
  f32 in0_0[3][4];
  f32 subtract_4[3][4];

  // sweep 0: reduce 8
  f32 sum0 = 0.0f;
  {
    #pragma unroll
    for (int j_r = 0; j_r < 3; ++j_r) {
      const int j = j0 + j_r * 256;
      load<4, Cached::streamed>(in0_0[j_r], in0 + (i * 768 + j));
    }
    #pragma unroll
    for (int j_r = 0; j_r < 3; ++j_r) {
      const int j = j0 + j_r * 256;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        sum0 += in0_0[j_r][v];
      }
    }
  }
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);
  f32* const partial0 = reinterpret_cast<f32*>(shared);
  if (j_lane == 0) {
    partial0[i_warp * 2 + j_warp] = sum0;
  }
  __syncthreads();
  sum0 = reduce_shared<Sum, 2, 1>(partial0 + (i_warp) * 2);

  // sweep 1: reduce 14
  f32 sum1 = 0.0f;
  const f32 multiply_3 = 0.0013020834f * sum0;
  {
    #pragma unroll
    for (int j_r = 0; j_r < 3; ++j_r) {
      const int j = j0 + j_r * 256;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        subtract_4[j_r][v] = in0_0[j_r][v] - multiply_3;
        const f32 multiply_5 = subtract_4[j_r][v] * subtract_4[j_r][v];
        sum1 += multiply_5;
      }
    }
  }
  sum1 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum1);
  f32* const partial1 = reinterpret_cast<f32*>(shared + 32);
  if (j_lane == 0) {
    partial1[i_warp * 2 + j_warp] = sum1;
  }
  __syncthreads();
  sum1 = reduce_shared<Sum, 2, 1>(partial1 + (i_warp) * 2);

  // sweep 2: store 21
  const f32 multiply_10 = 0.0013020834f * sum1;
  const f32 add_11 = 1e-05f + multiply_10;
  const f32 rsqrt_12 = rsqrtf(add_11);
  {
    f32 in1_6[3][4];
    f32 in2_7[3][4];
    #pragma unroll
    for (int j_r = 0; j_r < 3; ++j_r) {
      const int j = j0 + j_r * 256;
      load<4, Cached::streamed>(in1_6[j_r], in1 + j);
      load<4, Cached::streamed>(in2_7[j_r], in2 + j);
    }
    #pragma unroll
    for (int j_r = 0; j_r < 3; ++j_r) {
      const int j = j0 + j_r * 256;
      f32 result_2[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_13 = subtract_4[j_r][v] * rsqrt_12;
        const f32 multiply_14 = in2_7[j_r][v] * multiply_13;
        const f32 add_15 = in1_6[j_r][v] + multiply_14;
        result_2[v] = add_15;
      }
      store<4>(out0 + (i * 768 + j), result_2);
    }
  }
}
