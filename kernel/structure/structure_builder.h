#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/index/axes.h"
#include "kernel/structure/structure.h"
#include "kernel/structure/structure_options.h"

namespace stitch::kernel {

/// Whether `options.gathered` makes a difference to the structure.
bool gathers_any(const graph::Graph& graph, const AxisAnalysis& analysis, const StructureOptions& options);

/// Derives the structure; fails with kind constraint when the graph holds an operator that no kernel can compute.
Result<KernelStructure> derive_structure(const graph::Graph& graph, const AxisAnalysis& analysis,
                                         const StructureOptions& options);

}  // namespace stitch::kernel
