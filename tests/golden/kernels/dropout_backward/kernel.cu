// fragment 0, kernel 0: 1024 blocks of 256 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// 1 bitcast-convert, 1 compare, 2 multiply, 1 or, 2 select, 1 shift-right-logical, 2 threefry2x32, 1 xor
extern "C" __global__ void __launch_bounds__(256, 4)
stitch_fe45928257cb(const u32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, f32* __restrict__ out0, f32* __restrict__ out1) {
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 2097152 = vector 4, lane 32, warp 8, register 2, grid 1024
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i0 = (i_lane + 32 * i_warp) * 4 + i_grid * 2048;
  await_predecessor(in0, in1, in2, out0, out1);

  // sweep 0: store 30, store 32
  const u32 in0_1 = load_one<Cached::streamed>(&in0[0]);
  const u32 in0_2 = load_one<Cached::streamed>(&in0[1]);
  f32 in1_14[2][4];
  f32 in2_19[2][4];
#pragma unroll
  for (int i_r = 0; i_r < 2; ++i_r) {
    const int i = i0 + i_r * 1024;
    load<4, Cached::streamed>(in1_14[i_r], in1 + i);
    load<4, Cached::streamed>(in2_19[i_r], in2 + i);
  }
#pragma unroll
  for (int i_r = 0; i_r < 2; ++i_r) {
    const int i = i0 + i_r * 1024;
    f32 result_0[4];
    f32 result_1[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const u32 threefry2x32_5 = threefry2x32(in0_1, in0_2, 0u, static_cast<u32>((i + v))).first;
      const u32 threefry2x32_6 = threefry2x32(in0_1, in0_2, 0u, static_cast<u32>((i + v))).second;
      const u32 xor_7 = (threefry2x32_5 ^ threefry2x32_6);
      const u32 shift_right_logical_9 = shift_right_logical(xor_7, 9u);
      const u32 or_10 = (1065353216u | shift_right_logical_9);
      const f32 bitcast_convert_11 = widen(bitcast<f32>(narrow<u32>(or_10)));
      const bool compare_13 = bitcast_convert_11 < 1.875f;
      const f32 multiply_16 = in1_14[i_r][v] * 1.1428572f;
      const f32 select_18 = compare_13 ? multiply_16 : 0.0f;
      const f32 multiply_20 = in2_19[i_r][v] * 1.1428572f;
      const f32 select_21 = compare_13 ? multiply_20 : 0.0f;
      result_0[v] = select_18;
      result_1[v] = select_21;
    }
    store<4>(out0 + i, result_0);
    store<4>(out1 + i, result_1);
  }
}
