// fragment 0, kernel 0: 512 blocks of 256 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// 1 add, 1 cos, 5 multiply, 1 sin, 1 subtract
extern "C" __global__ void __launch_bounds__(256, 4)
stitch_4ae6a870dc44(const f32* __restrict__ in0, const f32* __restrict__ in1, f32* __restrict__ out0) {
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 32 = grid 32; j: 512 = lane 4, warp 8, grid 16; k: 32 = vector 4, lane 8
  const int k_lane = static_cast<int>(threadIdx.x) % 8;
  const int j_lane = static_cast<int>(threadIdx.x) / 8 % 4;
  const int j_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_grid = tile % 16;
  const int i_grid = tile / 16;
  const int i = i_grid;
  const int j = (j_lane + 4 * j_warp) + j_grid * 32;
  const int k = k_lane * 4;
  await_predecessor(in0, in1, out0);

  // sweep 0: store 15, store 17
  f32 in0_0[4];
  f32 in1_1[4];
  f32 in0_6[4];
  load<4, Cached::streamed>(in0_0, in0 + (i * 32768 + j * 64 + k));
  load<4, Cached::streamed>(in1_1, in1 + k);
  load<4, Cached::streamed>(in0_6, in0 + (i * 32768 + j * 64 + k + 32));
  f32 result_0[4];
  f32 result_1[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    const f32 multiply_3 = in1_1[v] * static_cast<f32>(j);
    const f32 cos_4 = cosine(multiply_3);
    const f32 multiply_5 = in0_0[v] * cos_4;
    const f32 sin_7 = sine(multiply_3);
    const f32 multiply_8 = in0_6[v] * sin_7;
    const f32 subtract_9 = multiply_5 - multiply_8;
    const f32 multiply_10 = in0_6[v] * cos_4;
    const f32 multiply_11 = in0_0[v] * sin_7;
    const f32 add_12 = multiply_10 + multiply_11;
    result_0[v] = subtract_9;
    result_1[v] = add_12;
  }
  store<4>(out0 + (i * 32768 + j * 64 + k), result_0);
  store<4>(out0 + (i * 32768 + j * 64 + k + 32), result_1);
}
