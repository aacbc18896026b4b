#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace stitch::kernel {

/// The kernel with its scatters' updates sorted by where they go, so that each place of the result finds its own by
/// binary search instead of testing them all, and no atomics are needed:
///
///     key_i   = the place that update i goes to, row-major; behind all places where it goes nowhere
///     k, p    = sort of (key, i) in lines of `line` elements, stable
///     result  = scatter of (operand, k, updates[p]), whose indices ascend in every line
///     (kernel/index/sorted_indices.h)
///
/// A place combines what it finds in the lines' order, and so in that of the updates: the result has the bits that it
/// has where every place tests every update, whatever the number of places and updates. What is moved is the operand,
/// the updates and, for each, 8 bytes; a place takes log2(line) tests a line. Parameters, results and their order are
/// the kernel's.
///
/// `line`: a power of two, at most most_sorted_line; the last line is filled up with updates that go nowhere, and what
/// fits a shorter line is sorted in one of the least power of two that holds it.
///
/// Nothing where no scatter has more updates than its places may as well test, each of whole slices of the operand
/// along its first dimensions, with the window's dimensions behind the others and indices of at least 32 bits.
std::optional<graph::Graph> sort_updates(const graph::Graph& kernel, std::int64_t line);

/// As a block sorts (codegen/device/sort.cuh), with 8 bytes for each in shared memory.
inline constexpr std::int64_t most_sorted_line = 8192;

/// The lines that are worth trying: short ones are sorted by many blocks, and a warp searches 32 at a time; long ones
/// are few, for places that are searched for by a thread. Of a kernel without such scatters none; descending.
std::vector<std::int64_t> sorted_lines_of(const graph::Graph& kernel);

}  // namespace stitch::kernel
