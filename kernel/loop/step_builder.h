#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/loop/recurrent_step.h"
#include "kernel/loop/row_split.h"

namespace stitch::kernel {

/// The step for blocks that take `rows` rows each. Contractions become products and sums, of which a slice is computed
/// as such. Fails with kind constraint when the kernel is no recurrent loop, when its rows do not come apart, or are
/// not a multiple of `rows`.
Result<std::shared_ptr<const RecurrentStep>> recurrent_step(const graph::Graph& kernel, std::int64_t rows);
/// The same of what recurrent_loop and split_rows gave for the kernel.
Result<std::shared_ptr<const RecurrentStep>> recurrent_step(const graph::Graph& kernel, graph::NodeId loop,
                                                            const RowSplit& split, std::int64_t rows);

}  // namespace stitch::kernel
