#pragma once

#include <optional>
#include <vector>

#include "graph/tensor_type.h"

namespace stitch::graph {

/// Runs of dimensions that a reshape regroups: dimensions [from_begin, from_end) of one shape become
/// [to_begin, to_end) of the other, with the same number of elements.
struct DimGroup {
  int from_begin = 0, from_end = 0;
  int to_begin = 0, to_end = 0;

  bool operator==(const DimGroup&) const = default;
};

/// The finest groups between two shapes of equally many elements, in order. Extents of 1 join the group before them;
/// leading ones form a group of their own. None when there are no elements.
std::optional<std::vector<DimGroup>> dim_groups(const Dims& from, const Dims& to);

/// The extents that are not 1. Operators are written over these (drop_unit_dimensions): what looks through a reshape
/// takes its operand in this shape, never with extents of 1, or the two would undo each other's work for ever.
Dims without_units(const Dims& dims);

}  // namespace stitch::graph
