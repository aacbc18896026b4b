#pragma once

#include "base/result.h"
#include "codegen/generated_kernel.h"
#include "kernel/attention/chain_schedule.h"
#include "kernel/pipeline/nest.h"

namespace stitch::codegen {

/// The loop of a chain's block over tiles of what is walked, pipelined with the schedule's stages.
/// Errors: those of kernel::pipeline::pipelined.
Result<kernel::pipeline::TileNest> chain_nest(const kernel::ProductChain& chain, const kernel::ChainSchedule& schedule);

/// Prints a kernel of chained products: where operands and results lie, what weights are made of, the pipelined loop
/// around codegen/device/chain.cuh. Arguments are the chain's parameters that are read, in order, and its results. The
/// schedule must be legal on the device that it is compiled for (kernel::check_legality). Errors: those of the nest, of
/// print_weights and of print_epilogues.
Result<GeneratedKernel> generate_chain(const kernel::ProductChain& chain, const kernel::ChainSchedule& schedule,
                                       const GenerateOptions& options);

}  // namespace stitch::codegen
