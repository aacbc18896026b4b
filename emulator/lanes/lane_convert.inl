// cvt between all types. 8-bit integers live in the low half of a 16-bit row, extended by their own sign.

template <class T>
struct StorageOf {
  using type = T;
};
template <>
struct StorageOf<u8> {
  using type = u16;
};
template <>
struct StorageOf<s8> {
  using type = s16;
};
template <class T>
using Storage = typename StorageOf<T>::type;

template <class T>
struct Limits {
  static constexpr T largest =
      Traits<T>::is_signed ? static_cast<T>((u64{1} << (Traits<T>::bits - 1)) - 1) : static_cast<T>(~T{0});
  static constexpr T smallest = Traits<T>::is_signed ? static_cast<T>(-largest - 1) : T{0};
};

template <class D, class S, bool Saturate>
struct IntegerToInteger {
  STITCH_INLINE Storage<D> of(Storage<S> stored) {
    const S a = static_cast<S>(stored);
    if constexpr (Saturate) {
      const bool below = Traits<S>::is_signed && a < 0 &&
                         (!Traits<D>::is_signed || static_cast<s64>(a) < static_cast<s64>(Limits<D>::smallest));
      const bool above = (!Traits<S>::is_signed || a > 0) && static_cast<u64>(a) > static_cast<u64>(Limits<D>::largest);
      return below ? Limits<D>::smallest : above ? Limits<D>::largest : static_cast<D>(a);
    } else {
      return static_cast<D>(a);
    }
  }
};

template <Rounding R>
STITCH_INLINE f32 to_whole(f32 x) {
  if constexpr (R == Rounding::nearest) return __builtin_rintf(x);
  if constexpr (R == Rounding::zero) return __builtin_truncf(x);
  if constexpr (R == Rounding::down) return __builtin_floorf(x);
  return __builtin_ceilf(x);
}
template <Rounding R>
STITCH_INLINE f64 to_whole(f64 x) {
  if constexpr (R == Rounding::nearest) return __builtin_rint(x);
  if constexpr (R == Rounding::zero) return __builtin_trunc(x);
  if constexpr (R == Rounding::down) return __builtin_floor(x);
  return __builtin_ceil(x);
}
template <class T, Rounding R, bool Ftz>
struct Whole {
  STITCH_INLINE T of(T a) { return out<Ftz>(to_whole<R>(in<Ftz>(a))); }
};

// Clamps to the destination's range. NaN gives 0, or the value with only the top bit set where either side is 64 bits
// wide.
template <class D, class F, Rounding R, bool Ftz>
STITCH_INLINE Storage<D> float_to_integer(F a) {
  constexpr F above = static_cast<F>(Traits<D>::is_signed ? 0x1p-1 : 1.0) *
                      (Traits<D>::bits == 64   ? static_cast<F>(0x1p64)
                       : Traits<D>::bits == 32 ? static_cast<F>(0x1p32)
                       : Traits<D>::bits == 16 ? static_cast<F>(0x1p16)
                                               : static_cast<F>(0x1p8));
  constexpr F below = Traits<D>::is_signed ? -above : F{0};
  constexpr bool wide = Traits<D>::bits == 64 || sizeof(F) == 8;
  constexpr D nan = wide ? static_cast<D>(u64{1} << (Traits<D>::bits - 1)) : D{0};
  const F x = to_whole<R>(in<Ftz>(a));
  const bool fits = x > below && x < above;
  const D converted = static_cast<D>(fits ? x : F{0});
  const D clamped = fits ? converted : x >= above ? Limits<D>::largest : x <= below ? Limits<D>::smallest : nan;
  return clamped;
}
template <class D, class F, Rounding R, bool Ftz>
struct FloatToInteger {
  STITCH_INLINE Storage<D> of(F a) { return float_to_integer<D, F, R, Ftz>(a); }
};
template <class D, class H, Rounding R>
struct HalfToInteger {
  STITCH_INLINE Storage<D> of(u16 a) { return float_to_integer<D, f32, R, false>(H::load(a)); }
};

template <class S>
STITCH_INLINE u64 magnitude_of(S a) {
  return Traits<S>::is_signed && a < 0 ? u64{0} - static_cast<u64>(static_cast<s64>(a)) : static_cast<u64>(a);
}
STITCH_INLINE f64 power_of_two(int exponent) { return f64_of(static_cast<u64>(1023 + exponent) << 52); }
template <Rounding R>
STITCH_INLINE f64 round_magnitude(u64 m, bool negative, int digits) {
  const int length = m == 0 ? 0 : 64 - __builtin_clzll(m);
  if (length <= digits) return negative ? -static_cast<f64>(m) : static_cast<f64>(m);
  const int shift = length - digits;
  const u64 rest = m & ((u64{1} << shift) - 1);
  const bool up = rest != 0 && ((R == Rounding::up && !negative) || (R == Rounding::down && negative));
  const f64 value = static_cast<f64>((m >> shift) + (up ? 1 : 0)) * power_of_two(shift);
  return negative ? -value : value;
}
template <class F, class S, Rounding R>
struct IntegerToFloat {
  STITCH_INLINE F of(Storage<S> stored) {
    const S a = static_cast<S>(stored);
    if constexpr (R == Rounding::nearest) return a;
    return round_magnitude<R>(magnitude_of(a), Traits<S>::is_signed && a < 0, sizeof(F) == 8 ? 53 : 24);
  }
};

// The half next to x in the direction of R, from the nearest one.
template <class H, Rounding R>
STITCH_INLINE u16 f32_to_rounded(f32 x) {
  const u16 nearest = H::store(x);
  if constexpr (R == Rounding::nearest) return nearest;
  const f32 back = H::load(nearest);
  const bool negative = sign_of(x);
  const u16 toward_zero = static_cast<u16>(nearest - 1);
  const u16 away = static_cast<u16>((nearest & 0x7FFF) == 0 ? (negative ? 0x8001 : 1) : nearest + 1);
  if constexpr (R == Rounding::zero) return (negative ? back < x : back > x) ? toward_zero : nearest;
  if constexpr (R == Rounding::down) return back > x ? (negative ? away : toward_zero) : nearest;
  return back < x ? (negative ? toward_zero : away) : nearest;
}
template <class H, class F, Rounding R>
struct FloatToHalf {
  STITCH_INLINE u16 of(F a) {
    if constexpr (sizeof(F) == 8) return f32_to_rounded<H, R>(f64_to_f32_odd(a));
    return f32_to_rounded<H, R>(static_cast<f32>(a));
  }
};
template <class H, class S, Rounding R>
struct IntegerToHalf {
  STITCH_INLINE u16 of(Storage<S> stored) {
    const S a = static_cast<S>(stored);
    const u64 m = magnitude_of(a);
    // Above 2^53 the dropped bits are folded into the last one kept: round to odd.
    const u64 kept = (m >> 53) != 0 ? ((m >> 11) | ((m & 2047) != 0 ? 1 : 0)) : m;
    const f64 value = static_cast<f64>(kept) * ((m >> 53) != 0 ? 2048.0 : 1.0);
    return f32_to_rounded<H, R>(f64_to_f32_odd(Traits<S>::is_signed && a < 0 ? -value : value));
  }
};
template <class H, class F>
struct HalfToFloat {
  STITCH_INLINE F of(u16 a) { return canonical(static_cast<F>(H::load(a))); }
};
template <class D, class S>
struct HalfToHalf {
  STITCH_INLINE u16 of(u16 a) { return D::store(S::load(a)); }
};
template <bool Ftz>
struct WidenFloat {
  STITCH_INLINE f64 of(f32 a) { return canonical(static_cast<f64>(in<Ftz>(a))); }
};
template <bool Ftz>
struct NarrowFloat {
  STITCH_INLINE f32 of(f64 a) { return out<Ftz>(static_cast<f32>(a)); }
};

template <class H, Rounding R, bool Rectify>
struct PackHalves {
  STITCH_INLINE u32 of(f32 high, f32 low) {
    const f32 h = Rectify ? Relu32::of(high) : high;
    const f32 l = Rectify ? Relu32::of(low) : low;
    return f32_to_rounded<H, R>(l) | (u32{f32_to_rounded<H, R>(h)} << 16);
  }
};
enum class TensorRounding { nearest_even, away, zero };
template <TensorRounding R>
struct ToTf32 {
  STITCH_INLINE u32 of(u32 b) {
    const bool nan = (b & 0x7FFFFFFFU) > 0x7F800000U;
    const bool infinite = (b & 0x7FFFFFFFU) == 0x7F800000U;
    const u32 even = b + 0xFFFU + ((b >> 13) & 1);
    const u32 away = b + 0x1000U;
    const u32 rounded =
        (R == TensorRounding::nearest_even ? even : R == TensorRounding::away ? away : b) & 0xFFFFE000U;
    return nan ? 0x7FFFFFFFU : infinite ? b : rounded;
  }
};
// cvt.pack.sat: two saturated integers side by side, above what c holds.
template <class D>
struct PackSaturated8 {
  STITCH_INLINE u32 of(s32 a, s32 b, u32 c) {
    const u32 high = static_cast<u8>(IntegerToInteger<D, s32, true>::of(a));
    const u32 low = static_cast<u8>(IntegerToInteger<D, s32, true>::of(b));
    return (c << 16) | (high << 8) | low;
  }
};
template <class D>
struct PackSaturated16 {
  STITCH_INLINE u32 of(s32 a, s32 b) {
    const u32 high = static_cast<u16>(IntegerToInteger<D, s32, true>::of(a));
    const u32 low = static_cast<u16>(IntegerToInteger<D, s32, true>::of(b));
    return (high << 16) | low;
  }
};
