// fragment 0, kernel 0: 64 blocks of 256 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// scan of %1
extern "C" __global__ void __launch_bounds__(256, 1)
stitch_9be80fe18557(const f32* __restrict__ in0, f32* __restrict__ out0) {
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 64 = grid 64; j: 1000 = vector 4, lane 32, warp 8
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int j_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = i_grid;
  const int j = (j_lane + 32 * j_warp) * 4;
  await_predecessor(in0, out0);

  // running sum along the axis, 4 a thread, 32 lanes, 8 warps
  f32 total0{};
  bool begun = false;
  __shared__ f32 of_warp0[2][8][1];
  for (int first = 0; first < 1000; first += 1024) {
    const int step = first + (j_lane + 32 * j_warp) * 4;
    const int turn = first / 1024 % 2;
    f32 run0[4];
    const bool inside = step < 1000;
    const int j = step < 1000 ? step : 0;
    f32 in0_0[4];
    if (inside) {
      load<4, Cached::streamed>(in0_0, in0 + (i * 1000 + j));
    }
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      run0[v] = static_cast<f32>(in0_0[v]);
    }
    #pragma unroll
    for (int r = 1; r < 4; ++r) {
      run0[r] = Sum::combine(run0[r - 1], run0[r]);
    }
    f32 lanes0;
    lanes0 = run0[3];
    #pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const f32 lower0 = __shfl_up_sync(0xffffffffu, lanes0, distance);
      if (j_lane >= distance) lanes0 = Sum::combine(lower0, lanes0);
    }
    f32 earlier0 = __shfl_up_sync(0xffffffffu, lanes0, 1);
    f32 before0;
    before0 = total0;
    bool any = begun;
    if (j_lane == 31) {
      of_warp0[turn][j_warp][0] = lanes0;
    }
    __syncthreads();
    #pragma unroll
    for (int w = 0; w < 8; ++w) {
      if (w == j_warp) {
        before0 = total0;
        any = begun;
      }
      f32 part0 = of_warp0[turn][w][0];
      if (begun) part0 = Sum::combine(total0, part0);
      total0 = part0;
      begun = true;
    }
    if (j_lane > 0) {
      if (any) earlier0 = Sum::combine(before0, earlier0);
      before0 = earlier0;
      any = true;
    }
    if (any) {
      #pragma unroll
      for (int r = 0; r < 4; ++r) {
        run0[r] = Sum::combine(before0, run0[r]);
      }
    }
    if (inside) {
      f32 result0[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) result0[v] = narrow<f32>(static_cast<f32>(run0[v]));
      store<4>(out0 + (i * 1000 + j), result0);
    }
  }
  __syncthreads();
}
