#pragma once

#include <cstdint>

#include "graph/calls/library_call.h"

namespace stitch::graph {

/// Columns of a product up to which the blocks of a cluster have whole rows (kernel/contraction/row_reductions.h).
inline constexpr std::int64_t most_untiled_columns = 2048;
/// Columns of a tile: what one block, or two, have of a row.
inline constexpr std::int64_t tile_columns = 256;

/// Heads: products of so many columns that no cluster has a row, whose elements nobody needs but what rows are combined
/// to (row_results.h). Of each a graph is made in which tiles of columns are combined first:
///
///     logits = dot(x, w)                      [rows, columns]
///     m = max logits, s = Σ exp(logits − m)
///
/// becomes, with w as [tiles, …, 256],
///
///     logits = dot(x repeated, w)             [tiles, rows, 256], never in memory
///     mₜ = max logits, sₜ = Σ exp(logits − mₜ)      [tiles, rows]: results of the product's kernel
///     m = max mₜ, s = Σ sₜ · exp(mₜ − m)            online softmax (Milakov and Gimelshein 2018)
///
/// (cut cross entropy, Wijmans et al. 2024; Liger's fused linear cross entropy, without its loop over rows). Sums,
/// maxima and minima of element-wise functions of the logits are combined as they are. The columns behind the last
/// whole tile are a product of their own. A tile that has nothing but −∞ counts for nothing.
///
/// Tiled are those heads alone whose tiles become calls with row results for which `own` has a kernel. The graph's
/// parameters and results stay.
Graph tile_columns_of_heads(Graph graph, const OwnCall& own);

}  // namespace stitch::graph
