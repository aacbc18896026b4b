// Integer, logic, shift and bit-field operations, one element at a time. Overflow wraps: arithmetic is done unsigned.

template <class T>
struct Add {
  using U = typename Traits<T>::Unsigned;
  STITCH_INLINE T of(T a, T b) { return static_cast<U>(static_cast<U>(a) + static_cast<U>(b)); }
};
template <class T>
struct Sub {
  using U = typename Traits<T>::Unsigned;
  STITCH_INLINE T of(T a, T b) { return static_cast<U>(static_cast<U>(a) - static_cast<U>(b)); }
};
// Signed addition that clamps instead of wrapping (add.sat.s32).
struct AddSat {
  STITCH_INLINE s32 of(s32 a, s32 b) {
    const s64 sum = s64{a} + b;
    return sum > 2147483647 ? 2147483647 : sum < -2147483648LL ? -2147483647 - 1 : static_cast<s32>(sum);
  }
};
struct SubSat {
  STITCH_INLINE s32 of(s32 a, s32 b) {
    const s64 sum = s64{a} - b;
    return sum > 2147483647 ? 2147483647 : sum < -2147483648LL ? -2147483647 - 1 : static_cast<s32>(sum);
  }
};
template <class T>
struct MulLow {
  STITCH_INLINE T of(T a, T b) {
    // u16 × u16 would be multiplied as int and could overflow it.
    if constexpr (Traits<T>::bits < 32) {
      return static_cast<u32>(a) * static_cast<u32>(b);
    } else {
      using U = typename Traits<T>::Unsigned;
      return static_cast<U>(a) * static_cast<U>(b);
    }
  }
};
template <class T>
struct MulWide {
  using W = typename Traits<T>::Wide;
  STITCH_INLINE W of(T a, T b) { return static_cast<W>(a) * static_cast<W>(b); }
};
template <class T>
struct MulHigh {
  STITCH_INLINE T of(T a, T b) { return MulWide<T>::of(a, b) >> Traits<T>::bits; }
};
template <class T>
struct MadLow {
  STITCH_INLINE T of(T a, T b, T c) { return Add<T>::of(MulLow<T>::of(a, b), c); }
};
template <class T>
struct MadHigh {
  STITCH_INLINE T of(T a, T b, T c) { return Add<T>::of(MulHigh<T>::of(a, b), c); }
};
template <class T>
struct MadWide {
  using W = typename Traits<T>::Wide;
  STITCH_INLINE W of(T a, T b, W c) { return Add<W>::of(MulWide<T>::of(a, b), c); }
};
template <class T>
struct Mul24Low {
  STITCH_INLINE T of(T a, T b) {
    using U = typename Traits<T>::Unsigned;
    const T x = static_cast<T>(static_cast<U>(a) << 8) >> 8;
    const T y = static_cast<T>(static_cast<U>(b) << 8) >> 8;
    return MulLow<T>::of(x, y);
  }
};
template <class T>
struct Mad24Low {
  STITCH_INLINE T of(T a, T b, T c) { return Add<T>::of(Mul24Low<T>::of(a, b), c); }
};

// Division by zero gives all ones and the dividend, as the hardware's sequence does; the most negative number over
// -1 wraps.
template <class T>
struct Div {
  STITCH_INLINE T of(T a, T b) {
    if (b == 0) return ~T{0};
    if (Traits<T>::is_signed && b == static_cast<T>(-1)) return Sub<T>::of(0, a);
    return a / b;
  }
};
template <class T>
struct Rem {
  STITCH_INLINE T of(T a, T b) {
    if (b == 0) return a;
    if (Traits<T>::is_signed && b == static_cast<T>(-1)) return 0;
    return a % b;
  }
};
template <class T>
struct Min {
  STITCH_INLINE T of(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct Max {
  STITCH_INLINE T of(T a, T b) { return a > b ? a : b; }
};
template <class T, class F>
struct Relu {
  STITCH_INLINE T of(T a, T b) {
    const T r = F::of(a, b);
    return r > 0 ? r : T{0};
  }
};
template <class T>
struct Neg {
  STITCH_INLINE T of(T a) { return Sub<T>::of(0, a); }
};
template <class T>
struct Abs {
  STITCH_INLINE T of(T a) { return a < 0 ? Sub<T>::of(0, a) : a; }
};
template <class T>
struct Sad {
  STITCH_INLINE T of(T a, T b, T c) { return Add<T>::of(c, a < b ? Sub<T>::of(b, a) : Sub<T>::of(a, b)); }
};

template <class T>
struct And {
  STITCH_INLINE T of(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  STITCH_INLINE T of(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  STITCH_INLINE T of(T a, T b) { return a ^ b; }
};
template <class T>
struct Not {
  STITCH_INLINE T of(T a) { return ~a; }
};
template <class T>
struct CNot {
  STITCH_INLINE T of(T a) { return a == 0 ? T{1} : T{0}; }
};
template <class T>
struct Copy {
  STITCH_INLINE T of(T a) { return a; }
};

// Shift amounts above the width clamp to it.
template <class T>
struct ShiftLeft {
  STITCH_INLINE T of(T a, u32 n) {
    constexpr u32 width = Traits<T>::bits;
    return n >= width ? T{0} : static_cast<T>(a << n);
  }
};
template <class T>
struct ShiftRight {
  STITCH_INLINE T of(T a, u32 n) {
    constexpr u32 width = Traits<T>::bits;
    if (Traits<T>::is_signed) return a >> (n >= width ? width - 1 : n);
    return n >= width ? T{0} : static_cast<T>(a >> n);
  }
};
// [b:a] shifted; the upper (left) or lower (right) word of the result.
template <bool Clamp>
struct FunnelLeft {
  STITCH_INLINE u32 of(u32 a, u32 b, u32 c) {
    const u32 n = Clamp ? (c < 32 ? c : 32) : c & 31;
    const u64 pair = (u64{b} << 32) | a;
    return (pair << n) >> 32;
  }
};
template <bool Clamp>
struct FunnelRight {
  STITCH_INLINE u32 of(u32 a, u32 b, u32 c) {
    const u32 n = Clamp ? (c < 32 ? c : 32) : c & 31;
    const u64 pair = (u64{b} << 32) | a;
    return pair >> n;
  }
};

STITCH_INLINE u32 permute(u32 a, u32 b, u32 selector) {
  const u64 pair = (u64{b} << 32) | a;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 nibble = (selector >> (4 * i)) & 15;
    const u32 byte = static_cast<u32>(pair >> (8 * (nibble & 7))) & 0xFF;
    const u32 sign = (byte & 0x80) != 0 ? 0xFFU : 0U;
    result |= ((nibble & 8) != 0 ? sign : byte) << (8 * i);
  }
  return result;
}
struct Permute {
  STITCH_INLINE u32 of(u32 a, u32 b, u32 c) { return permute(a, b, c & 0xFFFF); }
};
struct PermuteF4e {
  STITCH_INLINE u32 of(u32 a, u32 b, u32 c) { return permute(a, b, 0x3210U + 0x1111U * (c & 3)); }
};
struct PermuteB4e {
  STITCH_INLINE u32 of(u32 a, u32 b, u32 c) {
    constexpr u32 table[] = {0x5670, 0x6701, 0x7012, 0x0123};
    return permute(a, b, table[c & 3]);
  }
};
struct PermuteRc8 {
  STITCH_INLINE u32 of(u32 a, u32 b, u32 c) { return permute(a, b, 0x1111U * (c & 3)); }
};
struct PermuteEcl {
  STITCH_INLINE u32 of(u32 a, u32 b, u32 c) {
    constexpr u32 table[] = {0x3210, 0x3211, 0x3222, 0x3333};
    return permute(a, b, table[c & 3]);
  }
};
struct PermuteEcr {
  STITCH_INLINE u32 of(u32 a, u32 b, u32 c) {
    constexpr u32 table[] = {0x0000, 0x1110, 0x2210, 0x3210};
    return permute(a, b, table[c & 3]);
  }
};
struct PermuteRc16 {
  STITCH_INLINE u32 of(u32 a, u32 b, u32 c) { return permute(a, b, (c & 1) != 0 ? 0x3232 : 0x1010); }
};

template <class T>
struct FieldExtract {
  using U = typename Traits<T>::Unsigned;
  STITCH_INLINE T of(T a, u32 b, u32 c) {
    constexpr u32 width = Traits<T>::bits;
    const u32 start = b & 0xFF;
    const u32 length = c & 0xFF;
    if (length == 0) return 0;
    const u32 last = start + length - 1 < width - 1 ? start + length - 1 : width - 1;
    const bool negative = Traits<T>::is_signed && ((static_cast<U>(a) >> last) & 1) != 0;
    const U shifted = start >= width ? U{0} : static_cast<U>(static_cast<U>(a) >> start);
    const u32 kept = start >= width ? 0 : (start + length > width ? width - start : length);
    const U low = kept >= width ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << kept) - 1);
    return (shifted & low) | (negative ? static_cast<U>(~low) : U{0});
  }
};
template <class T>
struct FieldInsert {
  STITCH_INLINE T of(T a, T b, u32 c, u32 e) {
    constexpr u32 width = Traits<T>::bits;
    const u32 start = c & 0xFF;
    const u32 length = e & 0xFF;
    if (start >= width || length == 0) return b;
    const T low = length >= width ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T mask = static_cast<T>(low << start);
    return (b & static_cast<T>(~mask)) | (static_cast<T>(a << start) & mask);
  }
};

template <class T>
struct PopulationCount {
  STITCH_INLINE u32 of(T a) {
    if constexpr (Traits<T>::bits == 64) return __builtin_popcountll(a);
    return __builtin_popcount(static_cast<u32>(a));
  }
};
template <class T>
struct LeadingZeros {
  STITCH_INLINE u32 of(T a) {
    if (a == 0) return Traits<T>::bits;
    if constexpr (Traits<T>::bits == 64) return __builtin_clzll(a);
    return __builtin_clz(static_cast<u32>(a));
  }
};
template <class T, bool ShiftAmount>
struct FindLeading {
  using U = typename Traits<T>::Unsigned;
  STITCH_INLINE u32 of(T a) {
    const U x = Traits<T>::is_signed && a < 0 ? static_cast<U>(~a) : static_cast<U>(a);
    if (x == 0) return 0xFFFFFFFFU;
    const u32 zeros = LeadingZeros<U>::of(x);
    return ShiftAmount ? zeros : Traits<T>::bits - 1 - zeros;
  }
};
struct Reverse32 {
  STITCH_INLINE u32 of(u32 x) {
    x = ((x >> 1) & 0x55555555U) | ((x & 0x55555555U) << 1);
    x = ((x >> 2) & 0x33333333U) | ((x & 0x33333333U) << 2);
    x = ((x >> 4) & 0x0F0F0F0FU) | ((x & 0x0F0F0F0FU) << 4);
    return __builtin_bswap32(x);
  }
};
struct Reverse64 {
  STITCH_INLINE u64 of(u64 x) {
    return (u64{Reverse32::of(static_cast<u32>(x))} << 32) | Reverse32::of(static_cast<u32>(x >> 32));
  }
};
// The position of the n-th set bit at or above (n > 0) or below (n < 0) the base; n = 0: the base itself if set.
struct FindNthSet {
  STITCH_INLINE u32 of(u32 mask, u32 base, s32 n) {
    if (n == 0) return ((mask >> (base & 31)) & 1) != 0 ? base & 31 : 0xFFFFFFFFU;
    const int step = n > 0 ? 1 : -1;
    u32 left = n > 0 ? static_cast<u32>(n) : 0U - static_cast<u32>(n);
    for (int at = base & 31; at >= 0 && at < 32; at += step) {
      if (((mask >> at) & 1) != 0 && --left == 0) return at;
    }
    return 0xFFFFFFFFU;
  }
};
template <bool SignedA, bool SignedB>
struct Dot4 {
  STITCH_INLINE u32 of(u32 a, u32 b, u32 c) {
    u32 sum = c;
    for (int i = 0; i < 4; ++i) {
      const u32 x = (a >> (8 * i)) & 0xFF;
      const u32 y = (b >> (8 * i)) & 0xFF;
      const s32 sx = SignedA ? static_cast<s8>(x) : static_cast<s32>(x);
      const s32 sy = SignedB ? static_cast<s8>(y) : static_cast<s32>(y);
      sum += static_cast<u32>(sx * sy);
    }
    return sum;
  }
};
template <bool SignedA, bool SignedB, bool High>
struct Dot2 {
  STITCH_INLINE u32 of(u32 a, u32 b, u32 c) {
    u32 sum = c;
    for (int i = 0; i < 2; ++i) {
      const u32 x = (a >> (16 * i)) & 0xFFFF;
      const u32 y = (b >> (8 * i + (High ? 16 : 0))) & 0xFF;
      const s32 sx = SignedA ? static_cast<s16>(x) : static_cast<s32>(x);
      const s32 sy = SignedB ? static_cast<s8>(y) : static_cast<s32>(y);
      sum += static_cast<u32>(sx) * static_cast<u32>(sy);
    }
    return sum;
  }
};
template <bool Clamp>
struct BitMask {
  STITCH_INLINE u32 of(u32 a, u32 b) {
    const u32 start = Clamp ? a : a & 31;
    const u32 length = Clamp ? b : b & 31;
    if (start >= 32 || length == 0) return 0;
    return (length >= 32 ? 0xFFFFFFFFU : (1U << length) - 1) << start;
  }
};
template <bool Signed, bool Clamp>
struct SignExtend {
  STITCH_INLINE u32 of(u32 a, u32 n) {
    const u32 width = Clamp ? (n < 32 ? n : 32) : n & 31;
    if (width == 0) return 0;
    if (width == 32) return a;
    const u32 low = a & ((1U << width) - 1);
    return Signed && ((a >> (width - 1)) & 1) != 0 ? low | (0xFFFFFFFFU << width) : low;
  }
};

inline void lop3(const LaneRows& rows) {
  constexpr int N = 32;
  u32* d = row<u32>(rows.d);
  const u32* a = row<u32>(rows.a);
  const u32* b = row<u32>(rows.b);
  const u32* c = row<u32>(rows.c);
  u32 minterm[8];
  for (int k = 0; k < 8; ++k) minterm[k] = ((rows.immediate >> k) & 1) != 0 ? 0xFFFFFFFFU : 0U;
  STITCH_LANES {
    const u32 low = (c[i] & minterm[1]) | (~c[i] & minterm[0]);
    const u32 low_b = (c[i] & minterm[3]) | (~c[i] & minterm[2]);
    const u32 high = (c[i] & minterm[5]) | (~c[i] & minterm[4]);
    const u32 high_b = (c[i] & minterm[7]) | (~c[i] & minterm[6]);
    d[i] = (a[i] & ((b[i] & high_b) | (~b[i] & high))) | (~a[i] & ((b[i] & low_b) | (~b[i] & low)));
  }
}

template <class T>
struct Select {
  STITCH_INLINE T of(T a, T b, bool p) { return p ? a : b; }
};
// a + b + carry, and the carry out; a - b - borrow, and the borrow out.
template <class T>
struct AddCarry {
  STITCH_INLINE T of(T a, T b, bool carry) { return a + b + (carry ? 1 : 0); }
};
template <class T>
struct CarryOfAdd {
  STITCH_INLINE bool of(T a, T b, bool carry) {
    const T sum = static_cast<T>(a + b);
    return sum < a || (carry && sum == static_cast<T>(~T{0}));
  }
};
template <class T>
struct SubBorrow {
  STITCH_INLINE T of(T a, T b, bool borrow) { return a - b - (borrow ? 1 : 0); }
};
template <class T>
struct BorrowOfSub {
  STITCH_INLINE bool of(T a, T b, bool borrow) { return a < b || (borrow && a == b); }
};

enum class Relation { eq, ne, lt, le, gt, ge };

template <class T, Relation R>
struct Compare {
  STITCH_INLINE bool of(T a, T b) {
    if constexpr (R == Relation::eq) return a == b;
    if constexpr (R == Relation::ne) return a != b;
    if constexpr (R == Relation::lt) return a < b;
    if constexpr (R == Relation::le) return a <= b;
    if constexpr (R == Relation::gt) return a > b;
    return a >= b;
  }
};
template <class T, class C>
struct SelectBySign {
  STITCH_INLINE T of(T a, T b, C c) { return c >= 0 ? a : b; }
};
// Changes a register's width: the source's type says how to extend.
template <class D, class A>
struct Resize {
  STITCH_INLINE D of(A a) { return a; }
};
struct Pack16 {
  STITCH_INLINE u32 of(u16 low, u16 high) { return low | (u32{high} << 16); }
};
struct Pack32 {
  STITCH_INLINE u64 of(u32 low, u32 high) { return low | (u64{high} << 32); }
};
template <class D, class A, int Shift>
struct Extract {
  STITCH_INLINE D of(A a) { return a >> Shift; }
};
struct Low64 {
  STITCH_INLINE Wide128 of(u64 low, u64 high) { return {low, high}; }
};
template <int Index>
struct Half128 {
  STITCH_INLINE u64 of(Wide128 a) { return Index == 0 ? a.low : a.high; }
};
