#pragma once
// What the rows of a product are combined to before its results leave: means and variances of a norm, a softmax's
// greatest. The lanes of a warp, warps beside one another and the blocks of a cluster have a part of each row, and
// combine them in this order. Rows and columns are those of the block's tile.

#include "stitch/contraction.cuh"

namespace stitch {

// Replaces the lane's sums, `run` neighbours of a row at a time: `each(row, column, behind, sums)`, of which the first
// is so far behind the lane's first column. That is a constant, and addresses differ by it.
template <int run, class Cores, class Each>
__device__ __forceinline__ void replace_results(Cores& cores, int warp_row, int warp_column, const Each& each) {
  static_assert(Cores::row_run % run == 0, "neighbours of one row");
#pragma unroll
  for (int s = 0; s < Cores::strips; ++s) {
#pragma unroll
    for (int i = 0; i < Cores::strip_results; i += run) {
      f32 sums[run];
#pragma unroll
      for (int v = 0; v < run; ++v) sums[v] = cores.result(s, i + v);
      each(warp_row + s * Cores::strip_step + Cores::row_of(i), warp_column + Cores::column_of(0),
           Cores::columns_behind(i), sums);
#pragma unroll
      for (int v = 0; v < run; ++v) cores.result(s, i + v) = sums[v];
    }
  }
}

// What a warp's columns of each of its rows are combined to, by `value(row, column, sum)`: number `number` of `across`
// that lie behind one another for a row.
template <class Op, int across, class Cores, class Value>
__device__ __forceinline__ void leave_row_parts(Cores& cores, f32* parts, int warp_row, int warp_column, int number,
                                                f32 identity, const Value& value) {
  f32 own[Cores::own_rows];
#pragma unroll
  for (int r = 0; r < Cores::own_rows; ++r) own[r] = identity;
#pragma unroll
  for (int s = 0; s < Cores::strips; ++s) {
#pragma unroll
    for (int i = 0; i < Cores::strip_results; ++i) {
      const int r = Cores::own_row(s, i);
      own[r] = Op::combine(own[r], value(warp_row + s * Cores::strip_step + Cores::row_of(i),
                                         warp_column + Cores::column_of(i), cores.result(s, i)));
    }
  }
#pragma unroll
  for (int r = 0; r < Cores::own_rows; ++r) {
#pragma unroll
    for (int lanes = 1; lanes < Cores::row_lanes; lanes *= 2) own[r] = Op::combine(own[r], from_lane(own[r], lanes));
    if (static_cast<int>(threadIdx.x) % Cores::row_lanes == 0)
      parts[(warp_row + Cores::place_of_own_row(r)) * across + number] = own[r];
  }
}

// Of each row `count` parts as one, every `step` values.
template <class Op, int count, int rows, int threads, int step>
__device__ __forceinline__ void combine_row_parts(const f32* parts, f32* totals) {
  for (int row = static_cast<int>(threadIdx.x); row < rows; row += threads)
    totals[row * step] = reduce_shared<Op, count, 1>(parts + row * count);
}

// Of each row one of `step` values that later steps combine. A compiler may load it with its neighbours before that.
template <int rows, int threads, int step>
__device__ __forceinline__ void clear_row_totals(f32* totals) {
  for (int row = static_cast<int>(threadIdx.x); row < rows; row += threads) totals[row * step] = 0;
}

#if __CUDA_ARCH__ >= 900
// The block's part of each row, for all blocks of the cluster: number `rank` of `blocks` that lie behind one another.
template <class Op, int across, int blocks, int rows, int threads>
__device__ __forceinline__ void share_row_parts(const f32* parts, f32* shares, int rank) {
  for (int row = static_cast<int>(threadIdx.x); row < rows; row += threads) {
    const f32 part = reduce_shared<Op, across, 1>(parts + row * across);
    store_in_cluster<blocks, 1>(shares + row * blocks + rank, &part);
  }
}

// Where blocks stay for several tiles, warps that multiply meet those of the other blocks at barriers in shared memory,
// and the warp that asks for tiles at none. `count` barriers, at which so many warps arrive each time.
template <int count, int arrivals>
__device__ __forceinline__ void begin_row_barriers(u64* barriers) {
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barriers + i)), "n"(arrivals)
                 : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// A warp has left its parts with all blocks.
template <int blocks>
__device__ __forceinline__ void tell_of_row_parts(const u64* barrier) {
  __syncwarp();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < blocks)
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_place(barrier, lane))
                 : "memory");
}
__device__ __forceinline__ void await_row_parts(const u64* barrier, u32 phase) {
  asm volatile(
      "{\n\t.reg .pred done;\nagain:\n\t"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n\t@done bra there;\n\tbra again;\n"
      "there:\n\t}" ::"r"(shared_address(barrier)),
      "r"(phase)
      : "memory");
}
#endif

// A barrier of the block's first `threads` threads.
template <int threads>
__device__ __forceinline__ void barrier_of_first() {
  asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory");
}

}  // namespace stitch
