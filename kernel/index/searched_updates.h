#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace stitch::kernel {

/// Whether the kernel of a scatter lets each block look for the updates of its tile: its threads read all indices side
/// by side, list those that go to any of the tile's places, and each place combines its own from that list, in their
/// order. Of N updates of rows of C elements to P places
///
///     read      indices once a block, each update once             atomics: each update
///     written   the P rows                                         the P rows, then N · C elements read and written
///     tests     N for each tile of rows, N · P ÷ (rows of a tile)  0
///
/// so that it moves least where rows are long and places few: mixtures of experts that add to tokens, sums over a
/// graph's edges. Where the order of floats is fixed (Constraints::fixes_order), whatever there is to test; else while
/// tests are few, and updates of a place, since one warp combines those of a place one after the other.
///
/// Of rows of at least 32 elements, whole ones, by indices in s32 or s64 along one dimension of the operand, which are
/// not sorted (kernel/index/sorted_indices.h).
bool searched_by_block(const graph::Graph& graph, graph::NodeId scatter);

}  // namespace stitch::kernel
