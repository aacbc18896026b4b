// fragment 0, kernel 0: 192 blocks of 256 threads, 99328 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// sum of %27; 3 add, 1 erf, 1 exp, 8 multiply
extern "C" __global__ void __launch_bounds__(256, 2)
stitch_e32244aaa267(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, f32* __restrict__ out0, f32* __restrict__ out1, f32* __restrict__ out2) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 2048 = lane 8, warp 8, register 4, loop 8; j: 3072 = vector 4, lane 4, grid 192
  const int j_lane = static_cast<int>(threadIdx.x) % 4;
  const int i_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_grid = tile;
  const int i0 = (i_lane + 8 * i_warp);
  const int j = j_lane * 4 + j_grid * 16;
  await_predecessor(in0, in1, in2, out0, out1, out2);

  // sweep 0: store 23, store 26, reduce 27
  f32 sum2[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum2[v] = 0.0f;
  }
  {
    f32 in1_1[4];
    load<4, Cached::streamed>(in1_1, in1 + j);
    {
      // the next turns' loads, on their way to shared memory while this one's are used
      const auto ask = [&](const int i_loop, const int stage) {
        f32* const in0_0_stage = reinterpret_cast<f32*>(shared + stage * 16384);
        f32* const in2_11_stage = reinterpret_cast<f32*>(shared + 49152 + stage * 16384);
        #pragma unroll
        for (int i_r = 0; i_r < 4; ++i_r) {
          const int i = i0 + i_r * 64 + i_loop * 256;
          copy_async<4>(in0_0_stage + (i_r * 256 + static_cast<int>(threadIdx.x)) * 4, in0 + ((i * 3072 + j)));
        }
        #pragma unroll
        for (int i_r = 0; i_r < 4; ++i_r) {
          const int i = i0 + i_r * 64 + i_loop * 256;
          copy_async<4>(in2_11_stage + (i_r * 256 + static_cast<int>(threadIdx.x)) * 4, in2 + ((i * 3072 + j)));
        }
      };
      ask(0, 0);
      commit_copies();
      ask(1, 1);
      commit_copies();
      for (int i_loop = 0; i_loop < 8; ++i_loop) {
        wait_for_groups<1>();
        if ((i_loop + 2) < 8) ask((i_loop + 2), ((i_loop + 2) % 3));
        commit_copies();
        const int stage = (i_loop % 3);
        f32* const in0_0_stage = reinterpret_cast<f32*>(shared + stage * 16384);
        f32* const in2_11_stage = reinterpret_cast<f32*>(shared + 49152 + stage * 16384);
        f32 in0_0[4][4];
        f32 in2_11[4][4];
        #pragma unroll
        for (int i_r = 0; i_r < 4; ++i_r) {
          const int i = i0 + i_r * 64 + i_loop * 256;
          load<4, Cached::shared>(in0_0[i_r], in0_0_stage + (i_r * 256 + static_cast<int>(threadIdx.x)) * 4);
          load<4, Cached::shared>(in2_11[i_r], in2_11_stage + (i_r * 256 + static_cast<int>(threadIdx.x)) * 4);
        }
        #pragma unroll
        for (int i_r = 0; i_r < 4; ++i_r) {
          const int i = i0 + i_r * 64 + i_loop * 256;
          f32 result_0[4];
          f32 result_1[4];
          #pragma unroll
          for (int v = 0; v < 4; ++v) {
            const f32 add_2 = in0_0[i_r][v] + in1_1[v];
            const f32 multiply_6 = add_2 * 0.70710677f;
            const f32 erf_7 = erff(multiply_6);
            const f32 add_8 = 1.0f + erf_7;
            const f32 multiply_9 = 0.5f * add_8;
            const f32 multiply_10 = add_2 * multiply_9;
            const f32 multiply_14 = add_2 * add_2;
            const f32 multiply_15 = (-0.5f) * multiply_14;
            const f32 exp_16 = exponential(multiply_15);
            const f32 multiply_17 = 0.3989423f * exp_16;
            const f32 multiply_18 = add_2 * multiply_17;
            const f32 add_19 = multiply_9 + multiply_18;
            const f32 multiply_20 = in2_11[i_r][v] * add_19;
            result_0[v] = multiply_10;
            result_1[v] = multiply_20;
            sum2[v] += multiply_20;
          }
          store<4>(out0 + (i * 3072 + j), result_0);
          store<4>(out1 + (i * 3072 + j), result_1);
        }
      }
    }
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum2[v] = reduce_lanes<Sum, 16, 8, 4>(sum2[v]);
  }
  f32* const partial2 = reinterpret_cast<f32*>(shared + 98304);
  if (i_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial2[i_warp * 16 + j_lane * 4 + v] = sum2[v];
    }
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum2[v] = reduce_shared<Sum, 8, 16>(partial2 + j_lane * 4 + v);
  }

  // sweep 1: store 27
  {
    f32 result_3[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      result_3[v] = sum2[v];
    }
    if (i_lane == 0 && i_warp == 0) {
      store<4>(out2 + j, result_3);
    }
  }
}
