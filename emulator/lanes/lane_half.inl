// f16, bf16 and f8. Values travel as f32; results are rounded once from a value that is exact, correctly rounded with
// room to spare, or rounded to odd, so that no rounding happens twice.

STITCH_INLINE f32 half_to_f32(u16 h) {
  const u32 magnitude = h & 0x7FFFU;
  // Scaling by 2^112 moves the exponent and normalises subnormals in one exact multiplication.
  const u32 scaled = bits_of(f32_of(magnitude << 13) * 0x1p112F);
  const u32 special = magnitude >= 0x7C00U ? 0x7F800000U : 0U;
  return f32_of(scaled | special | (u32{h & 0x8000U} << 16));
}
STITCH_INLINE u16 f32_to_half(f32 x) {
  const u32 b = bits_of(x);
  const u32 sign = (b >> 16) & 0x8000U;
  const u32 magnitude = b & 0x7FFFFFFFU;
  const u32 normal = (magnitude + 0xFFFU + ((magnitude >> 13) & 1) - 0x38000000U) >> 13;
  // Adding 0.5 aligns a subnormal half's last place with the last place of the sum.
  const u32 subnormal = bits_of(f32_of(magnitude) + 0.5F) - 0x3F000000U;
  const u32 finite = magnitude < 0x38800000U ? subnormal : normal;
  const u32 large = magnitude > 0x7F800000U ? 0x7FFFU : 0x7C00U | sign;
  return magnitude >= 0x477FF000U ? large : finite | sign;
}
STITCH_INLINE f32 bfloat_to_f32(u16 h) { return f32_of(u32{h} << 16); }
STITCH_INLINE u16 f32_to_bfloat(f32 x) {
  const u32 b = bits_of(x);
  const u32 rounded = (b + 0x7FFFU + ((b >> 16) & 1)) >> 16;
  return x != x ? 0x7FFFU : rounded;
}
// Rounds to odd: an inexact result gets an odd last bit, so that a later rounding to fewer bits is right.
STITCH_INLINE f32 f64_to_f32_odd(f64 x) {
  const f32 r = static_cast<f32>(x);
  const f64 back = static_cast<f64>(r);
  const u32 b = bits_of(r);
  const bool inexact = back != x && x == x;
  const bool away = (back > x) == (x > 0);
  const u32 odd = (b & 1) != 0 ? b : (away ? b - 1 : b + 1);
  return f32_of(inexact ? odd : b);
}
STITCH_INLINE f64 add_odd(f64 p, f64 c) {
  const f64 s = p + c;
  const f64 virtual_c = s - p;
  const f64 error = (p - (s - virtual_c)) + (c - virtual_c);
  const u64 b = bits_of(s);
  const bool finite = (b & 0x7FF0000000000000ULL) != 0x7FF0000000000000ULL;
  const bool inexact = finite && error != 0.0;
  const u64 odd = (b & 1) != 0 ? b : ((error > 0) == (s > 0) ? b + 1 : b - 1);
  return f64_of(inexact ? odd : b);
}

struct F16 {
  STITCH_INLINE f32 load(u16 x) { return half_to_f32(x); }
  STITCH_INLINE u16 store(f32 x) { return f32_to_half(x); }
  static constexpr const char* name = "f16";
  static constexpr const char* packed_name = "f16x2";
  static constexpr u16 sign = 0x8000;
  static constexpr u16 exponent = 0x7C00;
};
struct BF16 {
  STITCH_INLINE f32 load(u16 x) { return bfloat_to_f32(x); }
  STITCH_INLINE u16 store(f32 x) { return f32_to_bfloat(x); }
  static constexpr const char* name = "bf16";
  static constexpr const char* packed_name = "bf16x2";
  static constexpr u16 sign = 0x8000;
  static constexpr u16 exponent = 0x7F80;
};

template <class H, bool Ftz>
STITCH_INLINE u16 half_flush(u16 x) {
  return Ftz && (x & H::exponent) == 0 ? static_cast<u16>(x & H::sign) : x;
}
// A binary f32 operation applied to halves: f32 has more than twice the bits, so rounding again is harmless.
template <class H, class F, bool Ftz>
struct HalfBinary {
  STITCH_INLINE u16 of(u16 a, u16 b) {
    return half_flush<H, Ftz>(H::store(F::of(H::load(half_flush<H, Ftz>(a)), H::load(half_flush<H, Ftz>(b)))));
  }
};
template <class H, class F, bool Ftz>
struct HalfUnary {
  STITCH_INLINE u16 of(u16 a) { return half_flush<H, Ftz>(H::store(F::of(H::load(half_flush<H, Ftz>(a))))); }
};
template <class H, bool Ftz>
struct HalfFma {
  STITCH_INLINE u16 of(u16 a, u16 b, u16 c) {
    const f64 product = static_cast<f64>(H::load(half_flush<H, Ftz>(a))) * H::load(half_flush<H, Ftz>(b));
    const f64 sum = add_odd(product, H::load(half_flush<H, Ftz>(c)));
    return half_flush<H, Ftz>(H::store(f64_to_f32_odd(sum)));
  }
};
template <class H, bool Ftz>
struct HalfNeg {
  STITCH_INLINE u16 of(u16 a) { return half_flush<H, Ftz>(a) ^ H::sign; }
};
template <class H, bool Ftz>
struct HalfAbs {
  STITCH_INLINE u16 of(u16 a) { return half_flush<H, Ftz>(a) & 0x7FFFU; }
};
template <class H>
struct HalfSaturate {
  STITCH_INLINE u16 of(u16 a) { return H::store(Saturate32::of(H::load(a))); }
};
template <class H>
struct HalfRelu {
  STITCH_INLINE u16 of(u16 a) { return H::store(Relu32::of(H::load(a))); }
};
template <class H, FRelation R, bool Ftz>
struct HalfCompare {
  STITCH_INLINE bool of(u16 a, u16 b) {
    return FCompare<f32, R, false>::of(H::load(half_flush<H, Ftz>(a)), H::load(half_flush<H, Ftz>(b)));
  }
};

// f8: e4m3 has no infinity (0x7F is its NaN) and ends at 448; e5m2 is a half's upper byte.
STITCH_INLINE f32 e4m3_to_f32(u8 x) {
  const u32 exponent = (x >> 3) & 15U;
  const u32 mantissa = x & 7U;
  const f32 subnormal = static_cast<f32>(mantissa) * 0x1p-9F;
  const f32 normal = f32_of(((exponent + 120U) << 23) | (mantissa << 20));
  const f32 magnitude = (x & 0x7FU) == 0x7FU ? f32_of(0x7FFFFFFFU) : exponent == 0 ? subnormal : normal;
  return f32_of(bits_of(magnitude) | (u32{x & 0x80U} << 24));
}
STITCH_INLINE f32 e5m2_to_f32(u8 x) { return half_to_f32(static_cast<u16>(u32{x} << 8)); }
// Rounds |x| to `digits` mantissa bits above a smallest place, to nearest even, by adding a power of two that has its
// last place there.
STITCH_INLINE f32 round_to_place(f32 magnitude, int digits, f32 smallest_place) {
  const f32 power = f32_of(bits_of(magnitude) & 0x7F800000U);
  const f32 place = power * f32_of(static_cast<u32>(127 - digits) << 23);
  const f32 used = place > smallest_place ? place : smallest_place;
  const f32 magic = used * 0x1.8p23F;
  return (magnitude + magic) - magic;
}
STITCH_INLINE u8 f32_to_e4m3(f32 x) {
  const u8 sign = sign_of(x) ? 0x80 : 0;
  const f32 magnitude = f32_of(bits_of(x) & 0x7FFFFFFFU);
  if (x != x) return 0x7F;
  if (magnitude >= 464.0F) return sign | 0x7E;
  const f32 r = round_to_place(magnitude, 3, 0x1p-9F);
  if (r > 448.0F) return sign | 0x7E;
  if (r < 0x1p-6F) return sign | static_cast<u8>(r * 0x1p9F);
  const u32 b = bits_of(r);
  return sign | (((b >> 23) - 120U) << 3) | ((b >> 20) & 7U);
}
STITCH_INLINE u8 f32_to_e5m2(f32 x) {
  const u8 sign = sign_of(x) ? 0x80 : 0;
  const f32 magnitude = f32_of(bits_of(x) & 0x7FFFFFFFU);
  if (x != x) return 0x7F;
  if (magnitude >= 57344.0F) return sign | 0x7B;
  const f32 r = round_to_place(magnitude, 2, 0x1p-16F);
  if (r > 57344.0F) return sign | 0x7B;
  if (r < 0x1p-14F) return sign | static_cast<u8>(r * 0x1p16F);
  const u32 b = bits_of(r);
  return sign | (((b >> 23) - 112U) << 2) | ((b >> 21) & 3U);
}
struct E4M3 {
  STITCH_INLINE f32 load(u8 x) { return e4m3_to_f32(x); }
  STITCH_INLINE u8 store(f32 x) { return f32_to_e4m3(x); }
  static constexpr const char* name = "e4m3x2";
};
struct E5M2 {
  STITCH_INLINE f32 load(u8 x) { return e5m2_to_f32(x); }
  STITCH_INLINE u8 store(f32 x) { return f32_to_e5m2(x); }
  static constexpr const char* name = "e5m2x2";
};
template <class E, bool Rectify>
struct PackF8 {
  STITCH_INLINE u16 of(f32 high, f32 low) {
    const f32 h = Rectify ? Relu32::of(high) : high;
    const f32 l = Rectify ? Relu32::of(low) : low;
    return u32{E::store(l)} | (u32{E::store(h)} << 8);
  }
};
template <class E, bool Rectify>
struct PackF8FromHalves {
  STITCH_INLINE u16 of(u32 pair) {
    return PackF8<E, Rectify>::of(half_to_f32(static_cast<u16>(pair >> 16)), half_to_f32(static_cast<u16>(pair)));
  }
};
template <class E, bool Rectify>
struct UnpackF8 {
  STITCH_INLINE u32 of(u16 pair) {
    f32 low = E::load(static_cast<u8>(pair));
    f32 high = E::load(static_cast<u8>(pair >> 8));
    if (Rectify) low = Relu32::of(low), high = Relu32::of(high);
    return f32_to_half(low) | (u32{f32_to_half(high)} << 16);
  }
};
