#pragma once

#include <cstdint>
#include <optional>

#include "kernel/program/program.h"

namespace stitch::search {

// How rows are reduced where their bits must not depend on how many rows there are (graph::Constraints::
// batch_invariant). Floats are added in the order of the mapping: a thread's vectors, its registers and loop, lanes by
// a butterfly, warps in order. So of all mappings of a row of f32[N,768] there is one,
//
//     vector 4, lane 32, register 6
//
// which follows from 768 alone: whatever N is, whichever operators share the kernel, and whichever GPU it is planned
// for. What is left to choose is how many rows a block and a thread take, what is held and where, and which operators
// share a kernel.

/// Rows of more elements are mapped as is fastest; nothing is promised of them.
inline constexpr std::int64_t longest_fixed_row = 1 << 18;

/// The mapping of a row of so many elements of a type of so many bytes, one block a row at most.
kernel::AxisMapping fixed_row(std::int64_t elements, int element_bytes);

/// Elements of the row that an anchor sums, where that is one whose order is fixed: a sum or product of floats over
/// the last dimensions of its operand, of at most longest_fixed_row elements. Nothing of any other.
std::optional<std::int64_t> fixed_row_elements(const kernel::Anchor& anchor, const graph::Graph& graph);

/// The widest vectors that a group may have along its rows; nothing where it has none that are fixed.
std::optional<std::int64_t> fixed_row_vector(const kernel::GroupStructure& group);

/// Whether the mapping reduces every row of the group as fixed_row says. A row that is cut into several axes, or is
/// left to the next phase in part, is none.
bool keeps_rows_fixed(const kernel::GroupStructure& group, const kernel::GroupMapping& mapping);
/// Whether all groups of a kernel do.
bool keeps_rows_fixed(const kernel::KernelProgram& program);

}  // namespace stitch::search
