// fragment 0, kernel 0: 256 blocks of 128 threads, 336 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// 1 add
__device__ __forceinline__ void group_0_0(const s32* __restrict__ in0, s32* __restrict__ out0, unsigned char* const shared) {
  const bool active = threadIdx.x < 1;

  // sweep 0: store 2
  const s32 in0_0 = active ? in0[0] : 0;
  const s32 add_2 = static_cast<s32>(static_cast<u32>(in0_0) + static_cast<u32>(1));
  if (active) {
    out0[0] = add_2;
  }
}

__device__ __forceinline__ void group_0_1_loads(const f32* __restrict__ in1, f32 (&in1_1)[5][4], f32 (&in1_3)[5][4], f32 (&in1_5)[5][4]) {
  // axes  i: 36 = vector 4, lane 4, warp 4; j: 36 = lane 8, register 5
  const int i_lane = static_cast<int>(threadIdx.x) % 4;
  const int j_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i = (i_lane + 4 * i_warp) * 4;
  const int j0 = j_lane;
#pragma unroll
  for (int j_r = 0; j_r < 5; ++j_r) {
    const int j = j0 + j_r * 8;
    if (i < 36 && j < 36) {
      load<4, Cached::streamed>(in1_1[j_r], in1 + (i + j * 108));
    }
  }
#pragma unroll
  for (int j_r = 0; j_r < 5; ++j_r) {
    const int j = j0 + j_r * 8;
    if (i < 36 && j < 36) {
      load<4, Cached::streamed>(in1_3[j_r], in1 + (i + j * 108 + 72));
    }
  }
#pragma unroll
  for (int j_r = 0; j_r < 5; ++j_r) {
    const int j = j0 + j_r * 8;
    if (i < 36 && j < 36) {
      load<4, Cached::streamed>(in1_5[j_r], in1 + (i + j * 108 + 36));
    }
  }
}

// sum of %27, sum of %40, sum of %50; 4 add, 1 compare, 2 logistic, 6 multiply, 1 select, 1 subtract, 1 tanh
__device__ __forceinline__ void group_0_1(const f32* __restrict__ in0, const f32* __restrict__ in1, const s32* __restrict__ in2, const s32* __restrict__ in3, const f32* __restrict__ in4, const f32* __restrict__ in5, const f32* __restrict__ in6, f32* __restrict__ out0, f32* __restrict__ out1, f32 (&in1_1)[5][4], f32 (&in1_3)[5][4], f32 (&in1_5)[5][4], unsigned char* const shared) {
  // axes  i: 36 = vector 4, lane 4, warp 4; j: 36 = lane 8, register 5
  const int i_lane = static_cast<int>(threadIdx.x) % 4;
  const int j_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i = (i_lane + 4 * i_warp) * 4;
  const int j0 = j_lane;

  // sweep 0: reduce 27, reduce 40, reduce 50
  f32 sum0[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = 0.0f;
  }
  f32 sum1[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = 0.0f;
  }
  f32 sum2[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum2[v] = 0.0f;
  }
  {
    f32 in0_0[5];
    #pragma unroll
    for (int j_r = 0; j_r < 5; ++j_r) {
      const int j = j0 + j_r * 8;
      if (j < 36) {
        in0_0[j_r] = load_one<Cached::plain>(&in0[j]);
      }
    }
    #pragma unroll
    for (int j_r = 0; j_r < 5; ++j_r) {
      const int j = j0 + j_r * 8;
      if (j < 36) {
      }
    }
    #pragma unroll
    for (int j_r = 0; j_r < 5; ++j_r) {
      const int j = j0 + j_r * 8;
      if (i < 36 && j < 36) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const f32 multiply_2 = in0_0[j_r] * in1_1[j_r][v];
          const f32 multiply_4 = in0_0[j_r] * in1_3[j_r][v];
          const f32 multiply_6 = in0_0[j_r] * in1_5[j_r][v];
          sum0[v] += multiply_2;
          sum1[v] += multiply_4;
          sum2[v] += multiply_6;
        }
      }
    }
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = reduce_lanes<Sum, 16, 8, 4>(sum0[v]);
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = reduce_lanes<Sum, 16, 8, 4>(sum1[v]);
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum2[v] = reduce_lanes<Sum, 16, 8, 4>(sum2[v]);
  }

  // sweep 1: store 61, store 64
  const s32 in2_7 = in2[0];
  const s32 in3_10 = in3[0];
  const f32 in4_11 = load_one<Cached::streamed>(&in4[(static_cast<int>(minimum<s64>(maximum<s64>(in2_7, 0), 99)) * 256 + static_cast<int>(minimum<s64>(maximum<s64>(in3_10, 0), 255)))]);
  const bool compare_13 = in4_11 > 0.0f;
  {
    f32 in5_14[4];
    f32 in6_15[4];
    f32 in6_20[4];
    f32 in6_22[4];
    if (i < 36) {
      load<4, Cached::plain>(in5_14, in5 + i);
      load<4, Cached::streamed>(in6_15, in6 + (i + static_cast<int>(minimum<s64>(maximum<s64>(in2_7, 0), 99)) * 27648 + static_cast<int>(minimum<s64>(maximum<s64>(in3_10, 0), 255)) * 108));
      load<4, Cached::streamed>(in6_20, in6 + (i + static_cast<int>(minimum<s64>(maximum<s64>(in2_7, 0), 99)) * 27648 + static_cast<int>(minimum<s64>(maximum<s64>(in3_10, 0), 255)) * 108 + 72));
      load<4, Cached::streamed>(in6_22, in6 + (i + static_cast<int>(minimum<s64>(maximum<s64>(in2_7, 0), 99)) * 27648 + static_cast<int>(minimum<s64>(maximum<s64>(in3_10, 0), 255)) * 108 + 36));
      f32 result_3[4];
      f32 result_4[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 add_17 = in6_15[v] + sum0[v];
        const f32 logistic_18 = logistic(add_17);
        const f32 multiply_19 = in5_14[v] * logistic_18;
        const f32 add_24 = in6_22[v] + sum2[v];
        const f32 logistic_25 = logistic(add_24);
        const f32 multiply_26 = sum1[v] * logistic_25;
        const f32 add_27 = in6_20[v] + multiply_26;
        const f32 tanh_28 = tanhf(add_27);
        const f32 subtract_30 = 1.0f - logistic_18;
        const f32 multiply_31 = tanh_28 * subtract_30;
        const f32 add_32 = multiply_19 + multiply_31;
        const f32 select_33 = compare_13 ? add_32 : in5_14[v];
        result_3[v] = select_33;
        result_4[v] = select_33;
      }
      if (j_lane == 0) {
        store<4>(out0 + i, result_3);
      }
      if (j_lane == 0) {
        store<4>(out1 + (i + static_cast<int>(minimum<s64>(maximum<s64>(in2_7, 0), 99)) * 9216 + static_cast<int>(minimum<s64>(maximum<s64>(in3_10, 0), 255)) * 36), result_4);
      }
    }
  }
}

}  // namespace

// 100 turns; 1 rows a block
extern "C" __global__ void __launch_bounds__(128, 2)
stitch_e8566d2878a2(const f32* __restrict__ in2, const f32* __restrict__ in1, const f32* __restrict__ in0, f32* __restrict__ out1, f32* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char shared[];
  unsigned char* const resident = shared + 0;  // what turns and phases hand on
  for (int i = static_cast<int>(threadIdx.x); i < 21; i += 128) reinterpret_cast<uint4*>(resident)[i] = {};
  __syncthreads();
  int* const first_row = reinterpret_cast<int*>(resident + 320);
  if (threadIdx.x == 0) *first_row = static_cast<int>(blockIdx.x) * 1;
  await_predecessor(in0, in1, in2, out0, out1);
  prefetch<1, 4>(reinterpret_cast<const char*>(in2) + static_cast<s64>(0) * 1024 + static_cast<s64>(blockIdx.x) * 4, 4, static_cast<int>(threadIdx.x), 128);
  prefetch<1, 432>(reinterpret_cast<const char*>(in1) + static_cast<s64>(0) * 110592 + static_cast<s64>(blockIdx.x) * 432, 432, static_cast<int>(threadIdx.x), 128);
  prefetch<1, 4>(reinterpret_cast<const char*>(in2) + static_cast<s64>(1) * 1024 + static_cast<s64>(blockIdx.x) * 4, 4, static_cast<int>(threadIdx.x), 128);
  prefetch<1, 432>(reinterpret_cast<const char*>(in1) + static_cast<s64>(1) * 110592 + static_cast<s64>(blockIdx.x) * 432, 432, static_cast<int>(threadIdx.x), 128);
  f32 group_0_1_in1_1[5][4];
  f32 group_0_1_in1_3[5][4];
  f32 group_0_1_in1_5[5][4];
  group_0_1_loads(in0, group_0_1_in1_1, group_0_1_in1_3, group_0_1_in1_5);
  for (int i = static_cast<int>(threadIdx.x); i < 1; i += 128) {
    s32* const to = reinterpret_cast<s32*>(resident);
    const s32 from = 0;
    to[i] = from;
  }
  for (int i = static_cast<int>(threadIdx.x); i < 36; i += 128) {
    f32* const to = reinterpret_cast<f32*>(resident + 16);
    const f32 from = 0.0f;
    to[i] = from;
  }
  __syncthreads();
  #pragma unroll 1
  for (int turn = 0; turn < 100; ++turn) {
    unsigned char* const now = resident + (turn & 1) * 160;
    unsigned char* const next = resident + (~turn & 1) * 160;
    if (turn < 98) {
      prefetch<1, 4>(reinterpret_cast<const char*>(in2) + static_cast<s64>((turn + 2)) * 1024 + static_cast<s64>(blockIdx.x) * 4, 4, static_cast<int>(threadIdx.x), 128);
      prefetch<1, 432>(reinterpret_cast<const char*>(in1) + static_cast<s64>((turn + 2)) * 110592 + static_cast<s64>(blockIdx.x) * 432, 432, static_cast<int>(threadIdx.x), 128);
    }
    group_0_0(reinterpret_cast<s32*>(now), reinterpret_cast<s32*>(next), shared);
    group_0_1(reinterpret_cast<f32*>(now + 16), in0, reinterpret_cast<s32*>(now), first_row, in2, reinterpret_cast<f32*>(now + 16), in1, reinterpret_cast<f32*>(next + 16), out1, group_0_1_in1_1, group_0_1_in1_3, group_0_1_in1_5, shared);
    __syncthreads();
  }
  for (int i = static_cast<int>(threadIdx.x); i < 36; i += 128) {
    const f32* const from = reinterpret_cast<f32*>(resident + 16);
    out0[static_cast<s64>(blockIdx.x) * 36 + i] = from[i];
  }
}
