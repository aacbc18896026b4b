// fragment 0, kernel 0: 768 blocks of 128 threads, 32 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// max of %22, sum of %26; 1 bitcast-convert, 1 compare, 1 divide, 1 exp, 3 multiply, 1 or, 2 select, 1 shift-right-logical, 1 subtract, 2 threefry2x32, 1 xor
extern "C" __global__ void __launch_bounds__(128, 6)
stitch_aabbefa412cc(const pred* __restrict__ in0, const f32* __restrict__ in1, const u32* __restrict__ in2, f32* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 2 = grid 2; j: 768 = warp 2, grid 384; k: 512 = vector 4, lane 32, warp 2, register 2
  const int k_lane = static_cast<int>(threadIdx.x) % 32;
  const int k_warp = static_cast<int>(threadIdx.x) / 32 % 2;
  const int j_warp = static_cast<int>(threadIdx.x) / 64;
  const int j_grid = tile % 384;
  const int i_grid = tile / 384;
  const int i = i_grid;
  const int j = j_warp + j_grid * 2;
  const int k0 = (k_lane + 32 * k_warp) * 4;
  await_predecessor(in0, in1, in2, out0);
  f32 select_5[2][4];
  f32 exp_8[2][4];

  // sweep 0: reduce 22
  f32 max0 = __int_as_float(0xff800000);
  {
    Packed<pred, 4> in0_0[2];
    f32 in1_1[2][4];
    #pragma unroll
    for (int k_r = 0; k_r < 2; ++k_r) {
      const int k = k0 + k_r * 256;
      load<4, Cached::streamed>(in0_0[k_r], in0 + (i * 512 + k));
      load<4, Cached::streamed>(in1_1[k_r], in1 + (i * 393216 + j * 512 + k));
    }
    #pragma unroll
    for (int k_r = 0; k_r < 2; ++k_r) {
      const int k = k0 + k_r * 256;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_3 = in1_1[k_r][v] * 0.125f;
        select_5[k_r][v] = widen(in0_0[k_r][v]) ? multiply_3 : (-1000000000.0f);
        max0 = Max::combine(max0, select_5[k_r][v]);
      }
    }
  }
  max0 = reduce_lanes<Max, 16, 8, 4, 2, 1>(max0);
  f32* const partial0 = reinterpret_cast<f32*>(shared);
  if (k_lane == 0) {
    partial0[j_warp * 2 + k_warp] = max0;
  }
  __syncthreads();
  max0 = reduce_shared<Max, 2, 1>(partial0 + (j_warp) * 2);

  // sweep 1: reduce 26
  f32 sum1 = 0.0f;
  {
    #pragma unroll
    for (int k_r = 0; k_r < 2; ++k_r) {
      const int k = k0 + k_r * 256;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 subtract_7 = select_5[k_r][v] - max0;
        exp_8[k_r][v] = exponential(subtract_7);
        sum1 += exp_8[k_r][v];
      }
    }
  }
  sum1 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum1);
  f32* const partial1 = reinterpret_cast<f32*>(shared + 16);
  if (k_lane == 0) {
    partial1[j_warp * 2 + k_warp] = sum1;
  }
  __syncthreads();
  sum1 = reduce_shared<Sum, 2, 1>(partial1 + (j_warp) * 2);

  // sweep 2: store 47
  const u32 in2_10 = load_one<Cached::streamed>(&in2[0]);
  const u32 in2_11 = load_one<Cached::streamed>(&in2[1]);
  const f32 divide_26 = 1.0f / sum1;
  const f32 multiply_27 = 1.1111112f * divide_26;
  {
    #pragma unroll
    for (int k_r = 0; k_r < 2; ++k_r) {
      const int k = k0 + k_r * 256;
      f32 result_2[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const u32 threefry2x32_14 = threefry2x32(in2_10, in2_11, 0u, static_cast<u32>((i * 393216 + j * 512 + (k + v)))).first;
        const u32 threefry2x32_15 = threefry2x32(in2_10, in2_11, 0u, static_cast<u32>((i * 393216 + j * 512 + (k + v)))).second;
        const u32 xor_16 = (threefry2x32_14 ^ threefry2x32_15);
        const u32 shift_right_logical_18 = shift_right_logical(xor_16, 9u);
        const u32 or_19 = (1065353216u | shift_right_logical_18);
        const f32 bitcast_convert_20 = widen(bitcast<f32>(narrow<u32>(or_19)));
        const bool compare_22 = bitcast_convert_20 < 1.9f;
        const f32 multiply_28 = exp_8[k_r][v] * multiply_27;
        const f32 select_30 = compare_22 ? multiply_28 : 0.0f;
        result_2[v] = select_30;
      }
      store<4>(out0 + (i * 393216 + j * 512 + k), result_2);
    }
  }
}
