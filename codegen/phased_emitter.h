#pragma once

#include "base/result.h"
#include "codegen/generated_kernel.h"
#include "graph/graph.h"
#include "kernel/program/program.h"

namespace stitch::codegen {

/// Lowers a kernel whose phases run once, one after the other, each over tiles that the blocks share out among
/// themselves. A kernel of one group takes its pointers as parameters. Any other is packed: groups become functions,
/// those of equal text one, and the kernel's parameter is a table with a row for each group (codegen/group_class.h),
/// in which a block finds the group that its tile belongs to.
Result<GeneratedKernel> generate_phased(const graph::Graph& graph, const kernel::KernelProgram& program,
                                        const GenerateOptions& options);

}  // namespace stitch::codegen
