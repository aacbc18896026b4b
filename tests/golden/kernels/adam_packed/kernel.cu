// fragment 0, kernel 0: 4742 blocks of 256 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// 3 add, 1 divide, 6 multiply, 1 sqrt, 1 subtract
__device__ __forceinline__ void group_0_0(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, const f32* __restrict__ in4, f32* __restrict__ out0, f32* __restrict__ out1, f32* __restrict__ out2, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8, grid 1728
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = (i_lane + 32 * i_warp) * 4 + i_grid * 1024;

  // sweep 0: store 81, store 190, store 203
  const f32 in4_15 = load_one<Cached::streamed>(&in4[0]);
  f32 in0_1[4];
  f32 in1_4[4];
  f32 in2_8[4];
  f32 in3_14[4];
  if (i < extent) {
    load_tail<4, Cached::streamed>(in0_1, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in1_4, in1 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in2_8, in2 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in3_14, in3 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    f32 result_1[4];
    f32 result_2[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_2 = in0_1[v] * in0_1[v];
      const f32 multiply_3 = 0.001f * multiply_2;
      const f32 multiply_6 = in1_4[v] * 0.999f;
      const f32 add_7 = multiply_3 + multiply_6;
      const f32 multiply_10 = in2_8[v] * 0.9f;
      const f32 multiply_12 = in0_1[v] * 0.1f;
      const f32 add_13 = multiply_10 + multiply_12;
      const f32 sqrt_17 = sqrtf(add_7);
      const f32 add_18 = 1e-08f + sqrt_17;
      const f32 divide_19 = add_13 / add_18;
      const f32 multiply_20 = in4_15 * divide_19;
      const f32 subtract_21 = in3_14[v] - multiply_20;
      result_0[v] = add_7;
      result_1[v] = add_13;
      result_2[v] = subtract_21;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
    store_tail<4>(out1 + static_cast<s64>(i), result_1, extent - i);
    store_tail<4>(out2 + static_cast<s64>(i), result_2, extent - i);
  }
}

// 3 add, 1 divide, 6 multiply, 1 sqrt, 1 subtract
__device__ __forceinline__ void group_0_1(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, const f32* __restrict__ in4, f32* __restrict__ out0, f32* __restrict__ out1, f32* __restrict__ out2, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8, grid 2
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = (i_lane + 32 * i_warp) * 4 + i_grid * 1024;

  // sweep 0: store 94, store 218, store 221
  const f32 in4_15 = load_one<Cached::streamed>(&in4[0]);
  f32 in0_0[4];
  f32 in1_3[4];
  f32 in2_8[4];
  f32 in3_14[4];
  if (i < extent) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in1_3, in1 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in2_8, in2 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in3_14, in3 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    f32 result_1[4];
    f32 result_2[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_2 = in0_0[v] * 0.999f;
      const f32 multiply_4 = in1_3[v] * in1_3[v];
      const f32 multiply_6 = multiply_4 * 0.001f;
      const f32 add_7 = multiply_2 + multiply_6;
      const f32 multiply_10 = in2_8[v] * 0.9f;
      const f32 multiply_12 = in1_3[v] * 0.1f;
      const f32 add_13 = multiply_10 + multiply_12;
      const f32 sqrt_16 = sqrtf(add_7);
      const f32 add_18 = sqrt_16 + 1e-08f;
      const f32 divide_19 = add_13 / add_18;
      const f32 multiply_20 = in4_15 * divide_19;
      const f32 subtract_21 = in3_14[v] - multiply_20;
      result_0[v] = add_7;
      result_1[v] = add_13;
      result_2[v] = subtract_21;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
    store_tail<4>(out1 + static_cast<s64>(i), result_1, extent - i);
    store_tail<4>(out2 + static_cast<s64>(i), result_2, extent - i);
  }
}

// 3 add, 1 divide, 6 multiply, 1 sqrt, 1 subtract; 2 tensors
__device__ __forceinline__ void group_0_2(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, const f32* __restrict__ in4, f32* __restrict__ out0, f32* __restrict__ out1, f32* __restrict__ out2, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8, register 2, grid 2
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i0 = (i_lane + 32 * i_warp) * 4 + i_grid * 2048;

  // sweep 0: store 104, store 228, store 231
  const f32 in4_15 = load_one<Cached::streamed>(&in4[0]);
  f32 in0_0[2][4];
  f32 in1_4[2][4];
  f32 in2_8[2][4];
  f32 in3_14[2][4];
#pragma unroll
  for (int i_r = 0; i_r < 2; ++i_r) {
    const int i = i0 + i_r * 1024;
    if (i < extent) {
      load_tail<4, Cached::streamed>(in0_0[i_r], in0 + static_cast<s64>(i), extent - i);
      load_tail<4, Cached::streamed>(in1_4[i_r], in1 + static_cast<s64>(i), extent - i);
      load_tail<4, Cached::streamed>(in2_8[i_r], in2 + static_cast<s64>(i), extent - i);
      load_tail<4, Cached::streamed>(in3_14[i_r], in3 + static_cast<s64>(i), extent - i);
    }
  }
#pragma unroll
  for (int i_r = 0; i_r < 2; ++i_r) {
    const int i = i0 + i_r * 1024;
    if (i < extent) {
      f32 result_0[4];
      f32 result_1[4];
      f32 result_2[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_1 = in0_0[i_r][v] * in0_0[i_r][v];
        const f32 multiply_3 = multiply_1 * 0.001f;
        const f32 multiply_6 = in1_4[i_r][v] * 0.999f;
        const f32 add_7 = multiply_3 + multiply_6;
        const f32 multiply_10 = in2_8[i_r][v] * 0.9f;
        const f32 multiply_12 = in0_0[i_r][v] * 0.1f;
        const f32 add_13 = multiply_10 + multiply_12;
        const f32 sqrt_16 = sqrtf(add_7);
        const f32 add_18 = sqrt_16 + 1e-08f;
        const f32 divide_19 = add_13 / add_18;
        const f32 multiply_20 = in4_15 * divide_19;
        const f32 subtract_21 = in3_14[i_r][v] - multiply_20;
        result_0[v] = add_7;
        result_1[v] = add_13;
        result_2[v] = subtract_21;
      }
      store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
      store_tail<4>(out1 + static_cast<s64>(i), result_1, extent - i);
      store_tail<4>(out2 + static_cast<s64>(i), result_2, extent - i);
    }
  }
}

// 3 add, 1 divide, 6 multiply, 1 sqrt, 1 subtract; 2 tensors
__device__ __forceinline__ void group_0_3(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, const f32* __restrict__ in4, f32* __restrict__ out0, f32* __restrict__ out1, f32* __restrict__ out2, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8, register 2, grid 1152
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i0 = (i_lane + 32 * i_warp) * 4 + i_grid * 2048;

  // sweep 0: store 114, store 222, store 225
  const f32 in4_15 = load_one<Cached::streamed>(&in4[0]);
  f32 in0_0[2][4];
  f32 in1_4[2][4];
  f32 in2_8[2][4];
  f32 in3_14[2][4];
#pragma unroll
  for (int i_r = 0; i_r < 2; ++i_r) {
    const int i = i0 + i_r * 1024;
    if (i < extent) {
      load_tail<4, Cached::streamed>(in0_0[i_r], in0 + static_cast<s64>(i), extent - i);
      load_tail<4, Cached::streamed>(in1_4[i_r], in1 + static_cast<s64>(i), extent - i);
      load_tail<4, Cached::streamed>(in2_8[i_r], in2 + static_cast<s64>(i), extent - i);
      load_tail<4, Cached::streamed>(in3_14[i_r], in3 + static_cast<s64>(i), extent - i);
    }
  }
#pragma unroll
  for (int i_r = 0; i_r < 2; ++i_r) {
    const int i = i0 + i_r * 1024;
    if (i < extent) {
      f32 result_0[4];
      f32 result_1[4];
      f32 result_2[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_2 = in0_0[i_r][v] * 0.999f;
        const f32 multiply_5 = in1_4[i_r][v] * in1_4[i_r][v];
        const f32 multiply_6 = 0.001f * multiply_5;
        const f32 add_7 = multiply_2 + multiply_6;
        const f32 multiply_10 = in2_8[i_r][v] * 0.9f;
        const f32 multiply_12 = in1_4[i_r][v] * 0.1f;
        const f32 add_13 = multiply_10 + multiply_12;
        const f32 sqrt_16 = sqrtf(add_7);
        const f32 add_18 = sqrt_16 + 1e-08f;
        const f32 divide_19 = add_13 / add_18;
        const f32 multiply_20 = in4_15 * divide_19;
        const f32 subtract_21 = in3_14[i_r][v] - multiply_20;
        result_0[v] = add_7;
        result_1[v] = add_13;
        result_2[v] = subtract_21;
      }
      store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
      store_tail<4>(out1 + static_cast<s64>(i), result_1, extent - i);
      store_tail<4>(out2 + static_cast<s64>(i), result_2, extent - i);
    }
  }
}

// 3 add, 1 divide, 6 multiply, 1 sqrt, 1 subtract
__device__ __forceinline__ void group_0_4(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, const f32* __restrict__ in4, f32* __restrict__ out0, f32* __restrict__ out1, f32* __restrict__ out2, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8, register 2, grid 2
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i0 = (i_lane + 32 * i_warp) * 4 + i_grid * 2048;

  // sweep 0: store 142, store 207, store 210
  const f32 in4_15 = load_one<Cached::streamed>(&in4[0]);
  f32 in0_0[2][4];
  f32 in1_3[2][4];
  f32 in2_8[2][4];
  f32 in3_14[2][4];
#pragma unroll
  for (int i_r = 0; i_r < 2; ++i_r) {
    const int i = i0 + i_r * 1024;
    if (i < extent) {
      load_tail<4, Cached::streamed>(in0_0[i_r], in0 + static_cast<s64>(i), extent - i);
      load_tail<4, Cached::streamed>(in1_3[i_r], in1 + static_cast<s64>(i), extent - i);
      load_tail<4, Cached::streamed>(in2_8[i_r], in2 + static_cast<s64>(i), extent - i);
      load_tail<4, Cached::streamed>(in3_14[i_r], in3 + static_cast<s64>(i), extent - i);
    }
  }
#pragma unroll
  for (int i_r = 0; i_r < 2; ++i_r) {
    const int i = i0 + i_r * 1024;
    if (i < extent) {
      f32 result_0[4];
      f32 result_1[4];
      f32 result_2[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_2 = in0_0[i_r][v] * 0.999f;
        const f32 multiply_4 = in1_3[i_r][v] * in1_3[i_r][v];
        const f32 multiply_6 = multiply_4 * 0.001f;
        const f32 add_7 = multiply_2 + multiply_6;
        const f32 multiply_10 = in2_8[i_r][v] * 0.9f;
        const f32 multiply_12 = in1_3[i_r][v] * 0.1f;
        const f32 add_13 = multiply_10 + multiply_12;
        const f32 sqrt_16 = sqrtf(add_7);
        const f32 add_18 = sqrt_16 + 1e-08f;
        const f32 divide_19 = add_13 / add_18;
        const f32 multiply_20 = in4_15 * divide_19;
        const f32 subtract_21 = in3_14[i_r][v] - multiply_20;
        result_0[v] = add_7;
        result_1[v] = add_13;
        result_2[v] = subtract_21;
      }
      store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
      store_tail<4>(out1 + static_cast<s64>(i), result_1, extent - i);
      store_tail<4>(out2 + static_cast<s64>(i), result_2, extent - i);
    }
  }
}

// 3 add, 1 divide, 6 multiply, 1 sqrt, 1 subtract
__device__ __forceinline__ void group_0_5(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, const f32* __restrict__ in4, f32* __restrict__ out0, f32* __restrict__ out1, f32* __restrict__ out2, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8, grid 384
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = (i_lane + 32 * i_warp) * 4 + i_grid * 1024;

  // sweep 0: store 146, store 195, store 255
  const f32 in4_15 = load_one<Cached::streamed>(&in4[0]);
  f32 in0_0[4];
  f32 in1_3[4];
  f32 in2_8[4];
  f32 in3_14[4];
  if (i < extent) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in1_3, in1 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in2_8, in2 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in3_14, in3 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    f32 result_1[4];
    f32 result_2[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_2 = in0_0[v] * 0.999f;
      const f32 multiply_4 = in1_3[v] * in1_3[v];
      const f32 multiply_6 = multiply_4 * 0.001f;
      const f32 add_7 = multiply_2 + multiply_6;
      const f32 multiply_10 = in2_8[v] * 0.9f;
      const f32 multiply_12 = in1_3[v] * 0.1f;
      const f32 add_13 = multiply_10 + multiply_12;
      const f32 sqrt_17 = sqrtf(add_7);
      const f32 add_18 = 1e-08f + sqrt_17;
      const f32 divide_19 = add_13 / add_18;
      const f32 multiply_20 = in4_15 * divide_19;
      const f32 subtract_21 = in3_14[v] - multiply_20;
      result_0[v] = add_7;
      result_1[v] = add_13;
      result_2[v] = subtract_21;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
    store_tail<4>(out1 + static_cast<s64>(i), result_1, extent - i);
    store_tail<4>(out2 + static_cast<s64>(i), result_2, extent - i);
  }
}

// 1 add, 3 multiply
__device__ __forceinline__ void group_0_6(const f32* __restrict__ in0, const f32* __restrict__ in1, f32* __restrict__ out0, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i = (i_lane + 32 * i_warp) * 4;

  // sweep 0: store 151
  f32 in0_0[4];
  f32 in1_3[4];
  if (i < extent) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in1_3, in1 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_2 = in0_0[v] * 0.999f;
      const f32 multiply_4 = in1_3[v] * in1_3[v];
      const f32 multiply_6 = multiply_4 * 0.001f;
      const f32 add_7 = multiply_2 + multiply_6;
      result_0[v] = add_7;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
  }
}

// 3 add, 1 divide, 6 multiply, 1 sqrt, 1 subtract
__device__ __forceinline__ void group_0_7(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, const f32* __restrict__ in4, f32* __restrict__ out0, f32* __restrict__ out1, f32* __restrict__ out2, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8, grid 23
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = (i_lane + 32 * i_warp) * 4 + i_grid * 1024;

  // sweep 0: store 199, store 240, store 245
  const f32 in4_15 = load_one<Cached::streamed>(&in4[0]);
  f32 in0_0[4];
  f32 in1_3[4];
  f32 in2_10[4];
  f32 in3_14[4];
  if (i < extent) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in1_3, in1 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in2_10, in2 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in3_14, in3 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    f32 result_1[4];
    f32 result_2[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_2 = in0_0[v] * 0.9f;
      const f32 multiply_5 = in1_3[v] * 0.1f;
      const f32 add_6 = multiply_2 + multiply_5;
      const f32 multiply_8 = in1_3[v] * in1_3[v];
      const f32 multiply_9 = 0.001f * multiply_8;
      const f32 multiply_12 = in2_10[v] * 0.999f;
      const f32 add_13 = multiply_9 + multiply_12;
      const f32 sqrt_17 = sqrtf(add_13);
      const f32 add_18 = 1e-08f + sqrt_17;
      const f32 divide_19 = add_6 / add_18;
      const f32 multiply_20 = in4_15 * divide_19;
      const f32 subtract_21 = in3_14[v] - multiply_20;
      result_0[v] = add_6;
      result_1[v] = add_13;
      result_2[v] = subtract_21;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
    store_tail<4>(out1 + static_cast<s64>(i), result_1, extent - i);
    store_tail<4>(out2 + static_cast<s64>(i), result_2, extent - i);
  }
}

// 1 add, 2 multiply; 2 tensors
__device__ __forceinline__ void group_0_8(const f32* __restrict__ in0, const f32* __restrict__ in1, f32* __restrict__ out0, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i = (i_lane + 32 * i_warp) * 4;

  // sweep 0: store 216
  f32 in0_0[4];
  f32 in1_3[4];
  if (i < extent) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in1_3, in1 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_2 = in0_0[v] * 0.9f;
      const f32 multiply_5 = in1_3[v] * 0.1f;
      const f32 add_6 = multiply_2 + multiply_5;
      result_0[v] = add_6;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
  }
}

// 1 add, 2 multiply
__device__ __forceinline__ void group_0_9(const f32* __restrict__ in0, const f32* __restrict__ in1, f32* __restrict__ out0, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 16
  const int i_lane = static_cast<int>(threadIdx.x) % 16;
  const int i = i_lane * 4;
  const bool active = threadIdx.x < 16;

  // sweep 0: store 217
  f32 in0_0[4];
  f32 in1_3[4];
  if (i < extent && active) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in1_3, in1 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_2 = in0_0[v] * 0.9f;
      const f32 multiply_5 = in1_3[v] * 0.1f;
      const f32 add_6 = multiply_2 + multiply_5;
      result_0[v] = add_6;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
  }
}

// 3 add, 1 divide, 6 multiply, 1 sqrt, 1 subtract
__device__ __forceinline__ void group_0_10(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, const f32* __restrict__ in4, f32* __restrict__ out0, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i = (i_lane + 32 * i_warp) * 4;

  // sweep 0: store 238
  const f32 in1_1 = load_one<Cached::streamed>(&in1[0]);
  f32 in0_0[4];
  f32 in2_2[4];
  f32 in3_5[4];
  f32 in4_9[4];
  if (i < extent) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in2_2, in2 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in3_5, in3 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in4_9, in4 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_4 = in2_2[v] * 0.9f;
      const f32 multiply_7 = in3_5[v] * 0.1f;
      const f32 add_8 = multiply_4 + multiply_7;
      const f32 multiply_11 = in4_9[v] * 0.999f;
      const f32 multiply_12 = in3_5[v] * in3_5[v];
      const f32 multiply_14 = multiply_12 * 0.001f;
      const f32 add_15 = multiply_11 + multiply_14;
      const f32 sqrt_16 = sqrtf(add_15);
      const f32 add_18 = sqrt_16 + 1e-08f;
      const f32 divide_19 = add_8 / add_18;
      const f32 multiply_20 = in1_1 * divide_19;
      const f32 subtract_21 = in0_0[v] - multiply_20;
      result_0[v] = subtract_21;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
  }
}

// 1 add, 3 multiply
__device__ __forceinline__ void group_0_11(const f32* __restrict__ in0, const f32* __restrict__ in1, f32* __restrict__ out0, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i = (i_lane + 32 * i_warp) * 4;

  // sweep 0: store 258
  f32 in0_0[4];
  f32 in1_4[4];
  if (i < extent) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in1_4, in1 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_2 = in0_0[v] * 0.999f;
      const f32 multiply_5 = in1_4[v] * in1_4[v];
      const f32 multiply_6 = 0.001f * multiply_5;
      const f32 add_7 = multiply_2 + multiply_6;
      result_0[v] = add_7;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
  }
}

// 3 add, 1 divide, 6 multiply, 1 sqrt, 1 subtract
__device__ __forceinline__ void group_0_12(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, const f32* __restrict__ in4, f32* __restrict__ out0, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 32, warp 8
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i = (i_lane + 32 * i_warp) * 4;

  // sweep 0: store 263
  const f32 in1_1 = load_one<Cached::streamed>(&in1[0]);
  f32 in0_0[4];
  f32 in2_2[4];
  f32 in3_5[4];
  f32 in4_10[4];
  if (i < extent) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in2_2, in2 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in3_5, in3 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in4_10, in4 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_4 = in2_2[v] * 0.9f;
      const f32 multiply_7 = in3_5[v] * 0.1f;
      const f32 add_8 = multiply_4 + multiply_7;
      const f32 multiply_12 = in4_10[v] * 0.999f;
      const f32 multiply_14 = in3_5[v] * in3_5[v];
      const f32 multiply_15 = 0.001f * multiply_14;
      const f32 add_16 = multiply_12 + multiply_15;
      const f32 sqrt_17 = sqrtf(add_16);
      const f32 add_18 = 1e-08f + sqrt_17;
      const f32 divide_19 = add_8 / add_18;
      const f32 multiply_20 = in1_1 * divide_19;
      const f32 subtract_21 = in0_0[v] - multiply_20;
      result_0[v] = subtract_21;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
  }
}

// 1 add, 3 multiply
__device__ __forceinline__ void group_0_13(const f32* __restrict__ in0, const f32* __restrict__ in1, f32* __restrict__ out0, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 16
  const int i_lane = static_cast<int>(threadIdx.x) % 16;
  const int i = i_lane * 4;
  const bool active = threadIdx.x < 16;

  // sweep 0: store 264
  f32 in0_0[4];
  f32 in1_4[4];
  if (i < extent && active) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in1_4, in1 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_1 = in0_0[v] * in0_0[v];
      const f32 multiply_3 = multiply_1 * 0.001f;
      const f32 multiply_6 = in1_4[v] * 0.999f;
      const f32 add_7 = multiply_3 + multiply_6;
      result_0[v] = add_7;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
  }
}

// 3 add, 1 divide, 6 multiply, 1 sqrt, 1 subtract
__device__ __forceinline__ void group_0_14(const f32* __restrict__ in0, const f32* __restrict__ in1, const f32* __restrict__ in2, const f32* __restrict__ in3, const f32* __restrict__ in4, f32* __restrict__ out0, const s64 extent, const int tile) {
  // axes  i: extent = vector 4, lane 16
  const int i_lane = static_cast<int>(threadIdx.x) % 16;
  const int i = i_lane * 4;
  const bool active = threadIdx.x < 16;

  // sweep 0: store 269
  const f32 in1_1 = active ? load_one<Cached::streamed>(&in1[0]) : 0.0f;
  f32 in0_0[4];
  f32 in2_2[4];
  f32 in3_5[4];
  f32 in4_13[4];
  if (i < extent && active) {
    load_tail<4, Cached::streamed>(in0_0, in0 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in2_2, in2 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in3_5, in3 + static_cast<s64>(i), extent - i);
    load_tail<4, Cached::streamed>(in4_13, in4 + static_cast<s64>(i), extent - i);
    f32 result_0[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const f32 multiply_4 = in2_2[v] * 0.9f;
      const f32 multiply_7 = in3_5[v] * 0.1f;
      const f32 add_8 = multiply_4 + multiply_7;
      const f32 multiply_10 = in3_5[v] * in3_5[v];
      const f32 multiply_12 = multiply_10 * 0.001f;
      const f32 multiply_15 = in4_13[v] * 0.999f;
      const f32 add_16 = multiply_12 + multiply_15;
      const f32 sqrt_17 = sqrtf(add_16);
      const f32 add_18 = 1e-08f + sqrt_17;
      const f32 divide_19 = add_8 / add_18;
      const f32 multiply_20 = in1_1 * divide_19;
      const f32 subtract_21 = in0_0[v] - multiply_20;
      result_0[v] = subtract_21;
    }
    store_tail<4>(out0 + static_cast<s64>(i), result_0, extent - i);
  }
}

}  // namespace

struct Table {
  u64 words[132];
};

extern "C" __global__ void __launch_bounds__(256, 3)
stitch_85d7b579591a(const __grid_constant__ Table table) {
  const auto none = await_predecessor();
  {
    const int tile = static_cast<int>(blockIdx.x);
    if (tile < 1728) {
      const u64* const row = table.words + 0;
      group_0_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<const f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), static_cast<s64>(row[8]), tile);
    }
    else if (tile < 1730) {
      const u64* const row = table.words + 9;
      group_0_1(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<const f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), static_cast<s64>(row[8]), tile - 1728);
    }
    else if (tile < 2884) {
      int low = 0, high = 1;
      while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (static_cast<int>(table.words[27 + middle * 10]) <= tile - 1730) low = middle;
        else high = middle - 1;
      }
      const u64* const row = table.words + 18 + low * 10;
      group_0_2(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<const f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), static_cast<s64>(row[8]), tile - 1730 - static_cast<int>(row[9]));
    }
    else if (tile < 4324) {
      int low = 0, high = 1;
      while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (static_cast<int>(table.words[47 + middle * 10]) <= tile - 2884) low = middle;
        else high = middle - 1;
      }
      const u64* const row = table.words + 38 + low * 10;
      group_0_3(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<const f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), static_cast<s64>(row[8]), tile - 2884 - static_cast<int>(row[9]));
    }
    else if (tile < 4326) {
      const u64* const row = table.words + 58;
      group_0_4(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<const f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), static_cast<s64>(row[8]), tile - 4324);
    }
    else if (tile < 4710) {
      const u64* const row = table.words + 67;
      group_0_5(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<const f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), static_cast<s64>(row[8]), tile - 4326);
    }
    else if (tile < 4711) {
      const u64* const row = table.words + 76;
      group_0_6(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), static_cast<s64>(row[3]), tile - 4710);
    }
    else if (tile < 4734) {
      const u64* const row = table.words + 80;
      group_0_7(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<const f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), reinterpret_cast<f32*>(row[6] + none), reinterpret_cast<f32*>(row[7] + none), static_cast<s64>(row[8]), tile - 4711);
    }
    else if (tile < 4736) {
      int low = 0, high = 1;
      while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (static_cast<int>(table.words[93 + middle * 5]) <= tile - 4734) low = middle;
        else high = middle - 1;
      }
      const u64* const row = table.words + 89 + low * 5;
      group_0_8(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), static_cast<s64>(row[3]), tile - 4734 - static_cast<int>(row[4]));
    }
    else if (tile < 4737) {
      const u64* const row = table.words + 99;
      group_0_9(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), static_cast<s64>(row[3]), tile - 4736);
    }
    else if (tile < 4738) {
      const u64* const row = table.words + 103;
      group_0_10(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<const f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), static_cast<s64>(row[6]), tile - 4737);
    }
    else if (tile < 4739) {
      const u64* const row = table.words + 110;
      group_0_11(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), static_cast<s64>(row[3]), tile - 4738);
    }
    else if (tile < 4740) {
      const u64* const row = table.words + 114;
      group_0_12(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<const f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), static_cast<s64>(row[6]), tile - 4739);
    }
    else if (tile < 4741) {
      const u64* const row = table.words + 121;
      group_0_13(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<f32*>(row[2] + none), static_cast<s64>(row[3]), tile - 4740);
    }
    else if (tile < 4742) {
      const u64* const row = table.words + 125;
      group_0_14(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const f32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<const f32*>(row[4] + none), reinterpret_cast<f32*>(row[5] + none), static_cast<s64>(row[6]), tile - 4741);
    }
  }
}
