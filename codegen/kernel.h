#pragma once

#include "base/result.h"
#include "codegen/generated_kernel.h"
#include "graph/graph.h"
#include "kernel/program/program.h"

namespace stitch::codegen {

/// Lowers a kernel program to CUDA C++: the last step of planning that knows groups, axes and mappings, and the first
/// that knows text. The explorer makes the program, the workshop of tuning/ has it printed here, the compiler
/// (codegen/compile/compiler.h) gets the source, verification and timing get the arguments and the grid.
///
///     STITCH_ASSIGN(const GeneratedKernel kernel, generate(graph, candidate.program, {.name = "softmax"}));
///     // kernel.source: #include "stitch/kernel.cuh" … extern "C" __global__ void softmax(const f32* …, f32* …)
///
/// The same program always gives the same text; plans are kept by a hash of the sources that print it
/// (codegen/generator_version.h). Kernels whose phases run once are printed by codegen/phased_emitter.h, recurrent
/// ones by codegen/recurrent_emitter.h; both have the code of a group from codegen/group_emitter.h.
Result<GeneratedKernel> generate(const graph::Graph& graph, const kernel::KernelProgram& program,
                                 const GenerateOptions& options);

}  // namespace stitch::codegen
