// fragment 0, kernel 0: 2048 blocks of 128 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// 1 add
extern "C" __global__ void __launch_bounds__(128, 16)
stitch_2e24eff01c39(const bf16* __restrict__ in0, const bf16* __restrict__ in1, bf16* __restrict__ out0) {
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 2048 = lane 8, warp 4, grid 64; j: 1000 = vector 8, lane 4, grid 32
  const int j_lane = static_cast<int>(threadIdx.x) % 4;
  const int i_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_grid = tile % 32;
  const int i_grid = tile / 32;
  const int i = (i_lane + 8 * i_warp) + i_grid * 32;
  const int j = j_lane * 8 + j_grid * 32;
  await_predecessor(in0, in1, out0);

  // sweep 0: store 3
  Packed<bf16, 8> in0_0;
  Packed<bf16, 8> in1_1;
  if (j < 1000) {
    load<8, Cached::streamed>(in0_0, in0 + (i * 1000 + j));
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      in1_1[v] = load_one<Cached::streamed>(&in1[(i + (j + v) * 2048)]);
    }
    bf16 result_0[8];
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const f32 add_2 = widen(in0_0[v]) + widen(in1_1[v]);
      result_0[v] = narrow<bf16>(add_2);
    }
    store<8>(out0 + (i * 1000 + j), result_0);
  }
}
