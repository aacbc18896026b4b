#pragma once

#include "base/result.h"
#include "codegen/generated_kernel.h"
#include "kernel/attention/attention_schedule.h"
#include "kernel/pipeline/nest.h"

namespace stitch::codegen {

/// The loop of an attention's block over tiles of keys and values, pipelined with the schedule's stages.
/// Errors: those of kernel::pipeline::pipelined.
Result<kernel::pipeline::TileNest> attention_nest(const kernel::AttentionProblem& problem,
                                                  const kernel::AttentionSchedule& schedule);

/// Prints an attention kernel: where queries, keys, values and result lie, what logits are made of, the pipelined loop
/// around codegen/device/attention.cuh's attend. Arguments are the problem's parameters that are read, in order, the
/// results, and with a split the unfinished results and a counter for each tile. The schedule must be legal on the
/// device that it is compiled for (kernel::check_legality). Errors: those of the nest and of print_epilogue.
Result<GeneratedKernel> generate_attention(const kernel::AttentionProblem& problem,
                                           const kernel::AttentionSchedule& schedule, const GenerateOptions& options);

}  // namespace stitch::codegen
