#pragma once

#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// Decides in which order each phase takes its tiles, and notes what it reads again and what passes L2 by. A phase that
/// reads what an earlier one has read or written goes through it the other way round: L2 still holds the end of what
/// does not fit it as a whole, and nothing of what is asked for first if both begin at the same end. Results that the
/// kernel itself does not read would only drive that out.
void choose_walks(const graph::Graph& graph, KernelStructure& structure);

}  // namespace stitch::kernel
