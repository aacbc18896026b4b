// What generated kernels are made of: the device headers of codegen/device.
#include "stitch/kernel.cuh"
using namespace stitch;
#define KERNEL extern "C" __global__ void

// Reductions over a block of 128 threads, by lanes and then through shared memory; every thread gets the result.
template <class Op, class T, class S>
__device__ __forceinline__ void block_reduction(S* y, const S* x) {
  __shared__ T partial[4];
  T v = widen(x[blockIdx.x * 128 + threadIdx.x]);
  v = reduce_lanes<Op, 16, 8, 4, 2, 1>(v);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  y[blockIdx.x * 128 + threadIdx.x] = narrow<S>(reduce_shared<Op, 4, 1>(partial));
}
KERNEL sum_f32(f32* y, const f32* x) { block_reduction<Sum, f32>(y, x); }
KERNEL sum_f64(f64* y, const f64* x) { block_reduction<Sum, f64>(y, x); }
KERNEL sum_bf16(bf16* y, const bf16* x) { block_reduction<Sum, f32>(y, x); }
KERNEL max_f32(f32* y, const f32* x) { block_reduction<Max, f32>(y, x); }
KERNEL min_f64(f64* y, const f64* x) { block_reduction<Min, f64>(y, x); }
KERNEL product_f16(f16* y, const f16* x) { block_reduction<Product, f32>(y, x); }
KERNEL sum_s32(s32* y, const s32* x) { block_reduction<Sum, s32>(y, x); }
KERNEL max_u8(u8* y, const u8* x) { block_reduction<Max, u8>(y, x); }
KERNEL min_s16(s16* y, const s16* x) { block_reduction<Min, s16>(y, x); }
KERNEL xor_s64(s64* y, const s64* x) { block_reduction<Xor, s64>(y, x); }
KERNEL and_pred(pred* y, const pred* x) { block_reduction<And, bool>(y, x); }

// The position of the largest value of a row of 128.
KERNEL argmax(s64* y, const f32* x) {
  __shared__ Indexed<f32> partial[4];
  Indexed<f32> v{x[blockIdx.x * 128 + threadIdx.x], static_cast<s64>(threadIdx.x)};
  v = reduce_lanes<ArgExtreme<true, false>, 16, 8, 4, 2, 1>(v);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = reduce_shared<ArgExtreme<true, false>, 4, 1>(partial).index;
}

// Vectors of every width, with a tail.
template <int n, class T>
__device__ __forceinline__ void copy(T* y, const T* x, int count) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * n;
  if (first >= count) return;
  T v[n];
  load_tail<n>(v, x + first, count - first);
  store_tail<n>(y + first, v, count - first);
}
KERNEL copy_u8x16(u8* y, const u8* x, int n) { copy<16>(y, x, n); }
KERNEL copy_bf16x8(bf16* y, const bf16* x, int n) { copy<8>(y, x, n); }
KERNEL copy_f16x2(f16* y, const f16* x, int n) { copy<2>(y, x, n); }
KERNEL copy_f32x4(f32* y, const f32* x, int n) { copy<4>(y, x, n); }
KERNEL copy_f64x2(f64* y, const f64* x, int n) { copy<2>(y, x, n); }

// The sum of everything by the block that arrives last, in the order of the blocks.
KERNEL last_block_sum(f32* y, const f32* x, f32* partials, u32* counter) {
  __shared__ f32 partial[4];
  f32 v = reduce_lanes<Sum, 16, 8, 4, 2, 1>(x[blockIdx.x * 128 + threadIdx.x]);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) partials[blockIdx.x] = reduce_shared<Sum, 4, 1>(partial);
  if (!arrives_last(counter, gridDim.x)) return;
  if (threadIdx.x != 0) return;
  f32 total = 0;
  for (u32 b = 0; b < gridDim.x; ++b) total += load_one<Cached::shared_between_blocks>(partials + b);
  *y = total;
}
// The same, and every block divides its part by it: a barrier of the grid.
KERNEL grid_share(f32* y, const f32* x, f32* partials, u32* counter) {
  __shared__ f32 partial[4];
  const f32 mine = x[blockIdx.x * 128 + threadIdx.x];
  const f32 v = reduce_lanes<Sum, 16, 8, 4, 2, 1>(mine);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) partials[blockIdx.x] = reduce_shared<Sum, 4, 1>(partial);
  grid_barrier(counter, gridDim.x);
  f32 total = 0;
  for (u32 b = 0; b < gridDim.x; ++b) total += load_one<Cached::shared_between_blocks>(partials + b);
  y[blockIdx.x * 128 + threadIdx.x] = mine / total;
  grid_barrier(counter, gridDim.x);
}
// The same in clusters, of which one block arrives for all.
KERNEL __cluster_dims__(4, 1, 1) grid_share_clusters(f32* y, const f32* x, f32* partials, u32* counter) {
  __shared__ f32 partial[4];
  const f32 mine = x[blockIdx.x * 128 + threadIdx.x];
  const f32 v = reduce_lanes<Sum, 16, 8, 4, 2, 1>(mine);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) partials[blockIdx.x] = reduce_shared<Sum, 4, 1>(partial);
  grid_barrier<4>(counter, gridDim.x);
  f32 total = 0;
  for (u32 b = 0; b < gridDim.x; ++b) total += load_one<Cached::shared_between_blocks>(partials + b);
  y[blockIdx.x * 128 + threadIdx.x] = mine / total;
  grid_barrier<4>(counter, gridDim.x);
}
// The same with one block adding up while the others wait.
KERNEL gated_share(f32* y, const f32* x, f32* partials, u32* counter) {
  __shared__ f32 partial[4];
  const f32 mine = x[blockIdx.x * 128 + threadIdx.x];
  const f32 v = reduce_lanes<Sum, 16, 8, 4, 2, 1>(mine);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) partials[blockIdx.x] = reduce_shared<Sum, 4, 1>(partial);
  if (arrives_last_at_gate(counter, gridDim.x)) {
    if (threadIdx.x == 0) {
      f32 total = 0;
      for (u32 b = 0; b < gridDim.x; ++b) total += load_one<Cached::shared_between_blocks>(partials + b);
      partials[gridDim.x] = total;
    }
    open_gate(counter);
  }
  y[blockIdx.x * 128 + threadIdx.x] = mine / load_one<Cached::shared_between_blocks>(partials + gridDim.x);
}
KERNEL __cluster_dims__(4, 1, 1) cluster_sum(f32* y, const f32* x) {
  __shared__ f32 partial[4];
  __shared__ f32 own;
  const f32 v = reduce_lanes<Sum, 16, 8, 4, 2, 1>(x[blockIdx.x * 128 + threadIdx.x]);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) own = reduce_shared<Sum, 4, 1>(partial);
  cluster_barrier();
  y[blockIdx.x * 128 + threadIdx.x] = reduce_cluster<Sum, 4>(&own);
  cluster_barrier();
}

#define UNARY(NAME, FROM, TO, EXPRESSION)               \
  KERNEL NAME(TO* y, const FROM* x, int n) {            \
    const int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i >= n) return;                                 \
    const auto a = widen(x[i]);                         \
    y[i] = narrow<TO>(EXPRESSION);                      \
  }
#define BINARY(NAME, T, EXPRESSION)                          \
  KERNEL NAME(T* y, const T* x, const T* z, int n) {         \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;     \
    if (i >= n) return;                                      \
    const auto a = widen(x[i]);                              \
    const auto b = widen(z[i]);                              \
    y[i] = narrow<T>(EXPRESSION);                            \
  }
UNARY(exponential_f32, f32, f32, exponential(a))
UNARY(logistic_f32, f32, f32, logistic(a))
UNARY(logistic_f64, f64, f64, logistic(a))
UNARY(sign_f32, f32, f32, sign_float(a))
UNARY(round_f32, f32, f32, round_away(a))
UNARY(f32_to_f16, f32, f16, a)
UNARY(f32_to_bf16, f32, bf16, a)
UNARY(f32_to_f8e4m3, f32, f8e4m3, a)
UNARY(f32_to_f8e5m2, f32, f8e5m2, a)
UNARY(f16_to_f32, f16, f32, a)
UNARY(bf16_to_f32, bf16, f32, a)
UNARY(f8e4m3_to_f32, f8e4m3, f32, a)
UNARY(f8e5m2_to_f32, f8e5m2, f32, a)
UNARY(f32_to_s8, f32, s8, convert<s8>(a))
UNARY(f32_to_u16, f32, u16, convert<u16>(a))
UNARY(f32_to_s32, f32, s32, convert<s32>(a))
UNARY(f32_to_u32, f32, u32, convert<u32>(a))
UNARY(f64_to_s64, f64, s64, convert<s64>(a))
UNARY(f64_to_u64, f64, u64, convert<u64>(a))
UNARY(f32_to_pred, f32, pred, convert<bool>(a))
UNARY(bits_of_f64, f64, s64, bitcast<s64>(a))
BINARY(maximum_f32, f32, maximum(a, b))
BINARY(minimum_f64, f64, minimum(a, b))
BINARY(power_f32, f32, power(a, b))
BINARY(power_f64, f64, power(a, b))
BINARY(power_s32, s32, power(a, b))
BINARY(divide_s8, s8, divide_integer(a, b))
BINARY(divide_u32, u32, divide_integer(a, b))
BINARY(divide_s64, s64, divide_integer(a, b))
BINARY(remainder_s32, s32, remainder_integer(a, b))
BINARY(remainder_u64, u64, remainder_integer(a, b))
BINARY(shift_left_s16, s16, shift_left(a, b))
BINARY(shift_right_u32, u32, shift_right_logical(a, b))
BINARY(shift_right_s64, s64, shift_right_arithmetic(a, b))
BINARY(threefry, u32, threefry2x32(a, b, 5u, 9u).first ^ threefry2x32(a, b, 5u, 9u).second)
