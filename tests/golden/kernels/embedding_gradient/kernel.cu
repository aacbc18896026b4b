// fragment 0, kernel 0: 63 blocks of 512 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// scatter of %4
extern "C" __global__ void __launch_bounds__(512, 1)
stitch_9abe76edd9bc(const s32* __restrict__ in0, const f32* __restrict__ in1, f32* __restrict__ out0) {
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 64000 = lane 32, register 32, grid 63; j: 256 = loop 256
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_grid = tile;
  const int i0 = i_lane + i_grid * 1024;
  const int j0 = 0;
  const bool active = threadIdx.x < 32;

  // sum of 256 updates per element, tested one after the other
  f32 total[32];
#pragma unroll
  for (int i_r = 0; i_r < 32; ++i_r) {
    const int i = i0 + i_r * 32;
    if (i < 64000 && active) {
      total[i_r] = static_cast<f32>(0.0f);
    }
  }
  for (int j = 0; j < 256; ++j) {
    #pragma unroll
    for (int i_r = 0; i_r < 32; ++i_r) {
      const int i = i0 + i_r * 32;
      if (i < 64000 && active) {
        const s32 in0_1 = active ? load_one<Cached::streamed>(&in0[j]) : 0;
        const bool compare_3 = in0_1 >= 0;
        const bool compare_5 = in0_1 <= 999;
        const bool and_6 = compare_3 && compare_5;
        const bool inside_7 = ((i / 64) - static_cast<int>(minimum<s64>(maximum<s64>(in0_1, 0), 999))) >= 0 && ((i / 64) - static_cast<int>(minimum<s64>(maximum<s64>(in0_1, 0), 999))) < 1;
        const bool and_8 = and_6 && inside_7;
        if (and_8) {
          const f32 in1_9 = i < 64000 && active && and_8 ? load_one<Cached::streamed>(&in1[(j * 64 + (i % 64))]) : 0.0f;
          total[i_r] = Sum::combine(total[i_r], static_cast<f32>(in1_9));
        }
      }
    }
  }
#pragma unroll
  for (int i_r = 0; i_r < 32; ++i_r) {
    const int i = i0 + i_r * 32;
    if (i < 64000 && active) {
      out0[i] = narrow<f32>(static_cast<f32>(total[i_r]));
    }
  }
}
