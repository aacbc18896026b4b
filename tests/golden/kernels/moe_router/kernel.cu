// fragment 0, kernel 0: 4 blocks of 128 threads

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// max of %10, sum of %14, arg-reduce of %18, arg-reduce of %22, min of %26, min of %33, arg-reduce of %34, min of %42, arg-reduce of %44, min of %53, arg-reduce of %54, min of %62, arg-reduce of %65; 5 add, 10 compare, 1 convert, 2 divide, 1 exp, 7 multiply, 15 select, 1 subtract
extern "C" __global__ void __launch_bounds__(128, 1)
stitch_ead759f0b839(const bf16* __restrict__ in0, s32* __restrict__ out0, f32* __restrict__ out1) {
  const int tile = static_cast<int>(blockIdx.x);
  // axes  i: 64 = lane 4, warp 4, grid 4; j: 64 = vector 8, lane 8
  const int j_lane = static_cast<int>(threadIdx.x) % 8;
  const int i_lane = static_cast<int>(threadIdx.x) / 8 % 4;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = (i_lane + 4 * i_warp) + i_grid * 16;
  const int j = j_lane * 8;
  await_predecessor(in0, out0, out1);
  Packed<bf16, 8> in0_0;
  f32 exp_4[8];
  f32 multiply_8[8];
  f32 select_13[8];
  f32 select_23[8];
  s32 select_30[8];
  f32 select_31[8];
  s32 select_38[8];
  f32 select_39[8];

  // sweep 0: reduce 10
  f32 max0 = __int_as_float(0xff800000);
  {
    load<8, Cached::streamed>(in0_0, in0 + (i * 64 + j));
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const f32 convert_1 = widen(in0_0[v]);
      max0 = Max::combine(max0, convert_1);
    }
  }
  max0 = reduce_lanes<Max, 4, 2, 1>(max0);

  // sweep 1: reduce 14
  f32 sum1 = 0.0f;
  {
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const f32 convert_1 = widen(in0_0[v]);
      const f32 subtract_3 = convert_1 - max0;
      exp_4[v] = exponential(subtract_3);
      sum1 += exp_4[v];
    }
  }
  sum1 = reduce_lanes<Sum, 4, 2, 1>(sum1);

  // sweep 2: arg-reduce 18
  Indexed<f32> extreme2{__int_as_float(0xff800000), 0x7fffffffffffffffll};
  const f32 divide_7 = 1.0f / sum1;
  {
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      multiply_8[v] = exp_4[v] * divide_7;
      extreme2 = ArgExtreme<true, false>::combine(extreme2, Indexed<f32>{multiply_8[v], static_cast<s64>(static_cast<s64>((j + v)))});
    }
  }
  extreme2 = reduce_lanes<ArgExtreme<true, false>, 4, 2, 1>(extreme2);

  // sweep 3: arg-reduce 22, reduce 26, store 63
  Indexed<f32> extreme3{__int_as_float(0xff800000), 0x7fffffffffffffffll};
  s32 min4 = 2147483647;
  {
    if (j_lane == 0) {
      out0[(i * 6)] = static_cast<s32>(extreme2.index);
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const bool compare_11 = static_cast<s32>((j + v)) == static_cast<s32>(extreme2.index);
      select_13[v] = compare_11 ? __int_as_float(0xff800000) : multiply_8[v];
      const s32 select_15 = compare_11 ? 64 : static_cast<s32>((j + v));
      extreme3 = ArgExtreme<true, false>::combine(extreme3, Indexed<f32>{select_13[v], static_cast<s64>(static_cast<s64>((j + v)))});
      min4 = Min::combine(min4, select_15);
    }
  }
  extreme3 = reduce_lanes<ArgExtreme<true, false>, 4, 2, 1>(extreme3);
  min4 = reduce_lanes<Min, 4, 2, 1>(min4);

  // sweep 4: store 28, reduce 33, arg-reduce 34
  s32 min6 = 2147483647;
  Indexed<f32> extreme7{__int_as_float(0xff800000), 0x7fffffffffffffffll};
  const bool compare_17 = __int_as_float(0xff800000) == extreme3.value;
  const s32 select_20 = compare_17 ? min4 : static_cast<s32>(extreme3.index);
  {
    if (j_lane == 0) {
      out0[(i * 6 + 1)] = select_20;
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const bool compare_11 = static_cast<s32>((j + v)) == static_cast<s32>(extreme2.index);
      const s32 select_15 = compare_11 ? 64 : static_cast<s32>((j + v));
      const bool compare_21 = static_cast<s32>((j + v)) == select_20;
      const s32 select_22 = compare_21 ? 64 : select_15;
      select_23[v] = compare_21 ? __int_as_float(0xff800000) : select_13[v];
      min6 = Min::combine(min6, select_22);
      extreme7 = ArgExtreme<true, false>::combine(extreme7, Indexed<f32>{select_23[v], static_cast<s64>(static_cast<s64>((j + v)))});
    }
  }
  min6 = reduce_lanes<Min, 4, 2, 1>(min6);
  extreme7 = reduce_lanes<ArgExtreme<true, false>, 4, 2, 1>(extreme7);

  // sweep 5: store 39, reduce 42, arg-reduce 44
  s32 min9 = 2147483647;
  Indexed<f32> extreme10{__int_as_float(0xff800000), 0x7fffffffffffffffll};
  const bool compare_25 = __int_as_float(0xff800000) == extreme7.value;
  const s32 select_28 = compare_25 ? min6 : static_cast<s32>(extreme7.index);
  {
    if (j_lane == 0) {
      out0[(i * 6 + 2)] = select_28;
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const bool compare_11 = static_cast<s32>((j + v)) == static_cast<s32>(extreme2.index);
      const s32 select_15 = compare_11 ? 64 : static_cast<s32>((j + v));
      const bool compare_21 = static_cast<s32>((j + v)) == select_20;
      const s32 select_22 = compare_21 ? 64 : select_15;
      const bool compare_29 = static_cast<s32>((j + v)) == select_28;
      select_30[v] = compare_29 ? 64 : select_22;
      select_31[v] = compare_29 ? __int_as_float(0xff800000) : select_23[v];
      min9 = Min::combine(min9, select_30[v]);
      extreme10 = ArgExtreme<true, false>::combine(extreme10, Indexed<f32>{select_31[v], static_cast<s64>(static_cast<s64>((j + v)))});
    }
  }
  min9 = reduce_lanes<Min, 4, 2, 1>(min9);
  extreme10 = reduce_lanes<ArgExtreme<true, false>, 4, 2, 1>(extreme10);

  // sweep 6: store 48, reduce 53, arg-reduce 54
  s32 min12 = 2147483647;
  Indexed<f32> extreme13{__int_as_float(0xff800000), 0x7fffffffffffffffll};
  const bool compare_33 = __int_as_float(0xff800000) == extreme10.value;
  const s32 select_36 = compare_33 ? min9 : static_cast<s32>(extreme10.index);
  {
    if (j_lane == 0) {
      out0[(i * 6 + 3)] = select_36;
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const bool compare_37 = static_cast<s32>((j + v)) == select_36;
      select_38[v] = compare_37 ? 64 : select_30[v];
      select_39[v] = compare_37 ? __int_as_float(0xff800000) : select_31[v];
      min12 = Min::combine(min12, select_38[v]);
      extreme13 = ArgExtreme<true, false>::combine(extreme13, Indexed<f32>{select_39[v], static_cast<s64>(static_cast<s64>((j + v)))});
    }
  }
  min12 = reduce_lanes<Min, 4, 2, 1>(min12);
  extreme13 = reduce_lanes<ArgExtreme<true, false>, 4, 2, 1>(extreme13);

  // sweep 7: store 58, reduce 62, arg-reduce 65
  s32 min15 = 2147483647;
  Indexed<f32> extreme17{__int_as_float(0xff800000), 0x7fffffffffffffffll};
  const bool compare_41 = __int_as_float(0xff800000) == extreme13.value;
  const s32 select_44 = compare_41 ? min12 : static_cast<s32>(extreme13.index);
  {
    if (j_lane == 0) {
      out0[(i * 6 + 4)] = select_44;
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const bool compare_45 = static_cast<s32>((j + v)) == select_44;
      const s32 select_46 = compare_45 ? 64 : select_38[v];
      const f32 select_47 = compare_45 ? __int_as_float(0xff800000) : select_39[v];
      min15 = Min::combine(min15, select_46);
      extreme17 = ArgExtreme<true, false>::combine(extreme17, Indexed<f32>{select_47, static_cast<s64>(static_cast<s64>((j + v)))});
    }
  }
  min15 = reduce_lanes<Min, 4, 2, 1>(min15);
  extreme17 = reduce_lanes<ArgExtreme<true, false>, 4, 2, 1>(extreme17);

  // sweep 8: store 70, store 74, store 77, store 78, store 80, store 82, store 84
  const bool compare_49 = __int_as_float(0xff800000) == extreme17.value;
  const s32 select_52 = compare_49 ? min15 : static_cast<s32>(extreme17.index);
  const f32 add_54 = extreme2.value + extreme3.value;
  const f32 add_55 = add_54 + extreme7.value;
  const f32 add_56 = add_55 + extreme10.value;
  const f32 add_57 = add_56 + extreme13.value;
  const f32 add_58 = add_57 + extreme17.value;
  const f32 divide_59 = 1.0f / add_58;
  const f32 multiply_60 = extreme3.value * divide_59;
  const f32 multiply_61 = extreme10.value * divide_59;
  const f32 multiply_62 = extreme17.value * divide_59;
  const f32 multiply_63 = extreme13.value * divide_59;
  const f32 multiply_64 = extreme7.value * divide_59;
  const f32 multiply_65 = extreme2.value * divide_59;
  {
    if (j_lane == 0) {
      out0[(i * 6 + 5)] = select_52;
    }
    if (j_lane == 0) {
      out1[(i * 6 + 1)] = multiply_60;
    }
    if (j_lane == 0) {
      out1[(i * 6 + 3)] = multiply_61;
    }
    if (j_lane == 0) {
      out1[(i * 6 + 5)] = multiply_62;
    }
    if (j_lane == 0) {
      out1[(i * 6 + 4)] = multiply_63;
    }
    if (j_lane == 0) {
      out1[(i * 6 + 2)] = multiply_64;
    }
    if (j_lane == 0) {
      out1[(i * 6)] = multiply_65;
    }
  }
}
