#pragma once
// Scalar functions of the graph operators, named as there. f32 versions trade a few ulp for speed where
// graph/reference/evaluate_error.h allows it; f64 versions are the accurate ones.

#include "stitch/types.cuh"

namespace stitch {

// Without .ftz either takes three more instructions, for results and operands below the smallest normal number.
__device__ __forceinline__ f32 exp2_approximate(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 1 / x of 1 ≤ x; 0 from 2^126 on.
__device__ __forceinline__ f32 reciprocal_of_large(f32 x) {
  f32 y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#ifdef STITCH_EAGER_PRECISION  // CUDA's own functions, which kernels of one operator call
__device__ __forceinline__ f32 exponential(f32 x) { return expf(x); }
#else
__device__ __forceinline__ f32 exponential(f32 x) { return exp2_approximate(x * 1.4426950408889634f); }
#endif
__device__ __forceinline__ f64 exponential(f64 x) { return exp(x); }

// Maximum and minimum that pass NaN on.
__device__ __forceinline__ f32 maximum(f32 x, f32 y) {
#if __CUDA_ARCH__ >= 800
  f32 z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
#else
  return x != x || x > y ? x : y;
#endif
}
__device__ __forceinline__ f32 minimum(f32 x, f32 y) {
#if __CUDA_ARCH__ >= 800
  f32 z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
#else
  return x != x || x < y ? x : y;
#endif
}
__device__ __forceinline__ f64 maximum(f64 x, f64 y) { return x != x || x > y ? x : y; }
__device__ __forceinline__ f64 minimum(f64 x, f64 y) { return x != x || x < y ? x : y; }
template <class T>
__device__ __forceinline__ T maximum(T x, T y) {
  return x > y ? x : y;
}
template <class T>
__device__ __forceinline__ T minimum(T x, T y) {
  return x < y ? x : y;
}

#ifdef STITCH_EAGER_PRECISION
__device__ __forceinline__ f32 logistic(f32 x) { return 1.f / (1.f + expf(-x)); }
#else
__device__ __forceinline__ f32 logistic(f32 x) { return reciprocal_of_large(1.f + exponential(-x)); }
#endif
__device__ __forceinline__ f64 logistic(f64 x) { return 1.0 / (1.0 + exp(-x)); }

#ifdef STITCH_EAGER_PRECISION
__device__ __forceinline__ f32 complementary_error(f32 x) { return erfcf(x); }
#else
// erfc(x) = t 2^(p(t) - x² log2 e) of x ≥ 0, t = 1 / (1 + 0.475 x); erfc(-x) = 2 - erfc(x). p fits log2(erfc(x) e^x² /
// t) to 2.7e-7 for x ≤ 10.2 (where f32 ends) by weighted least squares; in f32 its rounding is a few ulp, that of x²
// log2 e some x² of them. A third of the instructions of erfcf, which corrects for x²'s.
__device__ __forceinline__ f32 complementary_error(f32 x) {
  const f32 z = fabsf(x);
  const f32 t = reciprocal_of_large(fmaf(z, 0.475f, 1.f));
  f32 p = -0.281722873f;
  p = fmaf(p, t, 1.22526693f);
  p = fmaf(p, t, -1.86707115f);
  p = fmaf(p, t, 0.977937877f);
  p = fmaf(p, t, -0.227733478f);
  p = fmaf(p, t, 0.639020562f);
  p = fmaf(p, t, 1.43362808f);
  p = fmaf(p, t, -1.89932621f);
  const f32 y = t * exp2_approximate(fmaf(z * -1.4426950408889634f, z, p));
  return x < 0.f ? 2.f - y : y;
}
#endif
__device__ __forceinline__ f64 complementary_error(f64 x) { return erfc(x); }

#ifdef STITCH_EAGER_PRECISION
__device__ __forceinline__ f32 sine(f32 x) { return sinf(x); }
__device__ __forceinline__ f32 cosine(f32 x) { return cosf(x); }
#else
// sin and cos within 1.5 ulp, in a form of which those of one x share all but the last selections. CUDA's own bring a
// loop over an array in local memory along wherever they stand, for arguments beyond 105,615; here a function stands
// once in a kernel for them.
struct Turn {
  f32 rest;     ///< within π/4 of a multiple of π/2
  int quarter;  ///< which one; its lower two bits count
};
__device__ __forceinline__ Turn turn_of_near(f32 x) {
  const f32 shifted = fmaf(x, 0.636619747f, 12582912.f);  // the nearest integer stands in the lower bits
  const f32 quarters = shifted - 12582912.f;
  f32 rest = fmaf(quarters, -1.57079601f, x);  // π/2 in three parts
  rest = fmaf(quarters, -3.13916473e-07f, rest);
  return {fmaf(quarters, -5.39030253e-15f, rest), __float_as_int(shifted)};
}
// Of 2^16 < |x|: the mantissa times those 96 bits of 2/π that are neither whole turns nor below what the result can
// tell (Payne and Hanek 1983), in fixed point. NaN of infinity.
__device__ __forceinline__ Turn turn_of_far(f32 x) {
  const u32 bits = __float_as_uint(x);
  const int exponent = static_cast<int>(bits >> 23 & 255) - 126;
  const u32 mantissa = bits << 8 | 0x80000000u;
  const int word = exponent >> 5;
  const auto of_word = [word](u32 a, u32 b, u32 c, u32 d, u32 e) {
    return word == 0 ? a : word == 1 ? b : word == 2 ? c : word == 3 ? d : e;
  };
  const u32 a = of_word(0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u);
  const u32 b = of_word(0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u);
  const u32 c = of_word(0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u);
  const u32 d = of_word(0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau);
  const u32 high = __funnelshift_l(b, a, exponent), middle = __funnelshift_l(c, b, exponent);
  const u32 low = __funnelshift_l(d, c, exponent);
  // Of |x|, in 2^-64 turns; then what is left of the nearest quarter, in 2^-64 of one.
  const u64 turns = (static_cast<u64>(mantissa) * low >> 32) + static_cast<u64>(mantissa) * middle +
                    (static_cast<u64>(mantissa * high) << 32);
  const s64 left = static_cast<s64>(turns << 2);
  const u64 size = static_cast<u64>(left < 0 ? -left : left);
  const int quarter = static_cast<int>(turns >> 62) + (left < 0 ? 1 : 0);
  const int zeros = __clzll(static_cast<s64>(size));
  const u32 radians = __umulhi(static_cast<u32>(size << (zeros & 63) >> 32), 0xc90fdaa2u);  // π/2, in 2^(-31 - zeros)
  const f32 rest = static_cast<f32>(radians) * __int_as_float((127 - 31 - zeros) << 23);
  if (fabsf(x) == __int_as_float(0x7f800000)) return {x - x, 0};
  return {(left < 0) != (x < 0.f) ? -rest : rest, x < 0.f ? -quarter : quarter};
}
__device__ __forceinline__ f32 sine_of(Turn turn) {
  const f32 x = turn.rest, y = x * x;  // minimax polynomials on [-π/4, π/4]
  f32 sine = fmaf(2.86567956e-6f, y, -1.98559923e-4f);
  sine = fmaf(sine, y, 8.33338592e-3f);
  sine = fmaf(sine, y, -1.66666672e-1f);
  sine = fmaf(sine, fmaf(y, x, 0.f), x);  // -0 of -0
  f32 cosine = fmaf(2.44677067e-5f, y, -1.38877297e-3f);
  cosine = fmaf(cosine, y, 4.16666567e-2f);
  cosine = fmaf(cosine, y, -0.5f);
  cosine = fmaf(cosine, y, 1.f);
  const f32 z = (turn.quarter & 1) != 0 ? cosine : sine;
  return (turn.quarter & 2) != 0 ? -z : z;
}
__device__ __noinline__ f32 sine_of_far(f32 x, int quarters) {
  Turn turn = turn_of_far(x);
  turn.quarter += quarters;
  return sine_of(turn);
}
// sin(x + quarters π/2). Near and far meet behind their functions: a branch before what sin and cos share would keep
// the compiler from finding it.
__device__ __forceinline__ f32 sine_from(f32 x, int quarters) {
  Turn turn = turn_of_near(x);
  turn.quarter += quarters;
  f32 y = sine_of(turn);
  if (__builtin_expect(fabsf(x) > 105615.f, false)) y = sine_of_far(x, quarters);
  return y;
}
__device__ __forceinline__ f32 sine(f32 x) { return sine_from(x, 0); }
__device__ __forceinline__ f32 cosine(f32 x) { return sine_from(x, 1); }
#endif
__device__ __forceinline__ f64 sine(f64 x) { return sin(x); }
__device__ __forceinline__ f64 cosine(f64 x) { return cos(x); }

// The neighbour of x in T on y's side: a step of T's bits, which grow with the magnitude. Of the small types, whose
// values are held in f32, in the type itself.
template <class T>
__device__ __forceinline__ f32 next_after(f32 x, f32 y) {
  const T from = narrow<T>(x);
  const f32 start = widen(from), end = widen(narrow<T>(y));
  if (start != start || end != end) return x + y;
  if (start == end) return end;
  const u32 sign = 1u << (8 * sizeof(T) - 1);
  u32 bits = from.bits;
  if ((bits & ~sign) == 0) {
    bits = end < 0.f ? sign | 1 : 1;
  } else {
    bits += (start < end) == (start > 0.f) ? 1u : ~0u;
  }
  return widen(T{static_cast<decltype(from.bits)>(bits)});
}
template <>
__device__ __forceinline__ f32 next_after<f32>(f32 x, f32 y) {
  return nextafterf(x, y);
}
template <class T>
__device__ __forceinline__ f64 next_after(f64 x, f64 y) {
  return nextafter(x, y);
}

template <class T>
__device__ __forceinline__ T sign_float(T x) {
  return x != x ? x : x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
}
template <class T>
__device__ __forceinline__ T sign_integer(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0);
}

__device__ __forceinline__ f32 round_away(f32 x) { return roundf(x); }
__device__ __forceinline__ f64 round_away(f64 x) { return round(x); }

__device__ __forceinline__ f32 power(f32 x, f32 y) { return powf(x, y); }
__device__ __forceinline__ f64 power(f64 x, f64 y) { return pow(x, y); }
// Signed integers wrap on the device; C++ would take it for known that they do not.
template <class T>
__device__ __forceinline__ T wrapping_product(T x, T y) {
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(static_cast<u64>(x) * static_cast<u64>(y));
  } else {
    return static_cast<T>(static_cast<u32>(x) * static_cast<u32>(y));
  }
}

// Integer power by squaring; a negative exponent gives 0 except for bases 1 and -1.
template <class T>
__device__ __forceinline__ T power(T x, T y) {
  if (y < T(0)) return x == T(1) ? T(1) : x == T(-1) ? ((y & T(1)) != T(0) ? T(-1) : T(1)) : T(0);
  T result = T(1);
  for (; y != T(0); y = static_cast<T>(y >> 1)) {
    if ((y & T(1)) != T(0)) result = wrapping_product(result, x);
    x = wrapping_product(x, x);
  }
  return result;
}

// Integer division as XLA defines it: by zero gives -1 (all ones), the remainder by zero the dividend.
template <class T>
__device__ __forceinline__ T divide_integer(T x, T y) {
  if (y == T(0)) return static_cast<T>(-1);
  if (T(-1) < T(0) && y == T(-1)) return static_cast<T>(T(0) - x);
  return static_cast<T>(x / y);
}
template <class T>
__device__ __forceinline__ T remainder_integer(T x, T y) {
  if (y == T(0)) return x;
  if (T(-1) < T(0) && y == T(-1)) return T(0);
  return static_cast<T>(x % y);
}

// The integers of one size.
template <class S, class U>
struct Integers {
  using Signed = S;
  using Unsigned = U;
};
template <int bytes>
struct IntegersOf;
template <>
struct IntegersOf<1> : Integers<s8, u8> {};
template <>
struct IntegersOf<2> : Integers<s16, u16> {};
template <>
struct IntegersOf<4> : Integers<s32, u32> {};
template <>
struct IntegersOf<8> : Integers<s64, u64> {};

// Shifts by the width or more give 0, or the sign: the uppermost bit, also of unsigned numbers.
template <class T>
__device__ __forceinline__ T shift_left(T x, T y) {
  using U = typename IntegersOf<sizeof(T)>::Unsigned;
  return static_cast<U>(y) < sizeof(T) * 8 ? static_cast<T>(static_cast<U>(x) << static_cast<U>(y)) : T(0);
}
template <class T>
__device__ __forceinline__ T shift_right_logical(T x, T y) {
  using U = typename IntegersOf<sizeof(T)>::Unsigned;
  return static_cast<U>(y) < sizeof(T) * 8 ? static_cast<T>(static_cast<U>(x) >> static_cast<U>(y)) : T(0);
}
template <class T>
__device__ __forceinline__ T shift_right_arithmetic(T x, T y) {
  using S = typename IntegersOf<sizeof(T)>::Signed;
  using U = typename IntegersOf<sizeof(T)>::Unsigned;
  const U limit = sizeof(T) * 8 - 1;
  return static_cast<T>(static_cast<S>(x) >> (static_cast<U>(y) < limit ? static_cast<U>(y) : limit));
}

// The 20-round threefry-2x32 block function (Salmon et al., SC'11), as JAX's random bits use it.
struct Threefry {
  u32 first, second;
};
// One shift of the two words of x, by 1 to 31. The intrinsic for it is inline assembly, of which the compiler finds no
// two alike: a mask that is named twice would be computed twice in PTX.
__device__ __forceinline__ u32 rotate_left(u32 x, int by) { return x << by | x >> (32 - by); }
__device__ __forceinline__ Threefry threefry2x32(u32 key0, u32 key1, u32 x0, u32 x1) {
  const u32 keys[3] = {key0, key1, key0 ^ key1 ^ 0x1bd11bdau};
  const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  x0 += key0;
  x1 += key1;
#pragma unroll
  for (int round = 0; round < 5; ++round) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x0 += x1;
      x1 = rotate_left(x1, rotations[round % 2][i]) ^ x0;
    }
    x0 += keys[(round + 1) % 3];
    x1 += keys[(round + 2) % 3] + static_cast<u32>(round + 1);
  }
  return {x0, x1};
}

// The 10-round philox-4x32 block function (Salmon et al., SC'11), with its key's words in the order of its counter's.
struct Philox {
  u32 word[4];
};
__device__ __forceinline__ Philox philox4x32(u32 key0, u32 key1, u32 x0, u32 x1, u32 x2, u32 x3) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 first = 0xd2511f53ull * x0, second = 0xcd9e8d57ull * x2;
    x0 = static_cast<u32>(second >> 32) ^ x1 ^ key0;
    x2 = static_cast<u32>(first >> 32) ^ x3 ^ key1;
    x1 = static_cast<u32>(second);
    x3 = static_cast<u32>(first);
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return {{x0, x1, x2, x3}};
}

}  // namespace stitch
