#pragma once
// Element types as they lie in memory, and the types that kernels compute in. Compiled by NVRTC and by nvcc; uses no
// CUDA header, so that a kernel compiles in tens of milliseconds.

namespace stitch {

using s8 = signed char;
using u8 = unsigned char;
using s16 = short;
using u16 = unsigned short;
using s32 = int;
using u32 = unsigned int;
using s64 = long long;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;

struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct f8e4m3 {
  u8 bits;
};
struct f8e5m2 {
  u8 bits;
};
struct pred {
  u8 bits;
};

// widen: the value of a stored element in its compute type (16- and 8-bit floats in f32, pred as bool).
__device__ __forceinline__ f32 widen(f16 x) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ f32 widen(bf16 x) { return __uint_as_float(static_cast<u32>(x.bits) << 16); }
__device__ __forceinline__ f32 widen(f8e4m3 x) {
  // Exponent bias 7 → 127; subnormals are multiples of 2^-9; the all-ones pattern is NaN.
  const u32 sign = static_cast<u32>(x.bits & 0x80) << 24, magnitude = x.bits & 0x7f;
  if (magnitude == 0x7f) return __uint_as_float(sign | 0x7fc00000u);
  const f32 value =
      magnitude < 8 ? static_cast<f32>(magnitude) * 0x1p-9f : __uint_as_float((magnitude << 20) + (120u << 23));
  return __uint_as_float(sign | __float_as_uint(value));
}
__device__ __forceinline__ f32 widen(f8e5m2 x) { return widen(f16{static_cast<u16>(x.bits << 8)}); }
__device__ __forceinline__ bool widen(pred x) { return x.bits != 0; }
__device__ __forceinline__ f32 widen(f32 x) { return x; }
__device__ __forceinline__ f64 widen(f64 x) { return x; }
__device__ __forceinline__ s8 widen(s8 x) { return x; }
__device__ __forceinline__ u8 widen(u8 x) { return x; }
__device__ __forceinline__ s16 widen(s16 x) { return x; }
__device__ __forceinline__ u16 widen(u16 x) { return x; }
__device__ __forceinline__ s32 widen(s32 x) { return x; }
__device__ __forceinline__ u32 widen(u32 x) { return x; }
__device__ __forceinline__ s64 widen(s64 x) { return x; }
__device__ __forceinline__ u64 widen(u64 x) { return x; }

// Rounds a magnitude to a small float with `mantissa` bits and least normal exponent `lowest`; the pattern without
// sign.
__device__ __forceinline__ u32 small_float(f32 magnitude, int mantissa, int lowest) {
  const int exponent = max(static_cast<int>(__float_as_uint(magnitude) >> 23) - 127, lowest);
  const f32 unit = __uint_as_float(static_cast<u32>(exponent - mantissa + 127) << 23);
  const u32 units = static_cast<u32>(__float2int_rn(magnitude / unit));
  return exponent == lowest ? units : units + (static_cast<u32>(exponent - lowest) << mantissa);
}

// narrow<T>: rounds a compute value to storage, to nearest even.
template <class T>
struct Narrow {
  template <class X>
  __device__ static __forceinline__ T from(X x) {
    return static_cast<T>(x);
  }
};
template <>
struct Narrow<f16> {
  __device__ static __forceinline__ f16 from(f32 x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
  }
};
template <>
struct Narrow<bf16> {
  __device__ static __forceinline__ bf16 from(f32 x) {
    bf16 y;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else  // the same by hand: to the nearest, ties to even
    const u32 bits = __float_as_uint(x);
    y.bits = x != x ? u16{0x7fff} : static_cast<u16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
    return y;
  }
};
template <>
struct Narrow<f8e4m3> {
  __device__ static __forceinline__ f8e4m3 from(f32 x) {
    const u32 sign = (__float_as_uint(x) >> 24) & 0x80u;
    const f32 magnitude = fabsf(x);
    const u32 bits = magnitude < 480.f ? min(small_float(magnitude, 3, -6), 0x7fu) : 0x7fu;  // NaN compares false
    return f8e4m3{static_cast<u8>(sign | bits)};
  }
};
template <>
struct Narrow<f8e5m2> {
  __device__ static __forceinline__ f8e5m2 from(f32 x) {
    const u32 sign = (__float_as_uint(x) >> 24) & 0x80u;
    const f32 magnitude = fabsf(x);
    const u32 bits =
        magnitude < 65536.f ? min(small_float(magnitude, 2, -14), 0x7cu) : (magnitude != magnitude ? 0x7eu : 0x7cu);
    return f8e5m2{static_cast<u8>(sign | bits)};
  }
};
template <>
struct Narrow<pred> {
  template <class X>
  __device__ static __forceinline__ pred from(X x) {
    return pred{static_cast<u8>(x ? 1 : 0)};
  }
};
template <class T, class X>
__device__ __forceinline__ T narrow(X x) {
  return Narrow<T>::from(x);
}

// convert<To>: the operator `convert` between compute types. Floats to integers truncate and saturate, NaN gives 0.
template <class To, class From>
struct Convert {
  __device__ static __forceinline__ To from(From x) { return static_cast<To>(x); }
};
template <class From>
struct Convert<bool, From> {
  __device__ static __forceinline__ bool from(From x) { return x != From(0); }
};
template <class To, class From>
__device__ __forceinline__ To saturate(From x, From low, From high, To lowest, To highest) {
  return x != x ? To(0) : x <= low ? lowest : x >= high ? highest : static_cast<To>(x);
}
#define STITCH_SATURATING(TO, LOW, HIGH, LOWEST, HIGHEST)                                                         \
  template <>                                                                                                     \
  struct Convert<TO, f32> {                                                                                       \
    __device__ static __forceinline__ TO from(f32 x) {                                                            \
      return saturate<TO, f32>(x, static_cast<f32>(LOW), static_cast<f32>(HIGH), LOWEST, HIGHEST);                \
    }                                                                                                             \
  };                                                                                                              \
  template <>                                                                                                     \
  struct Convert<TO, f64> {                                                                                       \
    __device__ static __forceinline__ TO from(f64 x) { return saturate<TO, f64>(x, LOW, HIGH, LOWEST, HIGHEST); } \
  };
STITCH_SATURATING(s8, -128.0, 127.0, -128, 127)
STITCH_SATURATING(u8, 0.0, 255.0, 0, 255)
STITCH_SATURATING(s16, -32768.0, 32767.0, -32768, 32767)
STITCH_SATURATING(u16, 0.0, 65535.0, 0, 65535)
STITCH_SATURATING(s32, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647)
STITCH_SATURATING(u32, 0.0, 4294967296.0, 0u, 4294967295u)
STITCH_SATURATING(s64, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807LL - 1, 9223372036854775807LL)
STITCH_SATURATING(u64, 0.0, 18446744073709551616.0, 0ull, 18446744073709551615ull)
#undef STITCH_SATURATING
template <class To, class From>
__device__ __forceinline__ To convert(From x) {
  return Convert<To, From>::from(x);
}

// bitcast<To>: same bits.
template <class To, class From>
__device__ __forceinline__ To bitcast(From x) {
  static_assert(sizeof(To) == sizeof(From), "bitcast between types of one size");
  union {
    From from;
    To to;
  } bits{x};
  return bits.to;
}

}  // namespace stitch
