// fragment 0, kernel 0: 32 blocks of 256 threads in clusters of 8, 8240 bytes of dynamic shared memory

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

__device__ __forceinline__ void group_0_1_loads(const f32* __restrict__ in1, f32 (&in1_1)[8][4], f32 (&in1_3)[8][4], f32 (&in1_5)[8][4], f32 (&in1_7)[8][4]) {
  // axes  i: 256 = vector 4, lane 4, warp 2, cluster 8; j: 256 = lane 8, warp 4, register 8
  const int i_lane = static_cast<int>(threadIdx.x) % 4;
  const int j_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int i_warp = static_cast<int>(threadIdx.x) / 32 % 2;
  const int j_warp = static_cast<int>(threadIdx.x) / 64;
  const int i_cluster = static_cast<int>(blockIdx.x % 8);  // rank in the cluster
  const int i = (i_lane + 4 * i_warp) * 4 + i_cluster * 32;
  const int j0 = (j_lane + 8 * j_warp);
#pragma unroll
  for (int j_r = 0; j_r < 8; ++j_r) {
    const int j = j0 + j_r * 32;
    load<4, Cached::streamed>(in1_1[j_r], in1 + (i + j * 1024 + 512));
  }
#pragma unroll
  for (int j_r = 0; j_r < 8; ++j_r) {
    const int j = j0 + j_r * 32;
    load<4, Cached::streamed>(in1_3[j_r], in1 + (i + j * 1024 + 256));
  }
#pragma unroll
  for (int j_r = 0; j_r < 8; ++j_r) {
    const int j = j0 + j_r * 32;
    load<4, Cached::streamed>(in1_5[j_r], in1 + (i + j * 1024));
  }
#pragma unroll
  for (int j_r = 0; j_r < 8; ++j_r) {
    const int j = j0 + j_r * 32;
    load<4, Cached::streamed>(in1_7[j_r], in1 + (i + j * 1024 + 768));
  }
}

// sum of %10, sum of %29, sum of %42, sum of %54; 5 add, 3 logistic, 7 multiply, 1 subtract, 2 tanh
__device__ __forceinline__ void group_0_1(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const s32* __restrict__ in3, const s32* __restrict__ in4, const f32* __restrict__ in5, f32* __restrict__ out0, f32* __restrict__ out1, f32* __restrict__ out2, f32 (&in1_1)[8][4], f32 (&in1_3)[8][4], f32 (&in1_5)[8][4], f32 (&in1_7)[8][4], unsigned char* const shared) {
  // axes  i: 256 = vector 4, lane 4, warp 2, cluster 8; j: 256 = lane 8, warp 4, register 8
  const int i_lane = static_cast<int>(threadIdx.x) % 4;
  const int j_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int i_warp = static_cast<int>(threadIdx.x) / 32 % 2;
  const int j_warp = static_cast<int>(threadIdx.x) / 64;
  const int i_cluster = static_cast<int>(blockIdx.x % 8);  // rank in the cluster
  const int i = (i_lane + 4 * i_warp) * 4 + i_cluster * 32;
  const int j0 = (j_lane + 8 * j_warp);

  // sweep 0: reduce 10, reduce 29, reduce 42, reduce 54
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
  f32 sum3[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum3[v] = 0.0f;
  }
  {
    f32 in0_0[8];
    #pragma unroll
    for (int j_r = 0; j_r < 8; ++j_r) {
      const int j = j0 + j_r * 32;
      in0_0[j_r] = load_one<Cached::plain>(&in0[j]);
    }
    #pragma unroll
    for (int j_r = 0; j_r < 8; ++j_r) {
      const int j = j0 + j_r * 32;
    }
    #pragma unroll
    for (int j_r = 0; j_r < 8; ++j_r) {
      const int j = j0 + j_r * 32;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_2 = in0_0[j_r] * in1_1[j_r][v];
        const f32 multiply_4 = in0_0[j_r] * in1_3[j_r][v];
        const f32 multiply_6 = in0_0[j_r] * in1_5[j_r][v];
        const f32 multiply_8 = in0_0[j_r] * in1_7[j_r][v];
        sum0[v] += multiply_2;
        sum1[v] += multiply_4;
        sum2[v] += multiply_6;
        sum3[v] += multiply_8;
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
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum3[v] = reduce_lanes<Sum, 16, 8, 4>(sum3[v]);
  }
  f32* const partial0 = reinterpret_cast<f32*>(shared);
  f32* const partial1 = reinterpret_cast<f32*>(shared + 512);
  f32* const partial2 = reinterpret_cast<f32*>(shared + 1024);
  f32* const partial3 = reinterpret_cast<f32*>(shared + 1536);
  if (j_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial0[j_warp * 32 + (i_lane + 4 * i_warp) * 4 + v] = sum0[v];
    }
  }
  if (j_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial1[j_warp * 32 + (i_lane + 4 * i_warp) * 4 + v] = sum1[v];
    }
  }
  if (j_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial2[j_warp * 32 + (i_lane + 4 * i_warp) * 4 + v] = sum2[v];
    }
  }
  if (j_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial3[j_warp * 32 + (i_lane + 4 * i_warp) * 4 + v] = sum3[v];
    }
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum0[v] = reduce_shared<Sum, 4, 32>(partial0 + (i_lane + 4 * i_warp) * 4 + v);
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = reduce_shared<Sum, 4, 32>(partial1 + (i_lane + 4 * i_warp) * 4 + v);
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum2[v] = reduce_shared<Sum, 4, 32>(partial2 + (i_lane + 4 * i_warp) * 4 + v);
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum3[v] = reduce_shared<Sum, 4, 32>(partial3 + (i_lane + 4 * i_warp) * 4 + v);
  }

  // sweep 1: store 62, store 64, store 67
  const s32 in3_12 = in3[0];
  const s32 subtract_13 = static_cast<s32>(static_cast<u32>(30) - static_cast<u32>(in3_12));
  const s32 in4_16 = in4[0];
  {
    f32 in2_9[4];
    f32 in5_17[4];
    f32 in5_22[4];
    f32 in5_26[4];
    f32 in5_32[4];
    load<4, Cached::plain>(in2_9, in2 + i);
    load<4, Cached::streamed>(in5_17, in5 + (i + static_cast<int>(minimum<s64>(maximum<s64>(subtract_13, 0), 30)) * 4096 + static_cast<int>(minimum<s64>(maximum<s64>(in4_16, 0), 3)) * 1024 + 256));
    load<4, Cached::streamed>(in5_22, in5 + (i + static_cast<int>(minimum<s64>(maximum<s64>(subtract_13, 0), 30)) * 4096 + static_cast<int>(minimum<s64>(maximum<s64>(in4_16, 0), 3)) * 1024));
    load<4, Cached::streamed>(in5_26, in5 + (i + static_cast<int>(minimum<s64>(maximum<s64>(subtract_13, 0), 30)) * 4096 + static_cast<int>(minimum<s64>(maximum<s64>(in4_16, 0), 3)) * 1024 + 768));
    load<4, Cached::streamed>(in5_32, in5 + (i + static_cast<int>(minimum<s64>(maximum<s64>(subtract_13, 0), 30)) * 4096 + static_cast<int>(minimum<s64>(maximum<s64>(in4_16, 0), 3)) * 1024 + 512));
    f32 result_4[4];
    f32 result_5[4];
    f32 result_6[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 add_18 = sum1[v] + in5_17[v];
      const f32 logistic_19 = logistic(add_18);
      const f32 multiply_20 = in2_9[v] * logistic_19;
      const f32 add_23 = sum2[v] + in5_22[v];
      const f32 logistic_24 = logistic(add_23);
      const f32 add_27 = sum3[v] + in5_26[v];
      const f32 tanh_28 = tanhf(add_27);
      const f32 multiply_29 = logistic_24 * tanh_28;
      const f32 add_30 = multiply_20 + multiply_29;
      const f32 add_33 = sum0[v] + in5_32[v];
      const f32 logistic_34 = logistic(add_33);
      const f32 tanh_35 = tanhf(add_30);
      const f32 multiply_36 = logistic_34 * tanh_35;
      result_4[v] = add_30;
      result_5[v] = multiply_36;
      result_6[v] = multiply_36;
    }
    if (j_lane == 0 && j_warp == 0) {
      store_in_cluster<8, 4>(out0 + i, result_4);
    }
    if (j_lane == 0 && j_warp == 0) {
      store_in_cluster<8, 4>(out1 + i, result_5);
    }
    if (j_lane == 0 && j_warp == 0) {
      store<4>(out2 + (i + static_cast<int>(minimum<s64>(maximum<s64>(subtract_13, 0), 30)) * 1024 + static_cast<int>(minimum<s64>(maximum<s64>(in4_16, 0), 3)) * 256), result_6);
    }
  }
}

}  // namespace

// 31 turns; 1 rows a cluster
extern "C" __global__ void __launch_bounds__(256, 1)
stitch_19c38b128efe(const f32* __restrict__ in2, const f32* __restrict__ in3, const f32* __restrict__ in1, const f32* __restrict__ in0, f32* __restrict__ out2, f32* __restrict__ out0, f32* __restrict__ out1) {
  extern __shared__ __align__(16) unsigned char shared[];
  unsigned char* const resident = shared + 4096;  // what turns and phases hand on
  for (int i = static_cast<int>(threadIdx.x); i < 259; i += 256) reinterpret_cast<uint4*>(resident)[i] = {};
  __syncthreads();
  int* const first_row = reinterpret_cast<int*>(resident + 4128);
  if (threadIdx.x == 0) *first_row = static_cast<int>((blockIdx.x / 8)) * 1;
  await_predecessor(in0, in1, in2, in3, out0, out1, out2);
  prefetch<1, 4096>(reinterpret_cast<const char*>(in2) + static_cast<s64>(30 - 0) * 16384 + static_cast<s64>((blockIdx.x / 8)) * 4096, 4096, static_cast<int>(blockIdx.x % 8 * 256 + threadIdx.x), 2048);
  prefetch<1, 4096>(reinterpret_cast<const char*>(in2) + static_cast<s64>(30 - 1) * 16384 + static_cast<s64>((blockIdx.x / 8)) * 4096, 4096, static_cast<int>(blockIdx.x % 8 * 256 + threadIdx.x), 2048);
  f32 group_0_1_in1_1[8][4];
  f32 group_0_1_in1_3[8][4];
  f32 group_0_1_in1_5[8][4];
  f32 group_0_1_in1_7[8][4];
  group_0_1_loads(in3, group_0_1_in1_1, group_0_1_in1_3, group_0_1_in1_5, group_0_1_in1_7);
  for (int i = static_cast<int>(threadIdx.x); i < 1; i += 256) {
    s32* const to = reinterpret_cast<s32*>(resident);
    const s32 from = 0;
    to[i] = from;
  }
  for (int i = static_cast<int>(threadIdx.x); i < 256; i += 256) {
    f32* const to = reinterpret_cast<f32*>(resident + 16);
    to[i] = in1[static_cast<s64>((blockIdx.x / 8)) * 256 + i];
  }
  for (int i = static_cast<int>(threadIdx.x); i < 256; i += 256) {
    f32* const to = reinterpret_cast<f32*>(resident + 1040);
    to[i] = in0[static_cast<s64>((blockIdx.x / 8)) * 256 + i];
  }
  cluster_barrier();
  #pragma unroll 1
  for (int turn = 0; turn < 31; ++turn) {
    unsigned char* const now = resident + (turn & 1) * 2064;
    unsigned char* const next = resident + (~turn & 1) * 2064;
    if (turn < 29) {
      prefetch<1, 4096>(reinterpret_cast<const char*>(in2) + static_cast<s64>(30 - (turn + 2)) * 16384 + static_cast<s64>((blockIdx.x / 8)) * 4096, 4096, static_cast<int>(blockIdx.x % 8 * 256 + threadIdx.x), 2048);
    }
    group_0_0(reinterpret_cast<s32*>(now), reinterpret_cast<s32*>(next), shared);
    group_0_1(reinterpret_cast<f32*>(now + 16), in3, reinterpret_cast<f32*>(now + 1040), reinterpret_cast<s32*>(now), first_row, in2, reinterpret_cast<f32*>(next + 1040), reinterpret_cast<f32*>(next + 16), out2, group_0_1_in1_1, group_0_1_in1_3, group_0_1_in1_5, group_0_1_in1_7, shared);
    cluster_barrier();
  }
  if (blockIdx.x % 8 == 0) {
    for (int i = static_cast<int>(threadIdx.x); i < 256; i += 256) {
      const f32* const from = reinterpret_cast<f32*>(resident + 2080);
      out0[static_cast<s64>((blockIdx.x / 8)) * 256 + i] = from[i];
    }
  }
  if (blockIdx.x % 8 == 0) {
    for (int i = static_cast<int>(threadIdx.x); i < 256; i += 256) {
      const f32* const from = reinterpret_cast<f32*>(resident + 3104);
      out1[static_cast<s64>((blockIdx.x / 8)) * 256 + i] = from[i];
    }
  }
}
