#pragma once

#include <vector>

#include "graph/graph.h"
#include "kernel/index/axes.h"
#include "kernel/structure/structure_options.h"

namespace stitch::search {

/// The structures worth trying for a kernel, most promising first: which axes a tile holds whole, so that reductions
/// over them end in it, and whether small reductions of what tiles have left are gathered in one tile.
std::vector<kernel::StructureOptions> structure_choices(const graph::Graph& graph,
                                                        const kernel::AxisAnalysis& analysis);

/// All axes that some reduction is over.
std::set<int> reduced_axes(const graph::Graph& graph, const kernel::AxisAnalysis& analysis);

/// Phases that a structure has at least: reductions over axes that no tile holds, one after the other. Takes a moment,
/// where deriving the structure takes time in proportion to operators and phases.
int least_phases(const graph::Graph& graph, const kernel::AxisAnalysis& analysis,
                 const kernel::StructureOptions& options);

}  // namespace stitch::search
