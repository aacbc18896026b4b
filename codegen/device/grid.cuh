#pragma once
// Order between the blocks of one launch. Counters are zero before the first launch and are left ready for the next, so
// that a kernel can be launched again without a memset.

#include "stitch/reduce.cuh"
#include "stitch/types.cuh"

namespace stitch {

// True in every thread of the block that arrives last of `blocks`; everything that the other blocks wrote before is
// then visible to it. Leaves the counter at zero.
__device__ __forceinline__ bool arrives_last(u32* counter, u32 blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 ticket;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(ticket) : "l"(counter) : "memory");
    last = ticket + 1 == blocks;
    if (last) *counter = 0;
  }
  __syncthreads();
  return last;
}

// Looks at a word until its uppermost bit is another one than in `before`, less often the longer it takes: everybody
// who waits asks the same slice of L2, which others still arrive at. A look takes about 700 cycles by itself (H100), so
// that the pauses (guesses: 20 to 160 ns) begin small beside that.
__device__ __forceinline__ void wait_for_other_side(const u32* word, u32 before) {
  u32 now;
  for (u32 pause = 20;;) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
    if (((before ^ now) & 0x80000000u) != 0) return;
    asm volatile("nanosleep.u32 %0;" ::"r"(pause));
    if (pause < 160) pause *= 2;
  }
}

// A barrier of the threads of a cluster, or of a block alone; before sm_90 there is no other.
template <int cluster>
__device__ __forceinline__ void cluster_or_block_barrier() {
#if __CUDA_ARCH__ >= 900
  if constexpr (cluster > 1) {
    __syncwarp();
    cluster_barrier();
    return;
  }
#endif
  __syncthreads();
}

// Waits for all `blocks`; what each wrote before is visible to all after. The blocks must be resident together
// (cooperative launch). All arrivals together add 2^31: the uppermost bit changes with the last one, whichever that is,
// and the others are zero again. So nobody has to be told by another store (as CUDA's cooperative groups do it).
// Of a cluster one block arrives, and waits, for all: the others are told by the cluster's barrier, which hands on what
// was released and acquired for the whole device (PTX ISA, causality order).
template <int cluster = 1>
__device__ __forceinline__ void grid_barrier(u32* counter, u32 blocks) {
  constexpr u32 round = 0x80000000u;
  cluster_or_block_barrier<cluster>();
  if (threadIdx.x == 0 && (cluster == 1 || blockIdx.x % cluster == 0)) {
    const u32 amount = blockIdx.x == 0 ? round - (blocks / cluster - 1) : 1;
    u32 before;
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(amount) : "memory");
    wait_for_other_side(counter, before);
  }
  cluster_or_block_barrier<cluster>();
}

// Lets the block that arrives last of `blocks` through, with true in every thread; the others wait until it opens the
// gate. What each wrote before is visible to that one, and what that one wrote to all after. The blocks must be
// resident together (cooperative launch). Arrivals are counted in the lower bits; the uppermost one says which side is
// open.
__device__ __forceinline__ bool arrives_last_at_gate(u32* gate, u32 blocks) {
  constexpr u32 side = 0x80000000u;
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(gate) : "memory");
    last = (before & ~side) + 1 == blocks;
    if (!last) wait_for_other_side(gate, before);
  }
  __syncthreads();
  return last;
}

// Of the block that the gate has let through. Leaves the count at zero.
__device__ __forceinline__ void open_gate(u32* gate) {
  constexpr u32 side = 0x80000000u;
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 now;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(gate) : "memory");
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(gate), "r"((now & side) ^ side) : "memory");
  }
  __syncthreads();
}

}  // namespace stitch
