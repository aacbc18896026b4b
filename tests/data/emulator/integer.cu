// Integer arithmetic of every width, as C++ and as intrinsics.
#define BINARY(NAME, T, R, EXPRESSION)                                                                   \
  extern "C" __global__ void NAME(R* __restrict__ y, const T* __restrict__ x, const T* __restrict__ z,   \
                                  int n) {                                                               \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                                       \
    if (i < n) {                                                                                         \
      T a = x[i], b = z[i];                                                                              \
      y[i] = (EXPRESSION);                                                                               \
    }                                                                                                    \
  }
using s8 = signed char;
using u8 = unsigned char;
using s16 = short;
using u16 = unsigned short;
using s32 = int;
using u32 = unsigned;
using s64 = long long;
using u64 = unsigned long long;
#define ARITHMETIC(T)                                   \
  BINARY(k_add_##T, T, T, a + b)                        \
  BINARY(k_sub_##T, T, T, a - b)                        \
  BINARY(k_mul_##T, T, T, a* b)                         \
  BINARY(k_div_##T, T, T, b == 0 ? 0 : a / b)           \
  BINARY(k_rem_##T, T, T, b == 0 ? 0 : a % b)           \
  BINARY(k_min_##T, T, T, a < b ? a : b)                \
  BINARY(k_max_##T, T, T, a > b ? a : b)                \
  BINARY(k_and_##T, T, T, a& b)                         \
  BINARY(k_or_##T, T, T, a | b)                         \
  BINARY(k_xor_##T, T, T, (a ^ b) & ~(a + 1))           \
  BINARY(k_shl_##T, T, T, a << (b & (sizeof(T) * 8 - 1))) \
  BINARY(k_shr_##T, T, T, a >> (b & (sizeof(T) * 8 - 1)))
ARITHMETIC(s8)
ARITHMETIC(u8)
ARITHMETIC(s16)
ARITHMETIC(u16)
ARITHMETIC(s32)
ARITHMETIC(u32)
ARITHMETIC(s64)
ARITHMETIC(u64)
BINARY(k_mulhi_s32, s32, s32, __mulhi(a, b))
BINARY(k_mulhi_u32, u32, u32, __umulhi(a, b))
BINARY(k_mulhi_s64, s64, s64, __mul64hi(a, b))
BINARY(k_mulhi_u64, u64, u64, __umul64hi(a, b))
BINARY(k_mul24, s32, s32, __mul24(a, b))
BINARY(k_umul24, u32, u32, __umul24(a, b))
BINARY(k_sad, s32, u32, __sad(a, b, 7u))
BINARY(k_usad, u32, u32, __usad(a, b, 7u))
BINARY(k_clz, u32, s32, __clz(a ^ b))
BINARY(k_clzll, u64, s32, __clzll(a ^ b))
BINARY(k_popc, u32, s32, __popc(a) - __popc(b))
BINARY(k_popcll, u64, s32, __popcll(a ^ b))
BINARY(k_brev, u32, u32, __brev(a) ^ b)
BINARY(k_brevll, u64, u64, __brevll(a) ^ b)
BINARY(k_ffs, s32, s32, __ffs(a) + __ffs(b))
BINARY(k_ffsll, s64, s32, __ffsll(a&b))
BINARY(k_funnel_left, u32, u32, __funnelshift_l(a, b, b >> 7))
BINARY(k_funnel_right, u32, u32, __funnelshift_r(a, b, b >> 7))
BINARY(k_funnel_left_clamp, u32, u32, __funnelshift_lc(a, b, b & 63))
BINARY(k_byte_perm, u32, u32, __byte_perm(a, b, b >> 3))
BINARY(k_dp4a_s, s32, s32, __dp4a(a, b, 11))
BINARY(k_dp4a_u, u32, u32, __dp4a(a, b, 11u))
BINARY(k_hadd, s32, s32, __hadd(a, b))
BINARY(k_urhadd, u32, u32, __urhadd(a, b))
BINARY(k_abs, s32, s32, abs(a) + abs(b))
BINARY(k_divide_by_constant, s32, s32, a / 7 + b % 1000)
BINARY(k_divide_by_constant_u64, u64, u64, a / 10 + b % 12345)
// A 64 x 64 -> 128-bit product by hand: add.cc, addc, mad.lo.cc, madc.hi.
extern "C" __global__ void k_wide_product(u64* __restrict__ y, const u64* __restrict__ x, const u64* __restrict__ z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u32 a0 = static_cast<u32>(x[i]), a1 = static_cast<u32>(x[i] >> 32);
  u32 b0 = static_cast<u32>(z[i]), b1 = static_cast<u32>(z[i] >> 32), r0, r1, r2, r3;
  asm("{\n\t"
      "mul.lo.u32 %0, %4, %6;\n\t"
      "mul.hi.u32 %1, %4, %6;\n\t"
      "mad.lo.cc.u32 %1, %4, %7, %1;\n\t"
      "madc.hi.u32 %2, %4, %7, 0;\n\t"
      "mad.lo.cc.u32 %1, %5, %6, %1;\n\t"
      "madc.hi.cc.u32 %2, %5, %6, %2;\n\t"
      "madc.hi.u32 %3, %5, %7, 0;\n\t"
      "mad.lo.cc.u32 %2, %5, %7, %2;\n\t"
      "addc.u32 %3, %3, 0;\n\t"
      "sub.cc.u32 %0, %0, %4;\n\t"
      "subc.cc.u32 %1, %1, %5;\n\t"
      "subc.cc.u32 %2, %2, 0;\n\t"
      "subc.u32 %3, %3, 0;\n\t"
      "}"
      : "=&r"(r0), "=&r"(r1), "=&r"(r2), "=&r"(r3)
      : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
  y[i] = (static_cast<u64>(r3) << 32 | r2) ^ (static_cast<u64>(r1) << 32 | r0);
}
// One round of threefry-2x32, the counter-based generator.
extern "C" __global__ void k_threefry(u32* __restrict__ y, const u32* __restrict__ x, const u32* __restrict__ z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u32 a = x[i], b = z[i], k0 = 0x1234567, k1 = 0x89abcdef, k2 = k0 ^ k1 ^ 0x1bd11bda;
  const int r[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  a += k0;
  b += k1;
#pragma unroll
  for (int g = 0; g < 5; ++g) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      a += b;
      b = (b << r[(g & 1) * 4 + j]) | (b >> (32 - r[(g & 1) * 4 + j]));
      b ^= a;
    }
    u32 t = k0;
    k0 = k1;
    k1 = k2;
    k2 = t;
    a += k0;
    b += k1 + g + 1;
  }
  y[i] = a ^ b;
}
