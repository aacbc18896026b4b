// fragment 0, kernel 0: 128 blocks of 128 threads, 32800 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// partial max-exp-sum of %2
__device__ __forceinline__ void group_0_0(const f32* __restrict__ in0, f32* __restrict__ scratch0, f32* __restrict__ scratch1, const int tile, unsigned char* const shared) {
  // axes  i: 1048576 = vector 4, lane 32, warp 4, register 4, loop 4, grid 128
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i0 = (i_lane + 32 * i_warp) * 4 + i_grid * 2048;
  MaxExpSum<f32> max_sum0{__int_as_float(0xff800000), 0.0f};
  // the next turns' loads, on their way to shared memory while this one's are used
  const auto ask = [&](const int i_loop, const int stage) {
    f32* const in0_0_stage = reinterpret_cast<f32*>(shared + stage * 8192);
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 512 + i_loop * 262144;
      copy_async<4>(in0_0_stage + (i_r * 128 + static_cast<int>(threadIdx.x)) * 4, in0 + (i));
    }
  };
  ask(0, 0);
  commit_copies();
  ask(1, 1);
  commit_copies();
  ask(2, 2);
  commit_copies();
  for (int i_loop = 0; i_loop < 4; ++i_loop) {
    wait_for_groups<2>();
    if ((i_loop + 3) < 4) ask((i_loop + 3), ((i_loop + 3) % 4));
    commit_copies();
    const int stage = i_loop;
    f32* const in0_0_stage = reinterpret_cast<f32*>(shared + stage * 8192);

    // sweep 0: max-exp-sum 2
    f32 in0_0[4][4];
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 512 + i_loop * 262144;
      load<4, Cached::shared>(in0_0[i_r], in0_0_stage + (i_r * 128 + static_cast<int>(threadIdx.x)) * 4);
    }
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 512 + i_loop * 262144;
      f32 run_0[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        run_0[v] = in0_0[i_r][v];
      }
      add_exponentials(max_sum0, run_0);
    }
  }

  // partial results of this tile
  max_sum0 = reduce_lanes<MaxAndExpSum, 16, 8, 4, 2, 1>(max_sum0);
  MaxExpSum<f32>* const partial0 = reinterpret_cast<MaxExpSum<f32>*>(shared + 32768);
  if (i_lane == 0) {
    partial0[0 * 4 + i_warp] = max_sum0;
  }
  __syncthreads();
  max_sum0 = reduce_shared_by_lanes<MaxAndExpSum, 4>(partial0);
  if (i_lane == 0 && i_warp == 0) {
    scratch0[i_grid * 1 + 0] = max_sum0.maximum;
    scratch1[i_grid * 1 + 0] = max_sum0.sum;
  }
}

// max-exp-sum of %2; 1 add, 1 log
__device__ __forceinline__ void group_1_0(f32* __restrict__ scratch0, f32* __restrict__ scratch1, f32* __restrict__ out0, const int tile, unsigned char* const shared) {
  // axes  i: 128 = vector 4, lane 32
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i = i_lane * 4;
  const bool active = threadIdx.x < 32;

  // sweep 0: max-exp-sum 2
  MaxExpSum<f32> max_sum0{__int_as_float(0xff800000), 0.0f};
  {
    f32 scratch0_0[4];
    f32 scratch1_1[4];
    if (active) {
      load<4, Cached::shared_between_blocks>(scratch0_0, scratch0 + i);
      load<4, Cached::shared_between_blocks>(scratch1_1, scratch1 + i);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        max_sum0 = MaxAndExpSum::combine(max_sum0, MaxExpSum<f32>{scratch0_0[v], scratch1_1[v]});
      }
    }
  }
  max_sum0 = reduce_lanes<MaxAndExpSum, 16, 8, 4, 2, 1>(max_sum0);

  // sweep 1: store 4
  const f32 log_4 = logf(complete_sum(max_sum0));
  const f32 add_5 = max_sum0.maximum + log_4;
  {
    if (active) {
      if (i_lane == 0) {
        out0[0] = add_5;
      }
    }
  }
}

}  // namespace

struct Table {
  u64 words[7];
};

extern "C" __global__ void __launch_bounds__(128, 1)
stitch_af41b81e6876(const __grid_constant__ Table table) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto none = await_predecessor();
  u32* const counters = reinterpret_cast<u32*>(table.words[0]);
  {
    const int tile = static_cast<int>(blockIdx.x);
    const u64* const row = table.words + 1;
    group_0_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), tile, shared);
  }

  // what follows is for the block that arrives last
  if (!arrives_last(counters + 0, gridDim.x)) return;
  {
    const int tile = 0;
    const u64* const row = table.words + 4;
    group_1_0(reinterpret_cast<f32*>(row[0] + none), reinterpret_cast<f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), tile, shared);
  }
}
