#pragma once

#include "base/result.h"
#include "codegen/generated_kernel.h"
#include "kernel/program/program.h"

namespace stitch::codegen {

/// Lowers a recurrent kernel (kernel/loop/recurrent_step.h): every block fills the states of its rows, then takes turn
/// after turn with a block barrier behind every phase, reading one copy of the states and writing the other, and stores
/// what is left at the end. The blocks of a cluster take the same rows, compute a part of the columns each, and store
/// what they hand on in all of them, behind a cluster barrier.
Result<GeneratedKernel> generate_recurrent(const kernel::KernelProgram& program, const GenerateOptions& options);

}  // namespace stitch::codegen
