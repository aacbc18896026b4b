// fragment 0, kernel 0: 64 blocks of 512 threads, 131200 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// max of %4, sum of %22; 1 compare, 1 convert, 1 divide, 1 exp, 2 multiply, 2 subtract
__device__ __forceinline__ void group_0_0(const f32* __restrict__ in0, const s32* __restrict__ in1, f32* __restrict__ scratch0, f32* __restrict__ scratch1, f32* __restrict__ out0, const int tile, unsigned char* const shared) {
  // axes  i: 64 = grid 64; j: 32000 = vector 4, lane 32, warp 16, register 4, loop 4
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int j_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = i_grid;
  const int j0 = (j_lane + 32 * j_warp) * 4;
  f32* const in0_0_kept = reinterpret_cast<f32*>(shared);  // 512 threads × 64 elements
  f32* const exp_3_kept = reinterpret_cast<f32*>(shared);  // 512 threads × 64 elements

  // sweep 0: reduce 4
  f32 max0 = __int_as_float(0xff800000);
  for (int j_loop = 0; j_loop < 4; ++j_loop) {
    #pragma unroll
    for (int j_r = 0; j_r < 4; ++j_r) {
      const int j = j0 + j_r * 2048 + j_loop * 8192;
      if (j < 32000) {
        copy_async<4>(in0_0_kept + ((j_loop * 4 + j_r) * 512 + static_cast<int>(threadIdx.x)) * 4, in0 + ((i * 32000 + j)));
      }
    }
  }
  wait_for_copies();
  for (int j_loop = 0; j_loop < 3; ++j_loop) {
    f32 in0_0[4][4];
    #pragma unroll
    for (int j_r = 0; j_r < 4; ++j_r) {
      const int j = j0 + j_r * 2048 + j_loop * 8192;
      load<4, Cached::shared>(in0_0[j_r], in0_0_kept + ((j_loop * 4 + j_r) * 512 + static_cast<int>(threadIdx.x)) * 4);
    }
    #pragma unroll
    for (int j_r = 0; j_r < 4; ++j_r) {
      const int j = j0 + j_r * 2048 + j_loop * 8192;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        max0 = Max::combine(max0, in0_0[j_r][v]);
      }
    }
  }
  for (int j_loop = 3; j_loop < 4; ++j_loop) {
    f32 in0_0[4][4];
    #pragma unroll
    for (int j_r = 0; j_r < 4; ++j_r) {
      const int j = j0 + j_r * 2048 + j_loop * 8192;
      if (j < 32000) {
        load<4, Cached::shared>(in0_0[j_r], in0_0_kept + ((j_loop * 4 + j_r) * 512 + static_cast<int>(threadIdx.x)) * 4);
      }
    }
    #pragma unroll
    for (int j_r = 0; j_r < 4; ++j_r) {
      const int j = j0 + j_r * 2048 + j_loop * 8192;
      if (j < 32000) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          max0 = Max::combine(max0, in0_0[j_r][v]);
        }
      }
    }
  }
  max0 = reduce_lanes<Max, 16, 8, 4, 2, 1>(max0);
  f32* const partial0 = reinterpret_cast<f32*>(shared + 131072);
  if (j_lane == 0) {
    partial0[0 * 16 + j_warp] = max0;
  }
  __syncthreads();
  max0 = reduce_shared<Max, 16, 1>(partial0 + (0) * 16);

  // sweep 1: store 4, reduce 22
  f32 sum2 = 0.0f;
  {
    if (j_lane == 0 && j_warp == 0) {
      scratch0[i] = max0;
    }
    for (int j_loop = 0; j_loop < 3; ++j_loop) {
      f32 in0_0[4][4];
      f32 exp_3[4][4];
      #pragma unroll
      for (int j_r = 0; j_r < 4; ++j_r) {
        const int j = j0 + j_r * 2048 + j_loop * 8192;
        load<4, Cached::shared>(in0_0[j_r], in0_0_kept + ((j_loop * 4 + j_r) * 512 + static_cast<int>(threadIdx.x)) * 4);
      }
      #pragma unroll
      for (int j_r = 0; j_r < 4; ++j_r) {
        const int j = j0 + j_r * 2048 + j_loop * 8192;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const f32 subtract_2 = in0_0[j_r][v] - max0;
          exp_3[j_r][v] = exponential(subtract_2);
          sum2 += exp_3[j_r][v];
        }
        store<4>(exp_3_kept + ((j_loop * 4 + j_r) * 512 + static_cast<int>(threadIdx.x)) * 4, exp_3[j_r]);
      }
    }
    for (int j_loop = 3; j_loop < 4; ++j_loop) {
      f32 in0_0[4][4];
      f32 exp_3[4][4];
      #pragma unroll
      for (int j_r = 0; j_r < 4; ++j_r) {
        const int j = j0 + j_r * 2048 + j_loop * 8192;
        if (j < 32000) {
          load<4, Cached::shared>(in0_0[j_r], in0_0_kept + ((j_loop * 4 + j_r) * 512 + static_cast<int>(threadIdx.x)) * 4);
        }
      }
      #pragma unroll
      for (int j_r = 0; j_r < 4; ++j_r) {
        const int j = j0 + j_r * 2048 + j_loop * 8192;
        if (j < 32000) {
          #pragma unroll
          for (int v = 0; v < 4; ++v) {
            const f32 subtract_2 = in0_0[j_r][v] - max0;
            exp_3[j_r][v] = exponential(subtract_2);
            sum2 += exp_3[j_r][v];
          }
          store<4>(exp_3_kept + ((j_loop * 4 + j_r) * 512 + static_cast<int>(threadIdx.x)) * 4, exp_3[j_r]);
        }
      }
    }
  }
  sum2 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum2);
  f32* const partial2 = reinterpret_cast<f32*>(shared + 131136);
  if (j_lane == 0) {
    partial2[0 * 16 + j_warp] = sum2;
  }
  __syncthreads();
  sum2 = reduce_shared<Sum, 16, 1>(partial2 + (0) * 16);

  // sweep 2: store 22, store 31
  const f32 divide_7 = 1.0f / sum2;
  const s32 in1_9 = load_one<Cached::streamed>(&in1[i]);
  {
    if (j_lane == 0 && j_warp == 0) {
      scratch1[i] = sum2;
    }
    for (int j_loop = 0; j_loop < 3; ++j_loop) {
      f32 exp_3[4][4];
      #pragma unroll
      for (int j_r = 0; j_r < 4; ++j_r) {
        const int j = j0 + j_r * 2048 + j_loop * 8192;
        load<4, Cached::shared>(exp_3[j_r], exp_3_kept + ((j_loop * 4 + j_r) * 512 + static_cast<int>(threadIdx.x)) * 4);
      }
      #pragma unroll
      for (int j_r = 0; j_r < 4; ++j_r) {
        const int j = j0 + j_r * 2048 + j_loop * 8192;
        f32 result_4[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const f32 multiply_8 = exp_3[j_r][v] * divide_7;
          const bool compare_11 = in1_9 == static_cast<s32>((j + v));
          const f32 convert_12 = convert<f32>(compare_11);
          const f32 subtract_13 = multiply_8 - convert_12;
          const f32 multiply_14 = 0.015625f * subtract_13;
          result_4[v] = multiply_14;
        }
        store<4>(out0 + (i * 32000 + j), result_4);
      }
    }
    for (int j_loop = 3; j_loop < 4; ++j_loop) {
      f32 exp_3[4][4];
      #pragma unroll
      for (int j_r = 0; j_r < 4; ++j_r) {
        const int j = j0 + j_r * 2048 + j_loop * 8192;
        if (j < 32000) {
          load<4, Cached::shared>(exp_3[j_r], exp_3_kept + ((j_loop * 4 + j_r) * 512 + static_cast<int>(threadIdx.x)) * 4);
        }
      }
      #pragma unroll
      for (int j_r = 0; j_r < 4; ++j_r) {
        const int j = j0 + j_r * 2048 + j_loop * 8192;
        if (j < 32000) {
          f32 result_4[4];
          #pragma unroll
          for (int v = 0; v < 4; ++v) {
            const f32 multiply_8 = exp_3[j_r][v] * divide_7;
            const bool compare_11 = in1_9 == static_cast<s32>((j + v));
            const f32 convert_12 = convert<f32>(compare_11);
            const f32 subtract_13 = multiply_8 - convert_12;
            const f32 multiply_14 = 0.015625f * subtract_13;
            result_4[v] = multiply_14;
          }
          store<4>(out0 + (i * 32000 + j), result_4);
        }
      }
    }
  }
}

// sum of %27; 1 log, 1 multiply, 2 subtract
__device__ __forceinline__ void group_1_0(f32* __restrict__ scratch0, const s32* __restrict__ in0, const f32* __restrict__ in1, f32* __restrict__ scratch1, f32* __restrict__ out0, const int tile, unsigned char* const shared) {
  // axes  i: 64 = vector 4, lane 16
  const int i_lane = static_cast<int>(threadIdx.x) % 16;
  const int i = i_lane * 4;
  const bool active = threadIdx.x < 16;

  // sweep 0: reduce 27
  f32 sum0 = 0.0f;
  {
    f32 scratch0_0[4];
    s32 in0_3[4];
    f32 scratch1_5[4];
    if (active) {
      load<4, Cached::shared_between_blocks>(scratch0_0, scratch0 + i);
      load<4, Cached::streamed>(in0_3, in0 + i);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        scratch1_5[v] = load_one<Cached::shared_between_blocks>(&scratch1[static_cast<int>(minimum<s64>(maximum<s64>(static_cast<s32>((i + v)), 0), 63))]);
      }
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 log_1 = logf(scratch0_0[v]);
        const f32 in1_4 = active ? load_one<Cached::streamed>(&in1[(static_cast<int>(minimum<s64>(maximum<s64>(static_cast<s32>((i + v)), 0), 63)) * 32000 + static_cast<int>(minimum<s64>(maximum<s64>(in0_3[v], 0), 31999)))]) : 0.0f;
        const f32 subtract_6 = in1_4 - scratch1_5[v];
        const f32 subtract_7 = log_1 - subtract_6;
        sum0 += subtract_7;
      }
    }
  }
  sum0 = reduce_lanes<Sum, 8, 4, 2, 1>(sum0);

  // sweep 1: store 28
  const f32 multiply_10 = 0.015625f * sum0;
  {
    if (active) {
      if (i_lane == 0) {
        out0[0] = multiply_10;
      }
    }
  }
}

}  // namespace

struct Table {
  u64 words[11];
};

extern "C" __global__ void __launch_bounds__(512, 1)
stitch_9d627f746a91(const __grid_constant__ Table table) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto none = await_predecessor();
  u32* const counters = reinterpret_cast<u32*>(table.words[0]);
  {
    const int tile = static_cast<int>(blockIdx.x);
    const u64* const row = table.words + 1;
    group_0_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const s32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), reinterpret_cast<f32*>(row[3] + none), reinterpret_cast<f32*>(row[4] + none), tile, shared);
  }

  // what follows is for the block that arrives last
  if (!arrives_last(counters + 0, gridDim.x)) return;
  {
    const int tile = 0;
    const u64* const row = table.words + 6;
    group_1_0(reinterpret_cast<f32*>(row[0] + none), reinterpret_cast<const s32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<f32*>(row[3] + none), reinterpret_cast<f32*>(row[4] + none), tile, shared);
  }
}
