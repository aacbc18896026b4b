// fragment 0, kernel 0: 576 blocks of 128 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// copy
extern "C" __global__ void __launch_bounds__(128, 5)
stitch_8818ce6558fd(const f32* __restrict__ in0, f32* __restrict__ out0, f32* __restrict__ out1, f32* __restrict__ out2) {
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 96 = vector 4, lane 4, grid 6; j: 24 = grid 24; k: 104 = lane 8, warp 4, grid 4
  const int i_lane = static_cast<int>(threadIdx.x) % 4;
  const int k_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int k_warp = static_cast<int>(threadIdx.x) / 32;
  const int k_grid = tile % 4;
  const int j_grid = tile / 4 % 24;
  const int i_grid = tile / 96;
  const int i = i_lane * 4 + i_grid * 16;
  const int j = j_grid;
  const int k = (k_lane + 8 * k_warp) + k_grid * 32;
  await_predecessor(in0, out0, out1, out2);

  // sweep 0: store 1, store 2, store 3
  f32 in0_0[4];
  if (k < 104) {
    load<4, Cached::streamed>(in0_0, in0 + (i + j * 9984 + k * 96));
    f32 result_1[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      out0[((i + v) * 2496 + j * 104 + k)] = in0_0[v];
      result_1[v] = in0_0[v];
      out2[((i + v) * 2496 + j + k * 24)] = in0_0[v];
    }
    store<4>(out1 + (i + j * 96 + k * 2304), result_1);
  }
}
