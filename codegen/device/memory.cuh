#pragma once
// Vector access to device memory: N elements at a time, at most 16 bytes per instruction. Pointers must be aligned to
// the access; the schedule proves it from a 16-byte aligned tensor base, and whoever launches checks the base.

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

// How a load may be cached: `streamed` data is an input that this kernel only reads; `shared_between_blocks` was
// written by another block of this kernel, so it must come from L2; `plain` is any other memory.
enum class Cached { streamed, shared_between_blocks, plain };

template <Cached cached, class W>
__device__ __forceinline__ W load_word(const W* from) {
  if constexpr (cached == Cached::streamed) {
    return __ldg(from);
  } else if constexpr (cached == Cached::shared_between_blocks) {
    return __ldcg(from);
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

// The first `count` of n elements (count may be anything); the others become zero.
template <int n, Cached cached = Cached::streamed, class T>
__device__ __forceinline__ void load_tail(T* to, const T* from, int count) {
  if (count >= n) {
    load<n, cached>(to, from);
    return;
  }
#pragma unroll
  for (int i = 0; i < n; ++i) {
    to[i] = T{};
    if (i < count) load<1, cached>(to + i, from + i);
  }
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

template <int n, class T>
__device__ __forceinline__ void store(T* to, const T* from) {
  *reinterpret_cast<typename Word<n * sizeof(T)>::type*>(to) = word_of<n>(from);
}

template <int n, class T>
__device__ __forceinline__ void store_tail(T* to, const T* from, int count) {
  if (count >= n) {
    store<n>(to, from);
    return;
  }
#pragma unroll
  for (int i = 0; i < n; ++i) {
    if (i < count) to[i] = from[i];
  }
}

}  // namespace stitch
