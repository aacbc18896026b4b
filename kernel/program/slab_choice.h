#pragma once

#include <vector>

#include "base/device_spec.h"
#include "base/result.h"
#include "kernel/index/axes.h"
#include "kernel/program/program.h"
#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// Where all phases of a kernel keep an axis (a batch norm's channels), what one phase does with a part of it matters
/// to no other part. So all phases can be run on a slab of it that fits on chip, then on the next: each is read once,
/// for a barrier of the grid more between any two phases of every slab. (Blocking of loops over a cache, with the SMs'
/// shared memory as the cache: what does not change is kept by kernel/program/retention.h.)

/// Whether all phases of a kernel keep some axis: without one it has no slabs.
bool keeps_an_axis(const KernelProgram& kernel);

/// Bytes of a slab that lie side by side in the memory of `slabs.value`.
std::int64_t slab_run_bytes(const graph::Graph& graph, const Slabs& slabs);

/// Per result of the kernel: elements from a slab's part to the next one's. 0: slabs have no parts of their own in it,
/// or not all of them is stored.
std::vector<std::int64_t> slab_steps(const KernelProgram& kernel, std::size_t results);

/// Slabs that would have a kernel read less: of the axes that all its phases keep, in as many parts as it takes for
/// what it reads in several phases to stay on chip, all of it or the largest tensor, and in the next fewer and more.
/// Empty where it has one phase, or reads nothing again that would not fit as it is.
std::vector<Slabs> slab_options(const graph::Graph& graph, const KernelProgram& kernel, const DeviceSpec& device);

}  // namespace stitch::kernel
