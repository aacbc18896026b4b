// Conversions between every pair of integer and float types, and the rounding intrinsics.
#define CONVERT(NAME, FROM, TO, EXPRESSION)                                                    \
  extern "C" __global__ void NAME(TO* __restrict__ y, const FROM* __restrict__ x, int n) {     \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                             \
    if (i < n) {                                                                               \
      FROM a = x[i];                                                                           \
      y[i] = (EXPRESSION);                                                                     \
    }                                                                                          \
  }
using s8 = signed char;
using u8 = unsigned char;
using s16 = short;
using u16 = unsigned short;
using s32 = int;
using u32 = unsigned;
using s64 = long long;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;
#define PAIR(FROM, TO) CONVERT(FROM##_to_##TO, FROM, TO, static_cast<TO>(a))
#define FROM_TYPE(FROM) \
  PAIR(FROM, s8) PAIR(FROM, u8) PAIR(FROM, s16) PAIR(FROM, u16) PAIR(FROM, s32) PAIR(FROM, u32) PAIR(FROM, s64) \
  PAIR(FROM, u64) PAIR(FROM, f32) PAIR(FROM, f64)
FROM_TYPE(s8)
FROM_TYPE(u8)
FROM_TYPE(s16)
FROM_TYPE(u16)
FROM_TYPE(s32)
FROM_TYPE(u32)
FROM_TYPE(s64)
FROM_TYPE(u64)
FROM_TYPE(f32)
FROM_TYPE(f64)
CONVERT(f32_to_s32_rn, f32, s32, __float2int_rn(a))
CONVERT(f32_to_s32_rd, f32, s32, __float2int_rd(a))
CONVERT(f32_to_s32_ru, f32, s32, __float2int_ru(a))
CONVERT(f64_to_s64_rn, f64, s64, __double2ll_rn(a))
CONVERT(f64_to_f32_rd, f64, f32, __double2float_rd(a))
CONVERT(f64_to_f32_ru, f64, f32, __double2float_ru(a))
CONVERT(s32_to_f32_rz, s32, f32, __int2float_rz(a))
CONVERT(u64_to_f32_rd, u64, f32, __ull2float_rd(a))
CONVERT(s64_to_f64_ru, s64, f64, __ll2double_ru(a))
