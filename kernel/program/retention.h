#pragma once

#include <vector>

#include "base/device_spec.h"
#include "kernel/program/program.h"

namespace stitch::kernel {

/// What a kernel's phases read again need not come from device memory again: blocks that stay resident over a grid
/// barrier keep shared memory over it too (persistent kernels: PERKS, Zhang et al., ICS 2023). Where a phase takes the
/// same tiles as an earlier one under the same mapping, each thread loads what it has loaded before, so that it can
/// leave that in shared memory for itself, with no further barrier: as many rounds of its block's walk as there is room
/// for, from the first, which L2 lost first (kernel/structure/walk_order.h).

/// Phases whose groups could take the mapping of phase `leader` to retain what it loads: later ones of one group that
/// load some large input alike. Empty: there is nothing to retain.
std::vector<std::size_t> followers(const KernelStructure& structure, std::size_t leader);

/// Shared memory that a block has left for retaining if as many of them stay resident on an SM as the kernel launches.
std::int64_t room_to_retain(const KernelProgram& kernel, const DeviceSpec& device);

/// Retains what fits into `bytes` a block (Schedule::retained): loads that most phases share first. The launch must be
/// decided. Leaves the kernel as it is if nothing can be retained.
void retain(KernelProgram& kernel, std::int64_t bytes);

}  // namespace stitch::kernel
