#pragma once

#include "base/result.h"
#include "codegen/generated_kernel.h"
#include "kernel/contraction/contraction_schedule.h"
#include "kernel/pipeline/nest.h"

namespace stitch::codegen {

/// The loop of a contraction's block, as ALCOP has it (arXiv 2210.16691 §3): copies of both operands' tiles to shared
/// memory, of their parts to registers, and what multiplies them; pipelined with the schedule's stages.
/// Errors: those of kernel::pipeline::pipelined.
Result<kernel::pipeline::TileNest> contraction_nest(const kernel::ContractionProblem& problem,
                                                    const kernel::ContractionSchedule& schedule);

/// Prints a matmul-class kernel: where its operands' elements lie, the tiles of codegen/device/contraction.cuh, the
/// pipelined loop, and the epilogue. Arguments are the problem's parameters in order, the result, and with a split the
/// partial sums and a counter for each tile. The schedule must be legal on the device that it is compiled for
/// (kernel::check_legality). Errors: those of the nest and of print_epilogue.
Result<GeneratedKernel> generate_contraction(const kernel::ContractionProblem& problem,
                                             const kernel::ContractionSchedule& schedule,
                                             const GenerateOptions& options);

}  // namespace stitch::codegen
