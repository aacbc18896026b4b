// fragment 0, kernel 0: 16 blocks of 128 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// scan of %1
extern "C" __global__ void __launch_bounds__(128, 1)
stitch_9be80fe18557(const f32* __restrict__ in0, f32* __restrict__ out0) {
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 64 = warp 4, grid 16; j: 1000 = lane 32, loop 32
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = i_warp + i_grid * 4;
  const int j0 = j_lane;

  // running sum along the axis, 32 elements of a warp at a time
  f32 total = 0.0f;
  for (int first = 0; first < 1000; first += 32) {
    const int step = first + j_lane;
    const bool inside = step < 1000;
    const int j = inside ? step : 0;
    const f32 in0_0 = j < 1000 ? load_one<Cached::streamed>(&in0[(i * 1000 + j)]) : 0.0f;
    f32 running = inside ? static_cast<f32>(in0_0) : 0.0f;
    #pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const f32 before = __shfl_up_sync(0xffffffffu, running, distance);
      if (j_lane >= distance) running = Sum::combine(before, running);
    }
    running = Sum::combine(total, running);
    if (inside) out0[(i * 1000 + j)] = narrow<f32>(static_cast<f32>(running));
    total = __shfl_sync(0xffffffffu, running, 31);
  }
}
