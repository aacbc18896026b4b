// fragment 0, kernel 0: 256 blocks of 256 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// 1 multiply, 1 select
extern "C" __global__ void __launch_bounds__(256, 2)
stitch_d6aec006f520(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, f32* __restrict__ out0) {
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 256 = grid 256; j: 350 = vector 2, lane 32, warp 8
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int j_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = i_grid;
  const int j = (j_lane + 32 * j_warp) * 2;
  await_predecessor(in0, in1, in2, out0);

  // sweep 0: store 8
  f32 in0_1[2];
  f32 in1_3[2];
  f32 in2_5[2];
  if (j < 350) {
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
      in0_1[v] = ((-(j + v) + 349) < 203) ? load_one<Cached::streamed>(&in0[(i * 300 - (j + v) + 446)]) : f32{};
    }
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
      in1_3[v] = ((-(j + v) + 349) >= 203) ? load_one<Cached::streamed>(&in1[(i * 212 - (j + v) + 146)]) : f32{};
    }
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
      in2_5[v] = load_one<Cached::streamed>(&in2[(i * 700 - (j + v) * 2 + 698)]);
    }
    f32 result_0[2];
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
      const f32 select_4 = ((-(j + v) + 349) >= 203) ? in1_3[v] : in0_1[v];
      const f32 multiply_6 = select_4 * in2_5[v];
      result_0[v] = multiply_6;
    }
    store<2>(out0 + (i * 350 + j), result_0);
  }
}
