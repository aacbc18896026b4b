#pragma once
// Registers that hold small elements as they lie in memory, several in a word: ptxas gives a 16- or 8-bit variable a
// register of its own, so that an array of them would take two or four times what is counted for it.

#include "stitch/types.cuh"

namespace stitch {

// One element of a Packed array, to be read and written like it.
template <class T>
struct PackedElement {
  u32& word;
  int shift;

  __device__ __forceinline__ operator T() const {
    using Bits = decltype(T::bits);
    return T{static_cast<Bits>(word >> shift)};
  }
  __device__ __forceinline__ PackedElement& operator=(T x) {
    const u32 mask = (1u << 8 * sizeof(T)) - 1;
    word = (word & ~(mask << shift)) | (static_cast<u32>(x.bits) << shift);
    return *this;
  }
  __device__ __forceinline__ PackedElement& operator=(const PackedElement& x) { return *this = static_cast<T>(x); }
};

// What begins at an element of a Packed array that is at the start of a word; for load and store.
template <class T>
struct PackedRun {
  u32* words;
};

// n elements of 1 or 2 bytes in whole words. Indices have to be known when the loops are unrolled.
template <class T, int n>
struct Packed {
  static constexpr int per_word = 4 / sizeof(T);
  static_assert(sizeof(T) <= 2 && n % per_word == 0, "small elements in whole words");
  u32 words[n / per_word];

  __device__ __forceinline__ PackedElement<T> operator[](int i) {
    return {words[i / per_word], 8 * static_cast<int>(sizeof(T)) * (i % per_word)};
  }
  __device__ __forceinline__ PackedRun<T> operator+(int i) { return {words + i / per_word}; }
};

}  // namespace stitch
