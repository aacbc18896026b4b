#pragma once
// Barriers in shared memory that count arrivals and bytes (mbarrier, PTX ISA; sm_90).

#include "stitch/memory.cuh"

namespace stitch {

// Waits until the phase of this parity is over.
__device__ __forceinline__ void await_phase(u32 barrier, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred done;\nagain:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t@done bra there;\n\tbra again;\nthere:\n\t}" ::"r"(
          barrier),
      "r"(parity)
      : "memory");
}
// Arrives, and has the phase wait for so many bytes besides.
__device__ __forceinline__ void arrive_expecting(u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

}  // namespace stitch
