#pragma once
// Order between launches of one stream: programmatic dependent launch (PTX ISA, griddepcontrol; compute
// capability 9.0).
//
// A kernel may be launched so that its blocks come to the SMs while its predecessor still runs, as soon as every block
// of that has let dependents go. Invariants, on which every such launch relies:
//   * A kernel waits (await_predecessor) before it touches any memory of the device, also where it has nothing to do.
//     Nothing is known here of which inputs are weights, so that nothing is loaded earlier; what overlaps is the launch
//     itself, the arithmetic of indices, and the setting up of shared memory.
//   * A wait ends when the predecessor has ended and what it wrote can be seen. So a kernel that waited has ended after
//     all that stood before it, and the next one need wait for nothing but it. A kernel that did not would break the
//     order of those behind it, not its own.
//   * Letting dependents go says nothing of memory: they wait for this kernel's end whenever it does so. It happens
//     after the wait, so that no more than two launches are on the device at a time.
// A kernel that was launched as usual finds nothing to wait for.

#include "stitch/types.cuh"

namespace stitch {

// Waits for what stands before this launch in its stream, and lets what stands behind it begin. Returns 0, which the
// compiler learns here only: what is added to a pointer keeps the loads behind it from being made before the wait. For
// the compiler, memory behind `const __restrict__` stays the same as long as the kernel runs, and no wait changes it.
// ptxas knows the number.
__device__ __forceinline__ s64 await_predecessor() {
#if __CUDA_ARCH__ >= 900
  s64 none;
  asm volatile(
      "griddepcontrol.wait;\n\t"
      "griddepcontrol.launch_dependents;\n\t"
      "mov.s64 %0, 0;"
      : "=l"(none)
      :
      : "memory");
  return none;
#else
  return 0;
#endif
}
// The same, and all that the kernel reaches memory by.
template <class... Pointers>
__device__ __forceinline__ void await_predecessor(Pointers&... pointers) {
  const s64 none = await_predecessor();
  ((pointers += none), ...);
}

}  // namespace stitch
