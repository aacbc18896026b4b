#pragma once
// Stages in shared memory that a warp has filled by bulk copies (cp.async.bulk, PTX ISA; sm_90): its first lane asks
// for whole runs, whose bytes a barrier for each of the warp's stages counts, and all of its lanes wait for them. What
// a warp has asked for it alone reads, so that warps do not wait for one another.

#include "stitch/mbarrier.cuh"

namespace stitch {

// Barriers of `stages` stages, `warps` in each.
template <int stages, int warps>
struct BulkStages {
  u32 barriers;  // the warp's of the first stage

  __device__ __forceinline__ explicit BulkStages(const unsigned char* place)
      : barriers(shared_address(place) + threadIdx.x / 32 * 8) {}
  __device__ static __forceinline__ bool asks() { return threadIdx.x % 32 == 0; }
  __device__ __forceinline__ u32 of_stage(int stage) const { return barriers + static_cast<u32>(stage) * (warps * 8); }

  // Whatever was written to the stages by instructions stays before what the copy engine writes.
  __device__ __forceinline__ void begin() const {
    if (asks()) {
#pragma unroll
      for (int s = 0; s < stages; ++s)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(of_stage(s)) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
  }
  // All turns have been waited for: the place may be used for something else.
  __device__ __forceinline__ void end() const {
    __syncwarp();
    if (asks()) {
#pragma unroll
      for (int s = 0; s < stages; ++s)
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(of_stage(s)) : "memory");
    }
  }

  // Of the lane that asks: `bytes` bytes, a multiple of 16, between places that are multiples of 16. The stage is there
  // when what was asked for is, and `all_asked` has been said.
  template <int bytes>
  __device__ __forceinline__ void copy(int stage, void* to, const void* from) const {
    const u32 barrier = of_stage(stage);
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "n"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "n"(bytes), "r"(barrier)
                 : "memory");
  }
  __device__ __forceinline__ void all_asked(int stage) const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(of_stage(stage)) : "memory");
  }
  // The stage's bytes of this turn are there, the `use`th that it is used for.
  __device__ __forceinline__ void await_bytes(int stage, int use) const {
    await_phase(of_stage(stage), static_cast<u32>(use) & 1);
  }
  // All lanes have read what the turn before has used: its stage may be filled again.
  __device__ __forceinline__ void await_readers() const { __syncwarp(); }
};

}  // namespace stitch
