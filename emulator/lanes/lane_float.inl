// Floating-point operations, one element at a time. Everything that PTX defines exactly is IEEE arithmetic (the files
// are compiled without contraction); approximate instructions are computed in f64 and rounded once, which is within
// the bounds that the PTX ISA states for them (docs/emulator.md lists them). NaN results are the canonical NaN.

STITCH_INLINE u32 bits_of(f32 x) { return __builtin_bit_cast(u32, x); }
STITCH_INLINE u64 bits_of(f64 x) { return __builtin_bit_cast(u64, x); }
STITCH_INLINE f32 f32_of(u32 x) { return __builtin_bit_cast(f32, x); }
STITCH_INLINE f64 f64_of(u64 x) { return __builtin_bit_cast(f64, x); }

STITCH_INLINE f32 canonical(f32 x) { return x != x ? f32_of(0x7FFFFFFFU) : x; }
STITCH_INLINE f64 canonical(f64 x) { return x != x ? f64_of(0x7FF8000000000000ULL) : x; }
STITCH_INLINE f32 flush(f32 x) {
  const u32 b = bits_of(x);
  return f32_of((b & 0x7F800000U) == 0 ? b & 0x80000000U : b);
}
STITCH_INLINE f64 flush(f64 x) {
  const u64 b = bits_of(x);
  return f64_of((b & 0x7FF0000000000000ULL) == 0 ? b & 0x8000000000000000ULL : b);
}
template <bool Ftz, class T>
STITCH_INLINE T in(T x) {
  return Ftz ? flush(x) : x;
}
template <bool Ftz, class T>
STITCH_INLINE T out(T x) {
  return Ftz ? flush(canonical(x)) : canonical(x);
}

template <class T, bool Ftz>
struct FAdd {
  STITCH_INLINE T of(T a, T b) { return out<Ftz>(in<Ftz>(a) + in<Ftz>(b)); }
};
template <class T, bool Ftz>
struct FSub {
  STITCH_INLINE T of(T a, T b) { return out<Ftz>(in<Ftz>(a) - in<Ftz>(b)); }
};
template <class T, bool Ftz>
struct FMul {
  STITCH_INLINE T of(T a, T b) { return out<Ftz>(in<Ftz>(a) * in<Ftz>(b)); }
};
STITCH_INLINE f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
STITCH_INLINE f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
template <class T, bool Ftz>
struct FFma {
  STITCH_INLINE T of(T a, T b, T c) { return out<Ftz>(fused(in<Ftz>(a), in<Ftz>(b), in<Ftz>(c))); }
};
template <class T, bool Ftz>
struct FDiv {
  STITCH_INLINE T of(T a, T b) { return out<Ftz>(in<Ftz>(a) / in<Ftz>(b)); }
};
// The divisor's reciprocal underflows above 2^126: the quotient is then 0, or NaN for an infinite dividend.
template <bool Ftz>
struct FDivApprox {
  STITCH_INLINE f32 of(f32 a, f32 b) {
    const f32 x = in<Ftz>(a);
    const f32 y = in<Ftz>(b);
    const f32 magnitude = f32_of(bits_of(y) & 0x7FFFFFFFU);
    const f32 quotient = out<Ftz>(x / y);
    const f32 zero = f32_of((bits_of(x) ^ bits_of(y)) & 0x80000000U);
    const bool large = magnitude > 0x1p126F && magnitude <= 0x1.fffffep127F;
    const bool infinite = (bits_of(x) & 0x7FFFFFFFU) == 0x7F800000U;
    const f32 replaced = infinite ? f32_of(0x7FFFFFFFU) : x != x ? x : zero;
    return large ? replaced : quotient;
  }
};
template <class T, bool Ftz>
struct FRcp {
  STITCH_INLINE T of(T a) { return out<Ftz>(T{1} / in<Ftz>(a)); }
};
STITCH_INLINE f32 root(f32 x) { return __builtin_sqrtf(x); }
STITCH_INLINE f64 root(f64 x) { return __builtin_sqrt(x); }
template <class T, bool Ftz>
struct FSqrt {
  STITCH_INLINE T of(T a) { return out<Ftz>(root(in<Ftz>(a))); }
};
template <bool Ftz>
struct FRsqrt {
  STITCH_INLINE f32 of(f32 a) { return out<Ftz>(static_cast<f32>(1.0 / root(static_cast<f64>(in<Ftz>(a))))); }
};
// The f64 approximations see the upper half of their operand and deliver that of the result, subnormals flushed
// (rcp.approx.ftz.f64). Their NaN is the f32 one.
STITCH_INLINE f64 upper_half(f64 x) { return f64_of(bits_of(x) & 0xFFFFFFFF00000000ULL); }
STITCH_INLINE f64 upper_half_result(f64 x) { return x != x ? f64_of(0x7FFFFFFF00000000ULL) : upper_half(flush(x)); }
struct RcpApproxF64 {
  STITCH_INLINE f64 of(f64 a) { return upper_half_result(1.0 / flush(upper_half(a))); }
};
struct RsqrtApproxFtzF64 {
  STITCH_INLINE f64 of(f64 a) { return upper_half_result(1.0 / root(flush(upper_half(a)))); }
};
// Without .ftz it is a function of the whole number: what rsqrt(double), good to one ulp, compiles to.
struct RsqrtApproxF64 {
  STITCH_INLINE f64 of(f64 a) { return canonical(1.0 / root(a)); }
};
template <bool Ftz>
struct FAbs32 {
  STITCH_INLINE f32 of(f32 a) { return in<Ftz>(f32_of(bits_of(a) & 0x7FFFFFFFU)); }
};
template <bool Ftz>
struct FNeg32 {
  STITCH_INLINE f32 of(f32 a) { return in<Ftz>(f32_of(bits_of(a) ^ 0x80000000U)); }
};
struct FAbs64 {
  STITCH_INLINE f64 of(f64 a) { return f64_of(bits_of(a) & 0x7FFFFFFFFFFFFFFFULL); }
};
struct FNeg64 {
  STITCH_INLINE f64 of(f64 a) { return f64_of(bits_of(a) ^ 0x8000000000000000ULL); }
};
struct CopySign32 {
  STITCH_INLINE u32 of(u32 a, u32 b) { return (b & 0x7FFFFFFFU) | (a & 0x80000000U); }
};
struct CopySign64 {
  STITCH_INLINE u64 of(u64 a, u64 b) {
    return (b & 0x7FFFFFFFFFFFFFFFULL) | (a & 0x8000000000000000ULL);
  }
};

STITCH_INLINE bool sign_of(f32 x) { return (bits_of(x) >> 31) != 0; }
STITCH_INLINE bool sign_of(f64 x) { return (bits_of(x) >> 63) != 0; }
// -0 is smaller than +0. A single NaN loses, unless NaN was asked for.
template <class T, bool Ftz, bool NaN>
struct FMax {
  STITCH_INLINE T of(T a, T b) {
    const T x = in<Ftz>(a);
    const T y = in<Ftz>(b);
    const T larger = x > y || (x == y && sign_of(y)) ? x : y;
    const T with_nan = x != x ? (NaN ? x : y) : y != y ? (NaN ? y : x) : larger;
    return canonical(with_nan);
  }
};
template <class T, bool Ftz, bool NaN>
struct FMin {
  STITCH_INLINE T of(T a, T b) {
    const T x = in<Ftz>(a);
    const T y = in<Ftz>(b);
    const T smaller = x < y || (x == y && sign_of(x)) ? x : y;
    const T with_nan = x != x ? (NaN ? x : y) : y != y ? (NaN ? y : x) : smaller;
    return canonical(with_nan);
  }
};
// min/max.xorsign.abs: the smaller or larger magnitude with the product of the signs.
template <class F>
struct XorSign32 {
  STITCH_INLINE f32 of(f32 a, f32 b) {
    const u32 sign = (bits_of(a) ^ bits_of(b)) & 0x80000000U;
    const f32 r = F::of(f32_of(bits_of(a) & 0x7FFFFFFFU), f32_of(bits_of(b) & 0x7FFFFFFFU));
    return r != r ? r : f32_of(bits_of(r) | sign);
  }
};
struct Saturate32 {
  STITCH_INLINE f32 of(f32 x) { return x > 0.0F ? (x < 1.0F ? x : 1.0F) : 0.0F; }
};
struct Saturate64 {
  STITCH_INLINE f64 of(f64 x) { return x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0; }
};
struct Relu32 {
  STITCH_INLINE f32 of(f32 x) { return x != x ? f32_of(0x7FFFFFFFU) : x > 0.0F ? x : 0.0F; }
};
struct Flush32 {
  STITCH_INLINE f32 of(f32 x) { return flush(x); }
};

// 2^x to about 1e-11 for |x| <= 200; larger arguments are clamped, which f32 cannot tell.
STITCH_INLINE f64 exp2_wide(f64 x) {
  const f64 limited = x > 200.0 ? 200.0 : x < -200.0 ? -200.0 : x;
  const f64 shifted = limited + 0x1.8p52;
  const f64 whole = shifted - 0x1.8p52;
  const f64 r = limited - whole;
  f64 p = 1.01780860092396997e-7;
  p = p * r + 1.32154867901443095e-6;
  p = p * r + 1.52527338040598403e-5;
  p = p * r + 1.54035303933816099e-4;
  p = p * r + 1.33335581464284434e-3;
  p = p * r + 9.61812910762847716e-3;
  p = p * r + 5.55041086648215800e-2;
  p = p * r + 2.40226506959100712e-1;
  p = p * r + 6.93147180559945309e-1;
  p = p * r + 1.0;
  const u64 scale = (bits_of(shifted) + 1023) << 52;
  return p * f64_of(scale);
}
// log2(x) of a finite positive f64 in the normal range, to about 1e-14 absolute.
STITCH_INLINE f64 log2_wide(f64 x) {
  const u64 b = bits_of(x);
  const u64 offset = b - 0x3FE6A09E667F3BCDULL;  // the bits of sqrt(1/2): the mantissa ends up within [√½, √2)
  const u64 exponent = offset & 0xFFF0000000000000ULL;
  const f64 m = f64_of(b - exponent);
  const f64 e = static_cast<f64>(static_cast<s32>(static_cast<s64>(exponent) >> 52));
  const f64 s = (m - 1.0) / (m + 1.0);
  const f64 z = s * s;
  f64 p = 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  return e + s * p * 2.88539008177792681;
}
template <bool Ftz>
struct Ex2 {
  STITCH_INLINE f32 of(f32 a) {
    const f32 x = in<Ftz>(a);
    return out<Ftz>(x != x ? x : static_cast<f32>(exp2_wide(x)));
  }
};
template <bool Ftz>
struct Lg2 {
  STITCH_INLINE f32 of(f32 a) {
    const f32 x = in<Ftz>(a);
    const f32 result = static_cast<f32>(log2_wide(static_cast<f64>(x)));
    const f32 infinity = f32_of(0x7F800000U);
    const f32 special = x == 0.0F ? -infinity : x == infinity ? infinity : f32_of(0x7FFFFFFFU);
    return x > 0.0F && x < infinity ? result : special;
  }
};
// Reduces to [-π/4, π/4] with a π/2 of 33 + 53 bits: exact enough up to 2^19; beyond that PTX promises no accuracy,
// and the IEEE remainder keeps the result the same on every machine.
struct Reduced {
  f64 r;
  s32 quadrant;
};
STITCH_INLINE Reduced reduce_angle(f64 x) {
  const f64 far = x > 0x1p19 || x < -0x1p19 ? __builtin_remainder(x, 6.28318530717958648) : x;
  const f64 shifted = far * 6.36619772367581343e-1 + 0x1.8p52;
  const f64 k = shifted - 0x1.8p52;
  const f64 r = (far - k * 0x1.921fb544p0) - k * 0x1.0b4611a626331p-34;
  return {r, static_cast<s32>(bits_of(shifted) & 3)};
}
STITCH_INLINE f64 sine_core(f64 r) {
  const f64 z = r * r;
  f64 p = 1.58969099521155010e-10;
  p = p * z - 2.50507602534068634e-8;
  p = p * z + 2.75573137070700676e-6;
  p = p * z - 1.98412698298579493e-4;
  p = p * z + 8.33333333332248946e-3;
  p = p * z - 1.66666666666666324e-1;
  return r + r * z * p;
}
STITCH_INLINE f64 cosine_core(f64 r) {
  const f64 z = r * r;
  f64 p = -1.13596475577881948e-11;
  p = p * z + 2.08757232129817483e-9;
  p = p * z - 2.75573143513906633e-7;
  p = p * z + 2.48015872894767294e-5;
  p = p * z - 1.38888888888741096e-3;
  p = p * z + 4.16666666666666019e-2;
  return 1.0 - 0.5 * z + z * z * p;
}
template <bool Ftz, int Quarter>
struct Sine {
  STITCH_INLINE f32 of(f32 a) {
    const f32 x = in<Ftz>(a);
    const Reduced reduced = reduce_angle(static_cast<f64>(x));
    const s32 quadrant = (reduced.quadrant + Quarter) & 3;
    const f64 magnitude = (quadrant & 1) != 0 ? cosine_core(reduced.r) : sine_core(reduced.r);
    const f64 result = (quadrant & 2) != 0 ? -magnitude : magnitude;
    const bool finite = (bits_of(x) & 0x7F800000U) != 0x7F800000U;
    const f32 rounded = finite ? out<Ftz>(static_cast<f32>(result)) : f32_of(0x7FFFFFFFU);
    // The polynomial loses the sign of a zero, which sin keeps.
    return Quarter == 0 && x == 0.0F ? x : rounded;
  }
};
STITCH_INLINE f64 tanh_wide(f64 x) {
  const f64 magnitude = x < 0 ? -x : x;
  const f64 t = exp2_wide(magnitude * -2.88539008177792681);
  const f64 z = magnitude * magnitude;
  const f64 small = magnitude * (1.0 - z * (1.0 / 3 - z * (2.0 / 15)));
  const f64 result = magnitude < 0.005 ? small : (1.0 - t) / (1.0 + t);
  return x < 0 ? -result : result;
}
struct Tanh {
  STITCH_INLINE f32 of(f32 x) { return x != x || x == 0.0F ? canonical(x) : static_cast<f32>(tanh_wide(x)); }
};

enum class FRelation { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

template <class T, FRelation R, bool Ftz>
struct FCompare {
  STITCH_INLINE bool of(T a, T b) {
    const T x = in<Ftz>(a);
    const T y = in<Ftz>(b);
    if constexpr (R == FRelation::eq) return x == y;
    if constexpr (R == FRelation::ne) return x < y || x > y;
    if constexpr (R == FRelation::lt) return x < y;
    if constexpr (R == FRelation::le) return x <= y;
    if constexpr (R == FRelation::gt) return x > y;
    if constexpr (R == FRelation::ge) return x >= y;
    if constexpr (R == FRelation::equ) return !(x < y || x > y);
    if constexpr (R == FRelation::neu) return x != y;
    if constexpr (R == FRelation::ltu) return !(x >= y);
    if constexpr (R == FRelation::leu) return !(x > y);
    if constexpr (R == FRelation::gtu) return !(x <= y);
    if constexpr (R == FRelation::geu) return !(x < y);
    if constexpr (R == FRelation::num) return x == x && y == y;
    return x != x || y != y;
  }
};
// slct.ftz: a subnormal c is a zero, whatever its sign.
template <class T>
struct SelectBySignFtz {
  STITCH_INLINE T of(T a, T b, f32 c) { return flush(c) >= 0.0F ? a : b; }
};
enum class FloatClass { finite, infinite, number, notanumber, normal, subnormal };
template <class T, FloatClass C>
struct TestFloat {
  STITCH_INLINE bool of(T a) {
    const T magnitude = a < 0 ? -a : a;
    const T infinity = static_cast<T>(__builtin_inff());
    const T smallest = sizeof(T) == 4 ? static_cast<T>(0x1p-126) : static_cast<T>(0x1p-1022);
    if constexpr (C == FloatClass::finite) return magnitude < infinity;
    if constexpr (C == FloatClass::infinite) return magnitude == infinity;
    if constexpr (C == FloatClass::number) return a == a;
    if constexpr (C == FloatClass::notanumber) return a != a;
    // Zeros count as normal (PTX ISA, testp).
    if constexpr (C == FloatClass::normal) return a == 0 || (magnitude >= smallest && magnitude < infinity);
    return magnitude < smallest && magnitude > 0;
  }
};

// The same operations with another rounding mode than to nearest: the host's mode is changed around the loop.
class RoundingScope {
 public:
  explicit RoundingScope(Rounding rounding) : previous_(set_host_rounding(rounding)) {}
  ~RoundingScope() { restore_host_rounding(previous_); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  int previous_;
};
template <Rounding R, class F, class D, class A>
void rounded1(const LaneRows& rows) {
  const RoundingScope scope(R);
  map1<F, D, A>(rows);
}
template <Rounding R, class F, class D, class A>
void rounded2(const LaneRows& rows) {
  const RoundingScope scope(R);
  map2<F, D, A>(rows);
}
template <Rounding R, class F, class D, class A>
void rounded3(const LaneRows& rows) {
  const RoundingScope scope(R);
  map3<F, D, A>(rows);
}
