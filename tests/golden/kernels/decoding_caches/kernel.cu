// fragment 0, kernel 0: 6160 blocks of 256 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// 1 add, 1 compare, 2 select
__device__ __forceinline__ void group_0_0(const s32* __restrict__ in0, const bf16* __restrict__ in1, const bf16* __restrict__ in2, bf16* __restrict__ out0, const int tile) {
  // axes  i: 128 = grid 128; j: 2048 = lane 4, warp 8, register 2, grid 32; k: 64 = vector 8, lane 8
  const int k_lane = static_cast<int>(threadIdx.x) % 8;
  const int j_lane = static_cast<int>(threadIdx.x) / 8 % 4;
  const int j_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_grid = tile % 32;
  const int i_grid = tile / 32;
  const int i = i_grid;
  const int j0 = (j_lane + 4 * j_warp) + j_grid * 64;
  const int k = k_lane * 8;

  // sweep 0: store 34
  const s32 in0_1 = load_one<Cached::streamed>(&in0[0]);
  const bool compare_2 = in0_1 < 0;
  const s32 add_4 = static_cast<s32>(static_cast<u32>(in0_1) + static_cast<u32>(2048));
  const s32 select_5 = compare_2 ? add_4 : in0_1;
  bool inside_6[2];
  bool not_7[2];
#pragma unroll
  for (int j_r = 0; j_r < 2; ++j_r) {
    const int j = j0 + j_r * 32;
    inside_6[j_r] = (j - static_cast<int>(minimum<s64>(maximum<s64>(select_5, 0), 2047))) >= 0 && (j - static_cast<int>(minimum<s64>(maximum<s64>(select_5, 0), 2047))) < 1;
    not_7[j_r] = !inside_6[j_r];
  }
  Packed<bf16, 8> in1_8[2];
  Packed<bf16, 8> in2_9[2];
#pragma unroll
  for (int j_r = 0; j_r < 2; ++j_r) {
    const int j = j0 + j_r * 32;
    #pragma unroll
    for (int v = 0; v < 8; ++v) in1_8[j_r][v] = bf16{};
    if (inside_6[j_r]) {
      load<8, Cached::streamed>(in1_8[j_r], in1 + (i * 64 + j * 64 + k - static_cast<int>(minimum<s64>(maximum<s64>(select_5, 0), 2047)) * 64));
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) in2_9[j_r][v] = bf16{};
    if (not_7[j_r]) {
      load<8, Cached::streamed>(in2_9[j_r], in2 + (i * 131072 + j * 64 + k));
    }
  }
#pragma unroll
  for (int j_r = 0; j_r < 2; ++j_r) {
    const int j = j0 + j_r * 32;
    bf16 result_0[8];
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const f32 select_10 = inside_6[j_r] ? widen(in1_8[j_r][v]) : widen(in2_9[j_r][v]);
      result_0[v] = narrow<bf16>(select_10);
    }
    store<8>(out0 + (i * 131072 + j * 64 + k), result_0);
  }
}

// 1 add, 7 convert, 2 cos, 6 multiply, 1 select, 2 sin, 1 subtract
__device__ __forceinline__ void group_0_1(const f32* __restrict__ in0, const s32* __restrict__ in1, const bf16* __restrict__ in2, bf16* __restrict__ out0, const int tile) {
  // axes  i: 512 = lane 4, warp 8, grid 16; j: 64 = vector 8, lane 8
  const int j_lane = static_cast<int>(threadIdx.x) % 8;
  const int i_lane = static_cast<int>(threadIdx.x) / 8 % 4;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = (i_lane + 4 * i_warp) + i_grid * 32;
  const int j = j_lane * 8;

  // sweep 0: store 47
  f32 in0_1[8];
  s32 in1_2[8];
  Packed<bf16, 8> in2_6;
  Packed<bf16, 8> in2_9;
  Packed<bf16, 8> in2_15;
  f32 in0_17[8];
  s32 in1_18[8];
  Packed<bf16, 8> in2_24;
#pragma unroll
  for (int v = 0; v < 8; ++v) in0_1[v] = f32{};
  if ((j < 32)) {
    load<4, Cached::streamed>(in0_1, in0 + j);
    load<4, Cached::streamed>(in0_1 + 4, in0 + j + 4);
  }
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    in1_2[v] = ((j + v) < 32) ? load_one<Cached::streamed>(&in1[0]) : s32{};
  }
#pragma unroll
  for (int v = 0; v < 8; ++v) in2_6[v] = bf16{};
  if ((j < 32)) {
    load<8, Cached::streamed>(in2_6, in2 + (i * 64 + j));
  }
#pragma unroll
  for (int v = 0; v < 8; ++v) in2_9[v] = bf16{};
  if ((j < 32)) {
    load<8, Cached::streamed>(in2_9, in2 + (((i * 64 + j + 32) % 2048) + ((i * 64 + j + 32) / 2048) * 2048));
  }
#pragma unroll
  for (int v = 0; v < 8; ++v) in2_15[v] = bf16{};
  if ((j >= 32)) {
    load<8, Cached::streamed>(in2_15, in2 + (i * 64 + j));
  }
#pragma unroll
  for (int v = 0; v < 8; ++v) in0_17[v] = f32{};
  if ((j >= 32)) {
    load<4, Cached::streamed>(in0_17, in0 + (j - 32));
    load<4, Cached::streamed>(in0_17 + 4, in0 + (j - 32) + 4);
  }
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    in1_18[v] = ((j + v) >= 32) ? load_one<Cached::streamed>(&in1[0]) : s32{};
  }
#pragma unroll
  for (int v = 0; v < 8; ++v) in2_24[v] = bf16{};
  if ((j >= 32)) {
    load<8, Cached::streamed>(in2_24, in2 + (((i * 64 + j + 2016) % 2048) + ((i * 64 + j + 2016) / 2048) * 2048 - 2048));
  }
  bf16 result_0[8];
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const f32 convert_3 = convert<f32>(in1_2[v]);
    const f32 multiply_4 = in0_1[v] * convert_3;
    const f32 cos_5 = cosine(multiply_4);
    const f32 convert_7 = widen(in2_6[v]);
    const f32 multiply_8 = cos_5 * convert_7;
    const f32 convert_10 = widen(in2_9[v]);
    const f32 sin_11 = sine(multiply_4);
    const f32 multiply_12 = convert_10 * sin_11;
    const f32 subtract_13 = multiply_8 - multiply_12;
    const f32 convert_16 = widen(in2_15[v]);
    const f32 convert_19 = convert<f32>(in1_18[v]);
    const f32 multiply_20 = in0_17[v] * convert_19;
    const f32 cos_21 = cosine(multiply_20);
    const f32 multiply_22 = convert_16 * cos_21;
    const f32 sin_23 = sine(multiply_20);
    const f32 convert_25 = widen(in2_24[v]);
    const f32 multiply_26 = sin_23 * convert_25;
    const f32 add_27 = multiply_22 + multiply_26;
    const f32 select_28 = ((j + v) >= 32) ? add_27 : subtract_13;
    const f32 convert_29 = select_28;
    result_0[v] = narrow<bf16>(convert_29);
  }
  store<8>(out0 + (i * 64 + j), result_0);
}

// 2 add, 1 compare, 7 convert, 2 cos, 6 multiply, 3 select, 2 sin, 1 subtract
__device__ __forceinline__ void group_0_2(const s32* __restrict__ in0, const f32* __restrict__ in1, const bf16* __restrict__ in2, const bf16* __restrict__ in3, bf16* __restrict__ out0, const int tile) {
  // axes  i: 128 = register 4, grid 32; j: 2048 = lane 4, warp 8, grid 64; k: 64 = vector 8, lane 8
  const int k_lane = static_cast<int>(threadIdx.x) % 8;
  const int j_lane = static_cast<int>(threadIdx.x) / 8 % 4;
  const int j_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_grid = tile % 64;
  const int i_grid = tile / 64;
  const int i0 = i_grid * 4;
  const int j = (j_lane + 4 * j_warp) + j_grid * 32;
  const int k = k_lane * 8;

  // sweep 0: store 50
  const s32 in0_1 = load_one<Cached::streamed>(&in0[0]);
  const bool compare_2 = in0_1 < 0;
  const s32 add_4 = static_cast<s32>(static_cast<u32>(in0_1) + static_cast<u32>(2048));
  const s32 select_5 = compare_2 ? add_4 : in0_1;
  const bool inside_6 = (j - static_cast<int>(minimum<s64>(maximum<s64>(select_5, 0), 2047))) >= 0 && (j - static_cast<int>(minimum<s64>(maximum<s64>(select_5, 0), 2047))) < 1;
  const bool not_7 = !inside_6;
  bool and_9[8];
  f32 cos_14[8];
  f32 sin_18[8];
  bool and_24[8];
  f32 sin_29[8];
  f32 cos_33[8];
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    and_9[v] = inside_6 && ((k + v) < 32);
    const f32 in1_10 = and_9[v] ? load_one<Cached::streamed>(&in1[(k + v)]) : 0.0f;
    const s32 in0_11 = and_9[v] ? load_one<Cached::streamed>(&in0[0]) : 0;
    const f32 convert_12 = convert<f32>(in0_11);
    const f32 multiply_13 = in1_10 * convert_12;
    cos_14[v] = cosine(multiply_13);
    sin_18[v] = sine(multiply_13);
    and_24[v] = inside_6 && ((k + v) >= 32);
    const f32 in1_25 = and_24[v] ? load_one<Cached::streamed>(&in1[((k + v) - 32)]) : 0.0f;
    const s32 in0_26 = and_24[v] ? load_one<Cached::streamed>(&in0[0]) : 0;
    const f32 convert_27 = convert<f32>(in0_26);
    const f32 multiply_28 = in1_25 * convert_27;
    sin_29[v] = sine(multiply_28);
    cos_33[v] = cosine(multiply_28);
  }
  Packed<bf16, 8> in2_15[4];
  Packed<bf16, 8> in2_19[4];
  Packed<bf16, 8> in2_30[4];
  Packed<bf16, 8> in2_34[4];
  Packed<bf16, 8> in3_40[4];
#pragma unroll
  for (int i_r = 0; i_r < 4; ++i_r) {
    const int i = i0 + i_r * 1;
    #pragma unroll
    for (int v = 0; v < 8; ++v) in2_15[i_r][v] = bf16{};
    if (and_9[0]) {
      load<8, Cached::streamed>(in2_15[i_r], in2 + (i * 64 + j * 64 + k - static_cast<int>(minimum<s64>(maximum<s64>(select_5, 0), 2047)) * 64));
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) in2_19[i_r][v] = bf16{};
    if (and_9[0]) {
      load<8, Cached::streamed>(in2_19[i_r], in2 + (((i * 64 + j * 64 + k - static_cast<int>(minimum<s64>(maximum<s64>(select_5, 0), 2047)) * 64 + 32) % 512) + ((i * 64 + j * 64 + k - static_cast<int>(minimum<s64>(maximum<s64>(select_5, 0), 2047)) * 64 + 32) / 512) * 512));
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) in2_30[i_r][v] = bf16{};
    if (and_24[0]) {
      load<8, Cached::streamed>(in2_30[i_r], in2 + (((i * 64 + j * 64 + k - static_cast<int>(minimum<s64>(maximum<s64>(select_5, 0), 2047)) * 64 - 32) % 512) + ((i * 64 + j * 64 + k - static_cast<int>(minimum<s64>(maximum<s64>(select_5, 0), 2047)) * 64 - 32) / 512) * 512));
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) in2_34[i_r][v] = bf16{};
    if (and_24[0]) {
      load<8, Cached::streamed>(in2_34[i_r], in2 + (i * 64 + j * 64 + k - static_cast<int>(minimum<s64>(maximum<s64>(select_5, 0), 2047)) * 64));
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) in3_40[i_r][v] = bf16{};
    if (not_7) {
      load<8, Cached::streamed>(in3_40[i_r], in3 + (i * 131072 + j * 64 + k));
    }
  }
#pragma unroll
  for (int i_r = 0; i_r < 4; ++i_r) {
    const int i = i0 + i_r * 1;
    bf16 result_0[8];
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const f32 convert_16 = widen(in2_15[i_r][v]);
      const f32 multiply_17 = cos_14[v] * convert_16;
      const f32 convert_20 = widen(in2_19[i_r][v]);
      const f32 multiply_21 = sin_18[v] * convert_20;
      const f32 subtract_22 = multiply_17 - multiply_21;
      const f32 convert_31 = widen(in2_30[i_r][v]);
      const f32 multiply_32 = sin_29[v] * convert_31;
      const f32 convert_35 = widen(in2_34[i_r][v]);
      const f32 multiply_36 = cos_33[v] * convert_35;
      const f32 add_37 = multiply_32 + multiply_36;
      const f32 select_38 = ((k + v) >= 32) ? add_37 : subtract_22;
      const f32 convert_39 = select_38;
      const f32 select_41 = inside_6 ? convert_39 : widen(in3_40[i_r][v]);
      result_0[v] = narrow<bf16>(select_41);
    }
    store<8>(out0 + (i * 131072 + j * 64 + k), result_0);
  }
}

}  // namespace

struct Table {
  u64 words[13];
};

extern "C" __global__ void __launch_bounds__(256, 2)
stitch_96a0359352b3(const __grid_constant__ Table table) {
  const auto none = await_predecessor();
  {
    const int tile = static_cast<int>(blockIdx.x);
    if (tile < 4096) {
      const u64* const row = table.words + 0;
      group_0_0(reinterpret_cast<const s32*>(row[0] + none), reinterpret_cast<const bf16*>(row[1] + none), reinterpret_cast<const bf16*>(row[2] + none), reinterpret_cast<bf16*>(row[3] + none), tile);
    }
    else if (tile < 4112) {
      const u64* const row = table.words + 4;
      group_0_1(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<const s32*>(row[1] + none), reinterpret_cast<const bf16*>(row[2] + none), reinterpret_cast<bf16*>(row[3] + none), tile - 4096);
    }
    else if (tile < 6160) {
      const u64* const row = table.words + 8;
      group_0_2(reinterpret_cast<const s32*>(row[0] + none), reinterpret_cast<const f32*>(row[1] + none), reinterpret_cast<const bf16*>(row[2] + none), reinterpret_cast<const bf16*>(row[3] + none), reinterpret_cast<bf16*>(row[4] + none), tile - 4112);
    }
  }
}
