#pragma once

#include <cstdint>
#include <vector>

#include "codegen/kernel.h"
#include "graph/graph.h"
#include "search/program.h"

namespace stitch::profiler {

/// Work of a kernel, in scalar operations: elements × items over all groups. What bounds a verification's cost.
std::int64_t kernel_work(const search::KernelProgram& program);

/// Blocks to run so that their work stays near `budget`; empty: all. First and last block of every group (which hold
/// the tails) are always among them, the rest is drawn by `seed`. A kernel whose blocks hand results to one another
/// (scratch memory) runs whole.
std::vector<std::uint64_t> sample_blocks(const search::KernelProgram& program, const codegen::GeneratedKernel& kernel,
                                         std::int64_t budget, std::uint64_t seed);

}  // namespace stitch::profiler
