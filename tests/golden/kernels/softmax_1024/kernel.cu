// fragment 0, kernel 0: 1024 blocks of 128 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// max of %1, sum of %7; 1 divide, 1 exp, 1 multiply, 1 subtract
extern "C" __global__ void __launch_bounds__(128, 8)
stitch_f513f90765f1(const f32* __restrict__ in0, f32* __restrict__ out0) {
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 4096 = warp 4, grid 1024; j: 1024 = vector 4, lane 32, register 8
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = i_warp + i_grid * 4;
  const int j0 = j_lane * 4;
  await_predecessor(in0, out0);
  f32 in0_0[8][4];
  f32 exp_3[8][4];

  // sweep 0: reduce 1
  f32 max0 = __int_as_float(0xff800000);
  {
    #pragma unroll
    for (int j_r = 0; j_r < 8; ++j_r) {
      const int j = j0 + j_r * 128;
      load<4, Cached::streamed>(in0_0[j_r], in0 + (i * 1024 + j));
    }
    #pragma unroll
    for (int j_r = 0; j_r < 8; ++j_r) {
      const int j = j0 + j_r * 128;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        max0 = Max::combine(max0, in0_0[j_r][v]);
      }
    }
  }
  max0 = reduce_lanes<Max, 16, 8, 4, 2, 1>(max0);

  // sweep 1: reduce 7
  f32 sum1 = 0.0f;
  {
    #pragma unroll
    for (int j_r = 0; j_r < 8; ++j_r) {
      const int j = j0 + j_r * 128;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 subtract_2 = in0_0[j_r][v] - max0;
        exp_3[j_r][v] = exponential(subtract_2);
        sum1 += exp_3[j_r][v];
      }
    }
  }
  sum1 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum1);

  // sweep 2: store 10
  const f32 divide_6 = 1.0f / sum1;
  {
    #pragma unroll
    for (int j_r = 0; j_r < 8; ++j_r) {
      const int j = j0 + j_r * 128;
      f32 result_2[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_7 = exp_3[j_r][v] * divide_6;
        result_2[v] = multiply_7;
      }
      store<4>(out0 + (i * 1024 + j), result_2);
    }
  }
}
