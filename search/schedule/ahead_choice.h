#pragma once

#include <functional>
#include <optional>

#include "kernel/program/program.h"

namespace stitch::search {

/// Whether with_loads_ahead would look at any group of the kernel.
bool has_loops(const kernel::KernelProgram& kernel);

/// The kernel with the loads of its groups' loops turns ahead (GroupMapping::stages, kernel/program/loads_ahead.h): of
/// every group of which that makes `predict_us` less by more than a hundredth of the whole, one after the other. The
/// next turn's in registers are tried first, then two to four stages of shared memory, by copies of threads and by bulk
/// copies of warps, each of which has to be better by as much than the best before it. None where it makes no group so
/// much faster: below that the registers and the shared memory that it takes are worth more than what a model can tell.
/// `us` is the kernel's prediction. Left alone are recurrent kernels, groups that retain something for another phase or
/// find it (what is loaded ahead is not found in shared memory), and kernels of more than eight groups, of which one
/// alone hardly moves the sum.
///
/// A space that has every mapping once more with two stages is twice as large, and by way of what is kept of each group
/// crowds out others (gpt2's training step was predicted to take 2.8 % longer); asked of the best schedules alone it
/// costs seven derivations and predictions for each of their groups at most.
std::optional<kernel::KernelProgram> with_loads_ahead(
    const kernel::KernelProgram& kernel, double us,
    const std::function<std::optional<double>(const kernel::KernelProgram&)>& predict_us);

}  // namespace stitch::search
