#pragma once
// Order between the blocks of one launch. Counters are zero before the first launch and are left ready for the next, so
// that a kernel can be launched again without a memset.

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

// Waits for all `blocks`; what each wrote before is visible to all after. The blocks must be resident together
// (cooperative launch). counter[0] counts arrivals, counter[1] generations.
__device__ __forceinline__ void grid_barrier(u32* counter, u32 blocks) {
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 generation, ticket;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(generation) : "l"(counter + 1) : "memory");
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(ticket) : "l"(counter) : "memory");
    if (ticket + 1 == blocks) {
      asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(counter) : "memory");
      asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(counter + 1), "r"(generation + 1) : "memory");
    } else {
      u32 now;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter + 1) : "memory");
      } while (now == generation);
    }
  }
  __syncthreads();
}

}  // namespace stitch
