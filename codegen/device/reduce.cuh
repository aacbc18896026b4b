#pragma once
// Combining the threads of a warp, a block and a cluster. Orders are fixed, so results do not vary from run to run,
// except where a scatter adds atomically.

#include "stitch/math.cuh"
#include "stitch/memory.cuh"
#include "stitch/types.cuh"

namespace stitch {

// Signed integers wrap on the device; where C++ sees them overflow it takes comparisons of such sums for known.
struct Sum {
  template <class T>
  __device__ static __forceinline__ T combine(T x, T y) {
    return static_cast<T>(x + y);
  }
  __device__ static __forceinline__ s32 combine(s32 x, s32 y) {
    return static_cast<s32>(static_cast<u32>(x) + static_cast<u32>(y));
  }
  __device__ static __forceinline__ s64 combine(s64 x, s64 y) {
    return static_cast<s64>(static_cast<u64>(x) + static_cast<u64>(y));
  }
  // What changes nothing.
  template <class T>
  __device__ static __forceinline__ T identity() {
    return T(0);
  }
  // Into memory that other blocks combine into too: sums of floats depend on who comes first.
  template <class T>
  __device__ static __forceinline__ void combine_atomically(T* to, T x) {
    atomicAdd(to, x);
  }
  __device__ static __forceinline__ void combine_atomically(s64* to, s64 x) {
    atomicAdd(reinterpret_cast<u64*>(to), static_cast<u64>(x));
  }
};
struct Product {
  template <class T>
  __device__ static __forceinline__ T combine(T x, T y) {
    return static_cast<T>(x * y);
  }
  __device__ static __forceinline__ s32 combine(s32 x, s32 y) { return wrapping_product(x, y); }
  __device__ static __forceinline__ s64 combine(s64 x, s64 y) { return wrapping_product(x, y); }
};
// The greatest or the least. Of floats by integer atomics: of numbers with one sign the bits are ordered as the numbers
// are, those of negative ones the other way round. The NaN with all bits set (less the sign, for the greatest) is
// beyond all of them. What is in memory must have no other NaN: `filled`. The result does not depend on the order.
template <bool greatest>
struct Extreme {
  template <class T>
  __device__ static __forceinline__ T combine(T x, T y) {
    if constexpr (greatest) {
      return maximum(x, y);
    } else {
      return minimum(x, y);
    }
  }
  template <class T>
  __device__ static __forceinline__ void combine_atomically(T* to, T x) {
    extreme_of_integers<greatest>(to, x);
  }
  __device__ static __forceinline__ void combine_atomically(f32* to, f32 x) {
    combine_bits<s32, u32>(to, __float_as_int(filled(x)));
  }
  __device__ static __forceinline__ void combine_atomically(f64* to, f64 x) {
    combine_bits<s64, u64>(to, __double_as_longlong(filled(x)));
  }
  template <class T>
  __device__ static __forceinline__ T filled(T x) {
    return x;
  }
  template <class T>
  __device__ static __forceinline__ T identity() {
    if constexpr (T(0.5) != T(0)) {
      return T(greatest ? -__int_as_float(0x7f800000) : __int_as_float(0x7f800000));
    } else {
      const T lowest = T(-1) < T(0) ? T(1ull << (sizeof(T) * 8 - 1)) : T(0);
      return greatest ? lowest : T(~lowest);
    }
  }
  __device__ static __forceinline__ f32 filled(f32 x) {
    return x != x ? __int_as_float(greatest ? 0x7fffffff : -1) : x;
  }
  __device__ static __forceinline__ f64 filled(f64 x) {
    return x != x ? __longlong_as_double(greatest ? 0x7fffffffffffffffll : -1ll) : x;
  }

 private:
  template <bool of_greatest, class T>
  __device__ static __forceinline__ void extreme_of_integers(T* to, T x) {
    if constexpr (of_greatest) {
      atomicMax(to, x);
    } else {
      atomicMin(to, x);
    }
  }
  template <class Signed, class Unsigned, class T>
  __device__ static __forceinline__ void combine_bits(T* to, Signed bits) {
    if (bits >= 0) {
      extreme_of_integers<greatest>(reinterpret_cast<Signed*>(to), bits);
    } else {
      extreme_of_integers<!greatest>(reinterpret_cast<Unsigned*>(to), static_cast<Unsigned>(bits));
    }
  }
};
using Max = Extreme<true>;
using Min = Extreme<false>;
struct And {
  template <class T>
  __device__ static __forceinline__ T combine(T x, T y) {
    return static_cast<T>(x & y);
  }
};
struct Or {
  template <class T>
  __device__ static __forceinline__ T combine(T x, T y) {
    return static_cast<T>(x | y);
  }
};
struct Xor {
  template <class T>
  __device__ static __forceinline__ T combine(T x, T y) {
    return static_cast<T>(x ^ y);
  }
};

template <class Op, class T>
inline constexpr bool adds_f32 = false;
template <>
inline constexpr bool adds_f32<Sum, f32> = true;

// A run of values, each into its place: one request for 16 bytes of f32 sums from sm_90 on, as L2 takes them; elements
// of a run that warps add one by one are four times as many sectors. The run must be aligned to its size.
template <class Op, int count, class T>
__device__ __forceinline__ void combine_atomically(T* to, const T* values) {
#if __CUDA_ARCH__ >= 900
  if constexpr (adds_f32<Op, T> && count == 4) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(values[0]), "f"(values[1]),
                 "f"(values[2]), "f"(values[3])
                 : "memory");
    return;
  }
  if constexpr (adds_f32<Op, T> && count == 2) {
    asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(values[0]), "f"(values[1])
                 : "memory");
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < count; ++i) Op::combine_atomically(to + i, values[i]);
}

// The same into the block's own table in shared memory, which takes single elements, and that table's begin and end
// (kernel/program/private_table.h). Between these three the caller has barriers.
template <class Op, int count, class T>
__device__ __forceinline__ void combine_privately(T* to, const T* values) {
#pragma unroll
  for (int i = 0; i < count; ++i) Op::combine_atomically(to + i, values[i]);
}
template <class Op, int elements, class T>
__device__ __forceinline__ void clear_privately(T* table) {
  for (int i = static_cast<int>(threadIdx.x); i < elements; i += static_cast<int>(blockDim.x))
    table[i] = Op::template identity<T>();
}
// Blocks begin at different places, so that they do not all meet at the first; what none of a block's updates went to
// is left out.
template <class Op, int elements, class T>
__device__ __forceinline__ void combine_table(T* to, const T* table) {
  constexpr int width = elements % 4 == 0 ? 4 : 1;
  const int start = static_cast<int>(blockIdx.x * 32u % (elements / width));
  for (int i = static_cast<int>(threadIdx.x); i < elements / width; i += static_cast<int>(blockDim.x)) {
    const int place = (i + start < elements / width ? i + start : i + start - elements / width) * width;
    T values[width];
    bool any = false;
#pragma unroll
    for (int v = 0; v < width; ++v) {
      values[v] = table[place + v];
      any = any || values[v] != Op::template identity<T>();
    }
    if (any) combine_atomically<Op, width>(to + place, values);
  }
}

// A value and where it was found. NaN is the most extreme; among equals the first (or last) position wins.
template <class T>
struct Indexed {
  T value;
  s64 index;
};
template <bool maximum, bool last>
struct ArgExtreme {
  template <class T>
  __device__ static __forceinline__ Indexed<T> combine(Indexed<T> x, Indexed<T> y) {
    const bool x_nan = x.value != x.value, y_nan = y.value != y.value;
    const bool tie = (x_nan && y_nan) || x.value == y.value;
    const bool better = y_nan ? !x_nan : !x_nan && (maximum ? y.value > x.value : y.value < x.value);
    const bool later = last ? y.index > x.index : y.index < x.index;
    return better || (tie && later) ? y : x;
  }
};

// Of all lanes' numbers the lowest and the highest: an instruction from sm_80 on.
__device__ __forceinline__ int lowest_of_warp(int x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_min_sync(0xffffffffu, x);
#else
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x = min(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
#endif
}
__device__ __forceinline__ int highest_of_warp(int x) { return ~lowest_of_warp(~x); }

template <class T>
__device__ __forceinline__ T from_lane(T x, int distance) {
  return __shfl_xor_sync(0xffffffffu, x, distance);
}
__device__ __forceinline__ bool from_lane(bool x, int distance) {
  return __shfl_xor_sync(0xffffffffu, x ? 1 : 0, distance) != 0;
}
__device__ __forceinline__ s8 from_lane(s8 x, int distance) {
  return static_cast<s8>(__shfl_xor_sync(0xffffffffu, static_cast<int>(x), distance));
}
__device__ __forceinline__ u8 from_lane(u8 x, int distance) {
  return static_cast<u8>(__shfl_xor_sync(0xffffffffu, static_cast<int>(x), distance));
}
__device__ __forceinline__ s16 from_lane(s16 x, int distance) {
  return static_cast<s16>(__shfl_xor_sync(0xffffffffu, static_cast<int>(x), distance));
}
__device__ __forceinline__ u16 from_lane(u16 x, int distance) {
  return static_cast<u16>(__shfl_xor_sync(0xffffffffu, static_cast<int>(x), distance));
}
template <class T>
__device__ __forceinline__ Indexed<T> from_lane(Indexed<T> x, int distance) {
  return {from_lane(x.value, distance), from_lane(x.index, distance)};
}

// Butterfly over the lanes that differ in the given distances; every lane gets the result.
template <class Op, int... distances, class T>
__device__ __forceinline__ T reduce_lanes(T x) {
  ((x = Op::combine(x, from_lane(x, distances))), ...);
  return x;
}

// Combines `count` values that lie `stride` apart in shared memory, in order.
template <class Op, int count, int stride, class T>
__device__ __forceinline__ T reduce_shared(const T* values) {
  T total = values[0];
#pragma unroll
  for (int i = 1; i < count; ++i) total = Op::combine(total, values[i * stride]);
  return total;
}

#if __CUDA_ARCH__ >= 900
// A barrier in two halves. Arriving releases what was written before it, and waits for that: a block that has only
// read what others have in shared memory, and lets them go before its stores, does not wait for these.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_barrier() {
  cluster_arrive();
  cluster_wait();
}
// The place in another block's shared memory that `own` is here.
__device__ __forceinline__ u32 cluster_place(const void* own, int rank) {
  u32 remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared_address(own)), "r"(rank));
  return remote;
}
__device__ __forceinline__ u32 cluster_word(const void* own, int rank) {
  u32 word;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(word) : "r"(cluster_place(own, rank)) : "memory");
  return word;
}
template <class T>
__device__ __forceinline__ T cluster_value(const T* own, int rank) {
  static_assert(sizeof(T) % 4 == 0, "cluster values are whole words");
  union {
    u32 words[sizeof(T) / 4];
    T value;
  } bits;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i)
    bits.words[i] = cluster_word(reinterpret_cast<const u32*>(own) + i, rank);
  return bits.value;
}
// A truth value is a byte.
__device__ __forceinline__ bool cluster_value(const bool* own, int rank) {
  u32 byte;
  asm volatile("ld.shared::cluster.u8 %0, [%1];" : "=r"(byte) : "r"(cluster_place(own, rank)) : "memory");
  return byte != 0;
}
// Member by member: nobody writes what lies between them.
template <class T>
__device__ __forceinline__ Indexed<T> cluster_value(const Indexed<T>* own, int rank) {
  return {cluster_value(&own->value, rank), cluster_value(&own->index, rank)};
}
__device__ __forceinline__ void cluster_write(u32 place, u8 word) {
  asm volatile("st.shared::cluster.u8 [%0], %1;" ::"r"(place), "r"(static_cast<u32>(word)) : "memory");
}
__device__ __forceinline__ void cluster_write(u32 place, u16 word) {
  asm volatile("st.shared::cluster.u16 [%0], %1;" ::"r"(place), "h"(word) : "memory");
}
__device__ __forceinline__ void cluster_write(u32 place, u32 word) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(place), "r"(word) : "memory");
}
__device__ __forceinline__ void cluster_write(u32 place, uint2 word) {
  asm volatile("st.shared::cluster.v2.u32 [%0], {%1, %2};" ::"r"(place), "r"(word.x), "r"(word.y) : "memory");
}
__device__ __forceinline__ void cluster_write(u32 place, uint4 word) {
  asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(place), "r"(word.x), "r"(word.y), "r"(word.z),
               "r"(word.w)
               : "memory");
}
// Stores n elements in the shared memory of every block of the cluster, where `to` is in this one's.
template <int blocks, int n, class T>
__device__ __forceinline__ void store_in_cluster(T* to, const T* from) {
  const auto word = word_of<n>(from);
#pragma unroll
  for (int rank = 0; rank < blocks; ++rank) cluster_write(cluster_place(to, rank), word);
}
// The first `count` of them (count may be anything).
template <int blocks, int n, class T>
__device__ __forceinline__ void store_tail_in_cluster(T* to, const T* from, int count) {
  if (count >= n) {
    store_in_cluster<blocks, n>(to, from);
    return;
  }
#pragma unroll
  for (int i = 0; i < n; ++i) {
    if (i < count) store_in_cluster<blocks, 1>(to + i, from + i);
  }
}
// Combines what the blocks of a cluster keep at `own`, in rank order.
template <class Op, int blocks, class T>
__device__ __forceinline__ T reduce_cluster(const T* own) {
  T total = cluster_value(own, 0);
#pragma unroll
  for (int rank = 1; rank < blocks; ++rank) total = Op::combine(total, cluster_value(own, rank));
  return total;
}
#endif

}  // namespace stitch
