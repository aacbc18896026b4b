#pragma once
// Vector access to device memory: N elements at a time, at most 16 bytes per instruction. Pointers must be aligned to
// the access; the schedule proves it from a 16-byte aligned tensor base, and whoever launches checks the base.

#include "stitch/packed.cuh"
#include "stitch/types.cuh"

namespace stitch {

template <int bytes>
struct Word;
template <>
struct Word<1> {
  using type = u8;
};
template <>
struct Word<2> {
  using type = u16;
};
template <>
struct Word<4> {
  using type = u32;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};

// How a load may be cached: `streamed` data is an input whose elements this kernel only reads; `shared_between_blocks`
// was written by another block of this kernel, so it must come from L2; `plain` is any other memory of the device. The
// next two are asked for a turn of a loop ahead: ptxas moves other loads of read-only memory across barriers to where
// registers are free, which is behind the work that they should be in flight during. `unwaited` is asked for before the
// kernel waits for the launch before it (device/launch.cuh). `shared` is what this thread finds in shared memory.
//
// The last four are instructions of their own: NVVM takes a plain vector for its scalars and puts the vector together
// again where it thinks it can: of what was copied asynchronously it put together now more, now less, in one process
// from one and the same source (24 or 40 loads, CUDA 13.0).
enum class Cached { streamed, shared_between_blocks, plain, ahead, ahead_between_blocks, unwaited, shared };

// Of those that are instructions of their own: what L1 may have an older copy of.
template <Cached cached>
inline constexpr bool passes_l1 = cached == Cached::ahead_between_blocks || cached == Cached::unwaited;

__device__ __forceinline__ u32 shared_address(const void* place) {
  return static_cast<u32>(__cvta_generic_to_shared(place));
}

#define STITCH_LOAD_ITSELF(W, OUTPUTS, TYPE, TARGETS)                                                             \
  template <Cached cached>                                                                                        \
  __device__ __forceinline__ void ask_for(W& x, const W* from) {                                                  \
    if constexpr (cached == Cached::shared) {                                                                     \
      asm volatile("ld.shared." TYPE " " TARGETS ";" : OUTPUTS : "l"(__cvta_generic_to_shared(from)) : "memory"); \
    } else if constexpr (passes_l1<cached>) {                                                                     \
      asm volatile("ld.global.cg." TYPE " " TARGETS ";" : OUTPUTS : "l"(from) : "memory");                        \
    } else {                                                                                                      \
      asm volatile("ld.global." TYPE " " TARGETS ";" : OUTPUTS : "l"(from) : "memory");                           \
    }                                                                                                             \
  }
#define STITCH_PAIR "=r"(x.x), "=r"(x.y)
#define STITCH_QUAD "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
STITCH_LOAD_ITSELF(u16, "=h"(x), "u16", "%0, [%1]")
STITCH_LOAD_ITSELF(u32, "=r"(x), "u32", "%0, [%1]")
STITCH_LOAD_ITSELF(uint2, STITCH_PAIR, "v2.u32", "{%0, %1}, [%2]")
STITCH_LOAD_ITSELF(uint4, STITCH_QUAD, "v4.u32", "{%0, %1, %2, %3}, [%4]")
#undef STITCH_LOAD_ITSELF
#undef STITCH_PAIR
#undef STITCH_QUAD
template <Cached cached>
__device__ __forceinline__ void ask_for(u8& x, const u8* from) {
  u16 wide;
  if constexpr (cached == Cached::shared) {
    asm volatile("ld.shared.u8 %0, [%1];" : "=h"(wide) : "l"(__cvta_generic_to_shared(from)) : "memory");
  } else if constexpr (passes_l1<cached>) {
    asm volatile("ld.global.cg.u8 %0, [%1];" : "=h"(wide) : "l"(from) : "memory");
  } else {
    asm volatile("ld.global.u8 %0, [%1];" : "=h"(wide) : "l"(from) : "memory");
  }
  x = static_cast<u8>(wide);
}

template <Cached cached, class W>
__device__ __forceinline__ W load_word(const W* from) {
  if constexpr (cached == Cached::streamed) {
    return __ldg(from);
  } else if constexpr (cached == Cached::shared_between_blocks) {
    return __ldcg(from);
  } else if constexpr (cached == Cached::ahead || passes_l1<cached> || cached == Cached::shared) {
    W word;
    ask_for<cached>(word, from);
    return word;
  } else {
    return *from;
  }
}

template <Cached cached, class T>
__device__ __forceinline__ T load_one(const T* from) {
  using W = typename Word<sizeof(T)>::type;
  union {
    W word;
    T element;
  } bits;
  bits.word = load_word<cached>(reinterpret_cast<const W*>(from));
  return bits.element;
}

// n elements as the word that one instruction stores.
template <int n, class T>
__device__ __forceinline__ typename Word<n * sizeof(T)>::type word_of(const T* from) {
  union {
    typename Word<n * sizeof(T)>::type word;
    T elements[n];
  } bits;
#pragma unroll
  for (int i = 0; i < n; ++i) bits.elements[i] = from[i];
  return bits.word;
}

template <int n, Cached cached = Cached::streamed, class T>
__device__ __forceinline__ void load(T* to, const T* from) {
  using W = typename Word<n * sizeof(T)>::type;
  union {
    W word;
    T elements[n];
  } bits;
  bits.word = load_word<cached>(reinterpret_cast<const W*>(from));
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = bits.elements[i];
}

// Whole words of a Packed array.
template <int n, Cached cached = Cached::streamed, class T>
__device__ __forceinline__ void load(PackedRun<T> to, const T* from) {
  load<n * sizeof(T) / 4, cached>(to.words, reinterpret_cast<const u32*>(from));
}
template <int n, Cached cached = Cached::streamed, class T, int m>
__device__ __forceinline__ void load(Packed<T, m>& to, const T* from) {
  load<n, cached>(to + 0, from);
}

// Hides from the compiler what a register holds. A load under a condition ends with it: otherwise NVVM finds that the
// other path has zeros, computes with them there, and puts the load's consumer, which waits for it, in front of the
// next load.
__device__ __forceinline__ void settle(u32& x) { asm("" : "+r"(x)); }
__device__ __forceinline__ void settle(s32& x) { asm("" : "+r"(x)); }
__device__ __forceinline__ void settle(f32& x) { asm("" : "+f"(x)); }
__device__ __forceinline__ void settle(s64& x) { asm("" : "+l"(x)); }
__device__ __forceinline__ void settle(u64& x) { asm("" : "+l"(x)); }
__device__ __forceinline__ void settle(f64& x) { asm("" : "+d"(x)); }
__device__ __forceinline__ void settle(s16& x) { asm("" : "+h"(x)); }
__device__ __forceinline__ void settle(u16& x) { asm("" : "+h"(x)); }
template <class T>
__device__ __forceinline__ void settle(T& x) {
  u16 bits = word_of<1>(&x);
  settle(bits);
  const typename Word<sizeof(T)>::type word = static_cast<typename Word<sizeof(T)>::type>(bits);
  x = __builtin_bit_cast(T, word);
}

// Elements [first, count) of n (both may be anything); the others become zero.
template <int n, Cached cached = Cached::streamed, class T>
__device__ __forceinline__ void load_part(T* to, const T* from, int first, int count) {
  if (first <= 0 && count >= n) {
    load<n, cached>(to, from);
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      to[i] = T{};
      if (i >= first && i < count) load<1, cached>(to + i, from + i);
    }
  }
#pragma unroll
  for (int i = 0; i < n; ++i) settle(to[i]);
}
template <int n, Cached cached = Cached::streamed, class T>
__device__ __forceinline__ void load_part(PackedRun<T> to, const T* from, int first, int count) {
  constexpr int words = n * sizeof(T) / 4, per_word = 4 / sizeof(T);
  if (first <= 0 && count >= n) {
    load<n, cached>(to, from);
  } else {
#pragma unroll
    for (int w = 0; w < words; ++w) to.words[w] = 0;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if (i >= first && i < count)
        to.words[i / per_word] |= static_cast<u32>(load_one<cached>(from + i).bits)
                                  << 8 * static_cast<int>(sizeof(T)) * (i % per_word);
    }
  }
#pragma unroll
  for (int w = 0; w < words; ++w) settle(to.words[w]);
}
template <int n, Cached cached = Cached::streamed, class T, int m>
__device__ __forceinline__ void load_part(Packed<T, m>& to, const T* from, int first, int count) {
  load_part<n, cached>(to + 0, from, first, count);
}

// The first `count` of n elements.
template <int n, Cached cached = Cached::streamed, class To, class T>
__device__ __forceinline__ void load_tail(To&& to, const T* from, int count) {
  load_part<n, cached>(to, from, 0, count);
}

// Hands on what a turn of a loop finds loaded, so that the registers of the next one are free.
template <class T>
__device__ __forceinline__ void take_over(T& to, const T& from) {
  to = from;
}
template <class T, int n>
__device__ __forceinline__ void take_over(T (&to)[n], const T (&from)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) take_over(to[i], from[i]);
}

// Asks for `runs` runs of `bytes` bytes, `stride` bytes apart, to be brought to L2: as thread `thread` of `threads`
// that do. L2 takes 64 bytes at a time from device memory, wherever the run begins in them.
template <int runs, int bytes>
__device__ __forceinline__ void prefetch(const char* from, s64 stride, int thread, int threads) {
  constexpr int places = bytes / 64 + 1;
  for (int i = thread; i < runs * places; i += threads) {
    const int at = i % places * 64 < bytes ? i % places * 64 : bytes - 1;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i / places * stride + at));
  }
}

// How a store may be cached: what is `passing` is not read by this kernel, which has another use for L2.
enum class Written { kept, passing };

template <int n, Written written = Written::kept, class T>
__device__ __forceinline__ void store(T* to, const T* from) {
  using W = typename Word<n * sizeof(T)>::type;
  if constexpr (written == Written::passing) {
    __stcs(reinterpret_cast<W*>(to), word_of<n>(from));
  } else {
    *reinterpret_cast<W*>(to) = word_of<n>(from);
  }
}

template <int n, Written written = Written::kept, class T>
__device__ __forceinline__ void store(T* to, PackedRun<T> from) {
  store<n * sizeof(T) / 4, written>(reinterpret_cast<u32*>(to), from.words);
}
template <int n, Written written = Written::kept, class T, int m>
__device__ __forceinline__ void store(T* to, Packed<T, m>& from) {
  store<n, written>(to, from + 0);
}

// Asks for n elements to be brought to shared memory, without a register in between. What a thread asked for is there
// for that thread after wait_for_copies.
template <int n, class T>
__device__ __forceinline__ void copy_async(T* to, const T* from) {
#if __CUDA_ARCH__ >= 800
  const u32 place = shared_address(to);
  if constexpr (n * sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(n * sizeof(T)) : "memory");
  }
#else
  T elements[n];
  load<n>(elements, from);
  store<n>(to, elements);
#endif
}
// The same of elements [first, count) of n; the others become zero. Of a part, the elements are there at once.
template <int n, class T>
__device__ __forceinline__ void copy_part(T* to, const T* from, int first, int count) {
  if (first <= 0 && count >= n) {
    copy_async<n>(to, from);
    return;
  }
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = i >= first && i < count ? load_one<Cached::streamed>(from + i) : T{};
}
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
// What this thread asked for since the last of these is a group, of nothing too.
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// All but the latest `pending` groups of this thread's copies are there.
template <int pending>
__device__ __forceinline__ void wait_for_groups() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

template <Written written, class T, class V>
__device__ __forceinline__ void store_one(T* to, V value) {
  const T stored = value;
  store<1, written>(to, &stored);
}

template <int n, Written written = Written::kept, class T>
__device__ __forceinline__ void store_part(T* to, const T* from, int first, int count) {
  if (first <= 0 && count >= n) {
    store<n, written>(to, from);
    return;
  }
#pragma unroll
  for (int i = 0; i < n; ++i) {
    if (i >= first && i < count) store<1, written>(to + i, from + i);
  }
}

template <int n, Written written = Written::kept, class T>
__device__ __forceinline__ void store_tail(T* to, const T* from, int count) {
  store_part<n, written>(to, from, 0, count);
}

}  // namespace stitch
