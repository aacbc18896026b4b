// Loops over the 32 lanes of a row. Included once per host instruction set, inside that set's namespace, so that the
// compiler vectorises every operation for it. No standard templates in here: an instantiation compiled for AVX-512
// must never be the one that the linker keeps for everybody.

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using f32 = float;
using f64 = double;

#define STITCH_INLINE [[gnu::always_inline]] static inline
#define STITCH_LANES _Pragma("GCC ivdep") for (int i = 0; i < N; ++i)

// One bit per lane, so that masks are packed and unpacked by vector operations.
alignas(64) constexpr u32 lane_bit[32] = {
    1U << 0,  1U << 1,  1U << 2,  1U << 3,  1U << 4,  1U << 5,  1U << 6,  1U << 7,  1U << 8,  1U << 9,  1U << 10,
    1U << 11, 1U << 12, 1U << 13, 1U << 14, 1U << 15, 1U << 16, 1U << 17, 1U << 18, 1U << 19, 1U << 20, 1U << 21,
    1U << 22, 1U << 23, 1U << 24, 1U << 25, 1U << 26, 1U << 27, 1U << 28, 1U << 29, 1U << 30, 1U << 31};

template <class T>
STITCH_INLINE T* row(void* rows) {
  return static_cast<T*>(rows);
}
template <class T>
STITCH_INLINE const T* row(const void* rows) {
  return static_cast<const T*>(rows);
}

// F::of(a…) computes one element. N is 32, or 64 for packed 16-bit pairs.
template <class F, class D, class A, int N = 32>
void map1(const LaneRows& rows) {
  D* d = row<D>(rows.d);
  const A* a = row<A>(rows.a);
  STITCH_LANES d[i] = F::of(a[i]);
}

template <class F, class D, class A, class B = A, int N = 32>
void map2(const LaneRows& rows) {
  D* d = row<D>(rows.d);
  const A* a = row<A>(rows.a);
  const B* b = row<B>(rows.b);
  STITCH_LANES d[i] = F::of(a[i], b[i]);
}

template <class F, class D, class A, class B = A, class C = A, int N = 32>
void map3(const LaneRows& rows) {
  D* d = row<D>(rows.d);
  const A* a = row<A>(rows.a);
  const B* b = row<B>(rows.b);
  const C* c = row<C>(rows.c);
  STITCH_LANES d[i] = F::of(a[i], b[i], c[i]);
}

template <class F, class D, class A, class B, class C, class E>
void map4(const LaneRows& rows) {
  constexpr int N = 32;
  D* d = row<D>(rows.d);
  const A* a = row<A>(rows.a);
  const B* b = row<B>(rows.b);
  const C* c = row<C>(rows.c);
  const E* e = row<E>(rows.e);
  STITCH_LANES d[i] = F::of(a[i], b[i], c[i], e[i]);
}

// The destination is a predicate.
template <class F, class A>
void test1(const LaneRows& rows) {
  constexpr int N = 32;
  const A* a = row<A>(rows.a);
  u32 mask = 0;
  STITCH_LANES mask |= F::of(a[i]) ? lane_bit[i] : 0U;
  *row<u32>(rows.d) = mask;
}

template <class F, class A>
void test2(const LaneRows& rows) {
  constexpr int N = 32;
  const A* a = row<A>(rows.a);
  const A* b = row<A>(rows.b);
  u32 mask = 0;
  STITCH_LANES mask |= F::of(a[i], b[i]) ? lane_bit[i] : 0U;
  *row<u32>(rows.d) = mask;
}

// The third source is a predicate; F::of takes it as a bool.
template <class F, class D, class A>
void choose(const LaneRows& rows) {
  constexpr int N = 32;
  D* d = row<D>(rows.d);
  const A* a = row<A>(rows.a);
  const A* b = row<A>(rows.b);
  const u32 mask = *row<u32>(rows.c);
  STITCH_LANES d[i] = F::of(a[i], b[i], (mask & lane_bit[i]) != 0);
}

template <class F, class A>
void test_choose(const LaneRows& rows) {
  constexpr int N = 32;
  const A* a = row<A>(rows.a);
  const A* b = row<A>(rows.b);
  const u32 in = *row<u32>(rows.c);
  u32 mask = 0;
  STITCH_LANES mask |= F::of(a[i], b[i], (in & lane_bit[i]) != 0) ? lane_bit[i] : 0U;
  *row<u32>(rows.d) = mask;
}

// All operands are predicates: one word each.
template <class F>
void logic1(const LaneRows& rows) {
  *row<u32>(rows.d) = F::of(*row<u32>(rows.a));
}
template <class F>
void logic2(const LaneRows& rows) {
  *row<u32>(rows.d) = F::of(*row<u32>(rows.a), *row<u32>(rows.b));
}

template <class T>
struct WidthOf;
template <>
struct WidthOf<u8> { static constexpr Width value = Width::b16; };
template <>
struct WidthOf<s8> { static constexpr Width value = Width::b16; };
template <>
struct WidthOf<u16> { static constexpr Width value = Width::b16; };
template <>
struct WidthOf<s16> { static constexpr Width value = Width::b16; };
template <>
struct WidthOf<u32> { static constexpr Width value = Width::b32; };
template <>
struct WidthOf<s32> { static constexpr Width value = Width::b32; };
template <>
struct WidthOf<f32> { static constexpr Width value = Width::b32; };
template <>
struct WidthOf<u64> { static constexpr Width value = Width::b64; };
template <>
struct WidthOf<s64> { static constexpr Width value = Width::b64; };
template <>
struct WidthOf<f64> { static constexpr Width value = Width::b64; };
struct Wide128 {
  u64 low;
  u64 high;
};
template <>
struct WidthOf<Wide128> { static constexpr Width value = Width::b128; };

template <class T>
struct Traits;
template <>
struct Traits<u8> {
  using Wide = u16;
  using Unsigned = u8;
  static constexpr int bits = 8;
  static constexpr bool is_signed = false;
  static constexpr const char* name = "u8";
};
template <>
struct Traits<s8> {
  using Wide = s16;
  using Unsigned = u8;
  static constexpr int bits = 8;
  static constexpr bool is_signed = true;
  static constexpr const char* name = "s8";
};
template <>
struct Traits<u16> {
  using Wide = u32;
  using Unsigned = u16;
  static constexpr int bits = 16;
  static constexpr bool is_signed = false;
  static constexpr const char* name = "u16";
};
template <>
struct Traits<s16> {
  using Wide = s32;
  using Unsigned = u16;
  static constexpr int bits = 16;
  static constexpr bool is_signed = true;
  static constexpr const char* name = "s16";
};
template <>
struct Traits<u32> {
  using Wide = u64;
  using Unsigned = u32;
  static constexpr int bits = 32;
  static constexpr bool is_signed = false;
  static constexpr const char* name = "u32";
};
template <>
struct Traits<s32> {
  using Wide = s64;
  using Unsigned = u32;
  static constexpr int bits = 32;
  static constexpr bool is_signed = true;
  static constexpr const char* name = "s32";
};
__extension__ using u128 = unsigned __int128;
__extension__ using s128 = __int128;
template <>
struct Traits<u64> {
  using Wide = u128;
  using Unsigned = u64;
  static constexpr int bits = 64;
  static constexpr bool is_signed = false;
  static constexpr const char* name = "u64";
};
template <>
struct Traits<s64> {
  using Wide = s128;
  using Unsigned = u64;
  static constexpr int bits = 64;
  static constexpr bool is_signed = true;
  static constexpr const char* name = "s64";
};
