// fragment 0, kernel 0: 512 blocks of 256 threads, cooperative

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// sum of %2
__device__ __forceinline__ void group_0_0(const f32* __restrict__ in0, f32* __restrict__ scratch0, const int tile) {
  // axes  i: 4 = grid 4; j: 128 = warp 8, grid 16; k: 1024 = vector 4, lane 32, register 8
  const int k_lane = static_cast<int>(threadIdx.x) % 32;
  const int j_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_grid = tile % 16;
  const int i_grid = tile / 16;
  const int i = i_grid;
  const int j = j_warp + j_grid * 8;
  const int k0 = k_lane * 4;

  // sweep 0: reduce 2
  f32 sum0 = 0.0f;
  {
    f32 in0_0[8][4];
    #pragma unroll
    for (int k_r = 0; k_r < 8; ++k_r) {
      const int k = k0 + k_r * 128;
      load<4, Cached::streamed>(in0_0[k_r], in0 + (i * 131072 + j * 1024 + k));
    }
    #pragma unroll
    for (int k_r = 0; k_r < 8; ++k_r) {
      const int k = k0 + k_r * 128;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        sum0 += in0_0[k_r][v];
      }
    }
  }
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);

  // sweep 1: store 2
  {
    if (k_lane == 0) {
      scratch0[(i * 128 + j)] = sum0;
    }
  }
}

// scan of %3
__device__ __forceinline__ void group_1_0(f32* __restrict__ scratch0, f32* __restrict__ scratch1, const int tile) {
  // axes  i: 4 = warp 4; j: 128 = vector 4, lane 32
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int i = i_warp;
  const int j = j_lane * 4;
  const bool active = threadIdx.x < 128;

  // running sum along the axis, 4 a thread, 32 lanes
  f32 total0{};
  bool begun = false;
  for (int first = 0; first < 128; first += 128) {
    const int step = first + j_lane * 4;
    f32 run0[4];
    const bool inside = active && step < 128;
    const int j = step < 128 ? step : 0;
    f32 scratch0_0[4];
    if (inside) {
      load<4, Cached::shared_between_blocks>(scratch0_0, scratch0 + (i * 128 + j));
    }
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      run0[v] = static_cast<f32>(scratch0_0[v]);
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
    f32 part0 = __shfl_sync(0xffffffffu, lanes0, 31);
    if (begun) part0 = Sum::combine(total0, part0);
    total0 = part0;
    begun = true;
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
    if (!any) before0 = 0.0f;
    if (inside) {
      f32 result0[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) result0[v] = narrow<f32>(static_cast<f32>((v == 0 ? before0 : run0[v == 0 ? 0 : v - 1])));
      store<4>(scratch1 + (i * 128 + j), result0);
    }
  }
}

// scan of %11; 1 add, 1 compare, 1 select
__device__ __forceinline__ void group_2_0(const f32* __restrict__ in0, f32* __restrict__ scratch0, f32* __restrict__ out0, const int tile) {
  // axes  i: 4 = grid 4; j: 128 = grid 128; k: 1024 = vector 4, lane 32, warp 8
  const int k_lane = static_cast<int>(threadIdx.x) % 32;
  const int k_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_grid = tile % 128;
  const int i_grid = tile / 128;
  const int i = i_grid;
  const int j = j_grid;
  const int k = (k_lane + 32 * k_warp) * 4;

  // running sum along the axis, 4 a thread, 32 lanes, 8 warps
  f32 total0{};
  bool begun = false;
  __shared__ f32 of_warp0[2][8][1];
  for (int first = 0; first < 1024; first += 1024) {
    const int step = first + (k_lane + 32 * k_warp) * 4;
    const int turn = first / 1024 % 2;
    f32 run0[4];
    const bool inside = step < 1024;
    const int k = step < 1024 ? step : 0;
    const f32 scratch0_4 = load_one<Cached::shared_between_blocks>(&scratch0[(i * 128 + j)]);
    f32 in0_3[4];
    if (inside) {
      load<4, Cached::streamed>(in0_3, in0 + (i * 131072 + j * 1024 + k));
    }
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const bool compare_2 = static_cast<s32>((k + v)) == 0;
      const f32 add_5 = in0_3[v] + scratch0_4;
      const f32 select_6 = compare_2 ? add_5 : in0_3[v];
      run0[v] = static_cast<f32>(select_6);
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
      if (k_lane >= distance) lanes0 = Sum::combine(lower0, lanes0);
    }
    f32 earlier0 = __shfl_up_sync(0xffffffffu, lanes0, 1);
    f32 before0;
    before0 = total0;
    bool any = begun;
    if (k_lane == 31) {
      of_warp0[turn][k_warp][0] = lanes0;
    }
    __syncthreads();
    #pragma unroll
    for (int w = 0; w < 8; ++w) {
      if (w == k_warp) {
        before0 = total0;
        any = begun;
      }
      f32 part0 = of_warp0[turn][w][0];
      if (begun) part0 = Sum::combine(total0, part0);
      total0 = part0;
      begun = true;
    }
    if (k_lane > 0) {
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
      store<4>(out0 + (i * 131072 + j * 1024 + k), result0);
    }
  }
  __syncthreads();
}

}  // namespace

struct Table {
  u64 words[8];
};

extern "C" __global__ void __launch_bounds__(256, 4)
stitch_2885d620a29d(const __grid_constant__ Table table) {
  const auto none = await_predecessor();
  u32* const counters = reinterpret_cast<u32*>(table.words[0]);
  {
    const int tile = static_cast<int>(blockIdx.x);
    if (tile < 64) {
      const u64* const row = table.words + 1;
      group_0_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile);
    }
  }

  // for the block that arrives last, while the others wait
  if (arrives_last_at_gate(counters + 0, gridDim.x)) {
    {
      const int tile = 0;
      const u64* const row = table.words + 3;
      group_1_0(reinterpret_cast<f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), tile);
    }

    open_gate(counters + 0);
  }
  {
    const int tile = static_cast<int>(blockIdx.x);
    const u64* const row = table.words + 5;
    group_2_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), tile);
  }
}
