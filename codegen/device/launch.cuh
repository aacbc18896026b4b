#pragma once
// Order between launches of one stream: programmatic dependent launch (PTX ISA, griddepcontrol; compute
// capability 9.0).
//
// A kernel may be launched so that its blocks come to the SMs while its predecessor still runs, as soon as every block
// of that has let dependents go. Invariants, on which every such launch relies:
//   * A kernel waits (await_predecessor) before it touches any memory of the device, also where it has nothing to do,
//     but for loads of what is *unwaited* (below). What overlaps is these, the launch itself, the arithmetic of
//     indices, and the setting up of shared memory.
//   * A wait ends when the predecessor has ended and what it wrote can be seen. So a kernel that waited has ended after
//     all that stood before it, and the next one need wait for nothing but it. A kernel that did not would break the
//     order of those behind it, not its own.
//   * Letting dependents go says nothing of memory: they wait for this kernel's end whenever it does so. It happens
//     after the wait, so that no more than two launches are on the device at a time.
// A kernel that was launched as usual finds nothing to wait for.
//
// Unwaited loads. Let the kernels of a plan be K0, K1, … in one stream, and kernel Kn begin early, n > 0. It begins
// when every block of Kn-1 has let dependents go or has ended: by the third invariant when all of them have waited. So
// all that stands before Kn-1 has ended by then, whichever of it let its own dependents go early, and what it wrote is
// in L2: only Kn-1 may still be writing. An input of the plan that no kernel of the plan writes is written by what
// stands before K0 at the latest: by the kernel of another plan that K0 has waited for, or by what K0, launched as
// usual, began after. Kn may load it before it waits. Three things do not follow:
//   * Of K0 nothing is unwaited: the launch before it may be another plan's last kernel, this plan's in the run before
//     among them, and that may write just what K0 reads.
//   * What other kernels of the plan have computed is waited for. What Kn-2 wrote has ended, too, but its place in the
//     workspace may be another value's in Kn-1.
//   * That what has ended is in L2 does not mean that no L1 has something older: what makes an SM forget that is its
//     wait, or a launch as usual. So these loads pass by L1 (Cached::unwaited), which also tells them apart in machine
//     code.
// A parameter of which a result is an update may lie where the result does, which kernels write: it is waited for. A
// result that is written where a parameter lies, because nobody reads that afterwards (KernelLaunch's pairs in place),
// is written by the last kernel that reads it or by one behind: those have waited for every reader before them.

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
