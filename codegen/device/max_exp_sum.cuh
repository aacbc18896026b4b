#pragma once
// The maximum of a row and the sum of exponentials relative to it as one reduction (Milakov and Gimelshein 2018,
// "Online normalizer calculation for softmax", algorithm 3): a sum relative to a smaller maximum is multiplied by
// exp(smaller − greater) before it is added.

#include "stitch/reduce.cuh"

namespace stitch {

// Of elements x the greatest, and Σ exp(x − maximum). Of nothing, or of −∞ alone, it is {−∞, 0}. Where some element is
// NaN or +∞ the sum may be anything that complete_sum makes NaN.
template <class T>
struct alignas(2 * sizeof(T)) MaxExpSum {
  T maximum, sum;
};

// What exponents are taken relative to: the maximum, or 0 where it is −∞, relative to which nothing is −∞ − −∞.
template <class T>
__device__ __forceinline__ T exponent_base(T greatest) {
  return greatest == -static_cast<T>(__int_as_float(0x7f800000)) ? T(0) : greatest;
}

// Adds one element: of exp(x − m) and exp(m − x) one is 1.
template <class T>
__device__ __forceinline__ void add_exponential(MaxExpSum<T>& to, T x) {
  const T greatest = maximum(to.maximum, x);
  const T other = exponential(minimum(to.maximum, x) - exponent_base(greatest));
  to.sum = x > to.maximum ? to.sum * other + T(1) : to.sum + other;
  to.maximum = greatest;
}

// Adds n elements, relative to a maximum that moves once for all of them.
template <int n, class T>
__device__ __forceinline__ void add_exponentials(MaxExpSum<T>& to, const T (&x)[n]) {
  T greatest = x[0];
#pragma unroll
  for (int i = 1; i < n; ++i) greatest = maximum(greatest, x[i]);
  greatest = maximum(to.maximum, greatest);
  const T base = exponent_base(greatest);
  T sum = exponential(x[0] - base);
#pragma unroll
  for (int i = 1; i < n; ++i) sum += exponential(x[i] - base);
  to.sum = to.sum * exponential(to.maximum - base) + sum;
  to.maximum = greatest;
}

// The sum of a complete row: of one whose maximum is infinite or NaN it is NaN, as ∞ − ∞ is.
template <class T>
__device__ __forceinline__ T complete_sum(const MaxExpSum<T>& x) {
  return x.sum + (x.maximum - x.maximum);
}

// Its sum relative to another base.
template <class T>
__device__ __forceinline__ T rescaled_sum(const MaxExpSum<T>& x, T base) {
  return x.sum * exponential(x.maximum - base);
}

struct MaxAndExpSum {
  template <class T>
  __device__ static __forceinline__ MaxExpSum<T> combine(const MaxExpSum<T>& x, const MaxExpSum<T>& y) {
    const T greatest = maximum(x.maximum, y.maximum), base = exponent_base(greatest);
    return {greatest, rescaled_sum(x, base) + rescaled_sum(y, base)};
  }
};

// Several are combined by their maxima first, so that each is rescaled once.
template <class Op, int... distances, class T>
__device__ __forceinline__ MaxExpSum<T> reduce_lanes(MaxExpSum<T> x) {
  const T greatest = reduce_lanes<Max, distances...>(x.maximum);
  return {greatest, reduce_lanes<Sum, distances...>(rescaled_sum(x, exponent_base(greatest)))};
}

template <class Op, int count, int stride, class T>
__device__ __forceinline__ MaxExpSum<T> reduce_shared(const MaxExpSum<T>* values) {
  T greatest = values[0].maximum;
#pragma unroll
  for (int i = 1; i < count; ++i) greatest = maximum(greatest, values[i * stride].maximum);
  const T base = exponent_base(greatest);
  T sum = rescaled_sum(values[0], base);
#pragma unroll
  for (int i = 1; i < count; ++i) sum += rescaled_sum(values[i * stride], base);
  return {greatest, sum};
}

// Butterfly over `count` lanes next to one another, a power of two: every lane gets the result.
template <class Op, int count, class T>
__device__ __forceinline__ MaxExpSum<T> reduce_neighbours(MaxExpSum<T> x) {
  T greatest = x.maximum;
#pragma unroll
  for (int distance = count / 2; distance > 0; distance /= 2)
    greatest = maximum(greatest, from_lane(greatest, distance));
  T sum = rescaled_sum(x, exponent_base(greatest));
#pragma unroll
  for (int distance = count / 2; distance > 0; distance /= 2) sum += from_lane(sum, distance);
  return {greatest, sum};
}

// Combines `count` values next to one another in shared memory, of which a lane reads one.
template <class Op, int count, class T>
__device__ __forceinline__ MaxExpSum<T> reduce_shared_by_lanes(const MaxExpSum<T>* values) {
  return reduce_neighbours<Op, count>(values[threadIdx.x % count]);
}

#if __CUDA_ARCH__ >= 900
// Combines what the blocks of a cluster keep at `own`, in rank order.
template <class Op, int blocks, class T>
__device__ __forceinline__ MaxExpSum<T> reduce_cluster(const MaxExpSum<T>* own) {
  MaxExpSum<T> values[blocks];
#pragma unroll
  for (int rank = 0; rank < blocks; ++rank) values[rank] = cluster_value(own, rank);
  return reduce_shared<Op, blocks, 1>(values);
}

// Combines what the blocks of a cluster keep at `own`; a lane reads what one of them keeps.
template <class Op, int blocks, class T>
__device__ __forceinline__ MaxExpSum<T> reduce_cluster_by_lanes(const MaxExpSum<T>* own) {
  return reduce_neighbours<Op, blocks>(cluster_value(own, static_cast<int>(threadIdx.x % blocks)));
}
#endif

}  // namespace stitch
