#pragma once
// Lines in the order of their keys, stable: what is compared is a word of the key's bits, in whose order unsigned
// integers are, and the element's place in its line, so that no two are equal and any sorting network will do. This one
// is bitonic (Batcher 1968). A thread has a power of two of a line's words in registers; which of them decides which
// bits of a place within the line differ among a thread's words, and so which steps of the network it can do by itself.
// Between two such sets of bits the words pass through shared memory once, however many steps follow.

#include "stitch/types.cuh"

namespace stitch {

// ---- keys: integers in the order of the values; NaN is the greatest, and -0 is +0

template <class U>
__device__ __forceinline__ U ordered_float(U bits, U infinity) {
  const U sign = static_cast<U>(U(1) << (8 * sizeof(U) - 1)), magnitude = bits & static_cast<U>(sign - 1);
  if (magnitude > infinity) return static_cast<U>(~U(0));
  if (magnitude == 0) return sign;
  return (bits & sign) != 0 ? static_cast<U>(~bits) : static_cast<U>(bits | sign);
}
// The value of a key; all ones is a NaN of every type.
template <class U>
__device__ __forceinline__ U float_of_order(U key, bool negative_zero) {
  const U sign = static_cast<U>(U(1) << (8 * sizeof(U) - 1));
  if (key == static_cast<U>(~U(0))) return static_cast<U>(sign - 1);
  if (negative_zero) return sign;
  return (key & sign) != 0 ? static_cast<U>(key ^ sign) : static_cast<U>(~key);
}

// Ordered<T>: the key of a stored element, whether it is a zero with a sign, and back.
template <class T>
struct Ordered;
#define STITCH_ORDERED_INTEGER(T, U, SIGN)                                                            \
  template <>                                                                                         \
  struct Ordered<T> {                                                                                 \
    using Key = U;                                                                                    \
    __device__ static __forceinline__ U key(T x) { return static_cast<U>(static_cast<U>(x) ^ SIGN); } \
    __device__ static __forceinline__ bool negative_zero(T) { return false; }                         \
    __device__ static __forceinline__ T value(U key, bool) { return static_cast<T>(key ^ SIGN); }     \
  };
STITCH_ORDERED_INTEGER(u8, u8, u8(0))
STITCH_ORDERED_INTEGER(u16, u16, u16(0))
STITCH_ORDERED_INTEGER(u32, u32, 0u)
STITCH_ORDERED_INTEGER(u64, u64, 0ull)
STITCH_ORDERED_INTEGER(s8, u8, u8(0x80))
STITCH_ORDERED_INTEGER(s16, u16, u16(0x8000))
STITCH_ORDERED_INTEGER(s32, u32, 0x80000000u)
STITCH_ORDERED_INTEGER(s64, u64, 0x8000000000000000ull)
#undef STITCH_ORDERED_INTEGER
template <>
struct Ordered<pred> {
  using Key = u8;
  __device__ static __forceinline__ u8 key(pred x) { return x.bits != 0 ? 1 : 0; }
  __device__ static __forceinline__ bool negative_zero(pred) { return false; }
  __device__ static __forceinline__ pred value(u8 key, bool) { return pred{key}; }
};
#define STITCH_ORDERED_FLOAT(T, U, INFINITY_BITS, BITS_OF, OF_BITS)                                                \
  template <>                                                                                                      \
  struct Ordered<T> {                                                                                              \
    using Key = U;                                                                                                 \
    __device__ static __forceinline__ U bits(T x) { return static_cast<U>(BITS_OF); }                              \
    __device__ static __forceinline__ U key(T x) { return ordered_float<U>(bits(x), INFINITY_BITS); }              \
    __device__ static __forceinline__ bool negative_zero(T x) { return bits(x) == (U(1) << (8 * sizeof(U) - 1)); } \
    __device__ static __forceinline__ T value(U key, bool negative_zero) {                                         \
      const U y = float_of_order<U>(key, negative_zero);                                                           \
      return OF_BITS;                                                                                              \
    }                                                                                                              \
  };
STITCH_ORDERED_FLOAT(f8e4m3, u8, 0x7e, x.bits, f8e4m3{y})  // it has no infinity: 448 is the greatest number
STITCH_ORDERED_FLOAT(f8e5m2, u8, 0x7c, x.bits, f8e5m2{y})
STITCH_ORDERED_FLOAT(f16, u16, 0x7c00, x.bits, f16{y})
STITCH_ORDERED_FLOAT(bf16, u16, 0x7f80, x.bits, bf16{y})
STITCH_ORDERED_FLOAT(f32, u32, 0x7f800000u, __float_as_uint(x), __uint_as_float(y))
STITCH_ORDERED_FLOAT(f64, u64, 0x7ff0000000000000ull, __double_as_longlong(x),
                     __longlong_as_double(static_cast<s64>(y)))
#undef STITCH_ORDERED_FLOAT

// ---- words: a key and a place, with a bit below the place for the sign of a zero

struct alignas(16) KeyAndPlace {
  u64 key;
  u32 place, unused;
};

template <class SortWord>
struct SortWords;
template <>
struct SortWords<u32> {
  __device__ static __forceinline__ u32 make(u32 key, u32 low) { return (key << 16) | low; }
  __device__ static __forceinline__ u32 last(u32 low) { return 0xffff0000u | low; }
  __device__ static __forceinline__ u32 key(u32 word) { return word >> 16; }
  __device__ static __forceinline__ u32 low(u32 word) { return word & 0xffffu; }
  __device__ static __forceinline__ u32 turned(u32 word, u32 mask) { return word ^ mask; }
  __device__ static __forceinline__ void order(u32& a, u32& b) {
    const u32 less = min(a, b);
    b = max(a, b);
    a = less;
  }
};
template <>
struct SortWords<u64> {
  __device__ static __forceinline__ u64 make(u32 key, u32 low) { return (static_cast<u64>(key) << 32) | low; }
  __device__ static __forceinline__ u64 last(u32 low) { return 0xffffffff00000000ull | low; }
  __device__ static __forceinline__ u32 key(u64 word) { return static_cast<u32>(word >> 32); }
  __device__ static __forceinline__ u32 low(u64 word) { return static_cast<u32>(word); }
  __device__ static __forceinline__ u64 turned(u64 word, u32 mask) {
    return word ^ ((static_cast<u64>(mask) << 32) | mask);
  }
  __device__ static __forceinline__ void order(u64& a, u64& b) {
    const bool swaps = b < a;
    const u64 less = swaps ? b : a;
    b = swaps ? a : b;
    a = less;
  }
};
template <>
struct SortWords<KeyAndPlace> {
  __device__ static __forceinline__ KeyAndPlace make(u64 key, u32 low) { return {key, low, 0}; }
  __device__ static __forceinline__ KeyAndPlace last(u32 low) { return {~0ull, low, 0}; }
  __device__ static __forceinline__ u64 key(const KeyAndPlace& word) { return word.key; }
  __device__ static __forceinline__ u32 low(const KeyAndPlace& word) { return word.place; }
  __device__ static __forceinline__ KeyAndPlace turned(const KeyAndPlace& word, u32 mask) {
    return {word.key ^ ((static_cast<u64>(mask) << 32) | mask), word.place ^ mask, 0};
  }
  __device__ static __forceinline__ void order(KeyAndPlace& a, KeyAndPlace& b) {
    const bool swaps = b.key < a.key || (b.key == a.key && b.place < a.place);
    const KeyAndPlace less = swaps ? b : a;
    b = swaps ? a : b;
    a = less;
  }
};

// The word of the element at `place`. Descending: the greatest keys first, equal ones in their order all the same.
template <class SortWord, bool descending, class T>
__device__ __forceinline__ SortWord sort_word(T x, int place) {
  using Key = typename Ordered<T>::Key;
  const Key key = Ordered<T>::key(x);
  const u32 low = (static_cast<u32>(place) << 1) | (Ordered<T>::negative_zero(x) ? 1u : 0u);
  return SortWords<SortWord>::make(descending ? static_cast<Key>(~key) : key, low);
}
// What fills a line up, behind all of its elements: `place` is none of theirs.
template <class SortWord>
__device__ __forceinline__ SortWord word_behind(int place) {
  return SortWords<SortWord>::last(static_cast<u32>(place) << 1);
}
template <class SortWord>
__device__ __forceinline__ int place_of(const SortWord& word) {
  return static_cast<int>(SortWords<SortWord>::low(word) >> 1);
}
template <class T, bool descending, class SortWord>
__device__ __forceinline__ T value_of(const SortWord& word) {
  using Key = typename Ordered<T>::Key;
  const auto key = static_cast<Key>(SortWords<SortWord>::key(word));
  return Ordered<T>::value(descending ? static_cast<Key>(~key) : key, (SortWords<SortWord>::low(word) & 1) != 0);
}

// ---- the network

constexpr int sort_bits(int n) { return n <= 1 ? 0 : 1 + sort_bits(n / 2); }

// A line of threads · elements words. `shared` is the line's own part of shared memory, where no other thread is.
template <int threads, int elements, class SortWord>
struct LineSort {
  static constexpr int own_bits = sort_bits(elements), bits = own_bits + sort_bits(threads);
  static_assert(elements > 1 || threads == 1, "a step takes two words of a thread");
  static constexpr int lane_bits = 5, words_of_bank_row = 128 / static_cast<int>(sizeof(SortWord));

  SortWord (&own)[elements];
  SortWord* shared;
  int thread;

  // Where own[r] is in the line while the bits from `bit` on tell a thread's words apart.
  template <int bit>
  __device__ __forceinline__ int index(int r) const {
    return ((thread >> bit) << (bit + own_bits)) | (r << bit) | (thread & ((1 << bit) - 1));
  }
  __device__ __forceinline__ static int padded(int i) { return i + i / words_of_bank_row; }

  // Threads that differ in the `low` lowest bits wait for one another.
  template <int low>
  __device__ __forceinline__ static void wait() {
    if constexpr (low <= lane_bits) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  // What a thread writes next is where it has read: one barrier is enough.
  template <int from, int to>
  __device__ __forceinline__ void move() {
    if constexpr (from != to) {
#pragma unroll
      for (int r = 0; r < elements; ++r) shared[padded(index<from>(r))] = own[r];
      wait<(from > to ? from : to)>();
#pragma unroll
      for (int r = 0; r < elements; ++r) own[r] = shared[padded(index<to>(r))];
    }
  }

  // Compares words that differ in bit `step` of their place, and in those below it down to `bit`.
  template <int bit, int step>
  __device__ __forceinline__ void steps() {
    constexpr int apart = 1 << (step - bit);
#pragma unroll
    for (int r = 0; r < elements; ++r) {
      if ((r & apart) == 0) SortWords<SortWord>::order(own[r], own[r + apart]);
    }
    if constexpr (step > bit) steps<bit, step - 1>();
  }

  template <int at, int step>
  __device__ __forceinline__ void merge() {
    constexpr int bit = step - own_bits + 1 > 0 ? step - own_bits + 1 : 0;
    move<at, bit>();
    steps<bit, step>();
    if constexpr (bit > 0) merge<bit, bit - 1>();
  }

  // Runs of 2^(stage - 1) words have become runs of twice as many. Every other run is to descend: its complements
  // ascend.
  template <int stage>
  __device__ __forceinline__ void run() {
#pragma unroll
    for (int r = 0; r < elements; ++r) own[r] = SortWords<SortWord>::turned(own[r], turns<stage>(index<0>(r)));
    merge<0, stage - 1>();
    if constexpr (stage < bits) run<stage + 1>();
  }
  template <int stage>
  __device__ __forceinline__ static u32 turns(int i) {
    const int before = stage > 1 ? i >> (stage - 1) : 0, now = stage < bits ? i >> stage : 0;
    return 0u - static_cast<u32>((before ^ now) & 1);
  }

  // Leaves own[r] the word of rank r · threads + thread, so that neighbours store side by side.
  __device__ __forceinline__ void spread() {
    if constexpr (threads > 1) {
#pragma unroll
      for (int r = 0; r < elements; ++r) shared[padded(index<0>(r))] = own[r];
      wait<sort_bits(threads)>();
#pragma unroll
      for (int r = 0; r < elements; ++r) own[r] = shared[padded(r * threads + thread)];
    }
  }
};

// Sorts a line, whose words may be in any threads; own[r] becomes the word of rank r · threads + thread.
template <int threads, int elements, class SortWord>
__device__ __forceinline__ void sort_line(SortWord (&own)[elements], SortWord* shared, int thread) {
  LineSort<threads, elements, SortWord> line{own, shared, thread};
  if constexpr (threads * elements > 1) line.template run<1>();
  line.spread();
}

// Before the line's part of shared memory is used anew.
template <int threads>
__device__ __forceinline__ void line_is_read() {
  if constexpr (threads > 32) {
    __syncthreads();
  } else if constexpr (threads > 1) {
    __syncwarp();
  }
}

}  // namespace stitch
