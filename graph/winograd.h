#pragma once

#include <cstdint>
#include <map>

#include "base/result.h"
#include "graph/graph.h"

// Convolutions with windows of 3 × 3 by fewer multiplications: Winograd's minimal filtering, F(m × m, 3 × 3), after
// Lavin and Gray (CVPR 2016, arXiv 1509.09308, §4). Of a result's tile of m × m positions, with d the (m + 2) × (m + 2)
// places of the input that its windows see, and g a filter:
//
//     y = Aᵀ [ Σ_c (G g_c Gᵀ) ∘ (Bᵀ d_c B) ] A
//
// The sum over features is a product of matrices for each of the (m + 2)² places of a transformed tile, so that one
// result takes (m + 2)² / m² multiplications a feature instead of 9: 4 with m = 2, 2.25 with m = 4. What it costs are
// transformed tensors in memory, of (m + 2)² / m² times the elements of input and result, and digits: the sums of
// m = 4 have factors of up to 8 and 5 (their errors are some seven times those of a direct convolution, §5.4 there).
//
// Written in operators of the graph, so that what precedes the input's transform and follows the result's is fused with
// them as with any operator that memory binds:
//
//     x f32[n,h,w,c]  →  pad, 36 slices and their sums, concatenated    f32[36, tiles, c]
//     g f32[3,3,c,k]  →  likewise                                       f32[36, c, k]
//     dot, batched                                                      f32[36, tiles, k]
//     slices, their sums, interleaved                                   f32[n,h,w,k]

namespace stitch::graph {

/// Positions of a result's tile along each dimension that there are transforms for.
inline constexpr std::int64_t winograd_tiles[] = {2, 4};

/// The steps of one convolution, each as a graph of its own, to be priced one by one.
struct WinogradSteps {
  Graph input;    ///< x → transformed tiles
  Graph filter;   ///< filter → transformed
  Graph product;  ///< both → products
  Graph result;   ///< products → what the convolution makes
};
/// Errors: invalid_argument (a node without the form, has_winograd_form in graph/f32_products.h; no tile that there
/// is).
Result<WinogradSteps> winograd_steps(const Graph& graph, const Node& node, std::int64_t tile);

/// The graph with some of its convolutions, by their nodes, written so with tiles of the size given for each. Its
/// parameters and results stay; no other node changes. To be simplified again: units of extents are left in it, and a
/// filter that is a constant is transformed by the fold. Error: invalid_argument (a node that has not the form; a tile
/// that there is not).
Result<Graph> with_winograd(const Graph& graph, const std::map<NodeId, std::int64_t>& tiles);

}  // namespace stitch::graph
