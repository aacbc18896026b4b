#pragma once

#include <vector>

#include "kernel/structure/scalar_program.h"

namespace stitch::kernel {

/// One contribution to a scatter: whether update number `batch` (row-major over the update's scatter dimensions) goes
/// to the element at `indices`, and its value, computed only where it does. Of indices in sorted lines
/// (kernel/index/sorted_indices.h) and of those that blocks search (kernel/index/searched_updates.h) also the place
/// that it goes to and the element's own: a binary search goes on by these, a block lists what goes to its tile. What
/// was found so is computed without being asked again.
struct ScatterTerm {
  ItemId hits = -1;
  ItemId update = -1;
  ItemId key = -1, place = -1;  ///< -1: nobody searches by them
};
Result<ScatterTerm> scatter_term(ScalarProgram& program, graph::NodeId scatter, const std::vector<Index>& indices,
                                 Index batch);

/// Where an element of an update goes: its indices in the result, and whether it goes anywhere (-1: always).
struct UpdateTarget {
  std::vector<Index> indices;
  ItemId guard = -1;
};
/// Of a dynamic-update-slice; `indices` are those of the element in the update.
Result<UpdateTarget> update_target(ScalarProgram& program, graph::NodeId update, const std::vector<Index>& indices);
/// Of a scatter; windows that do not fit are dropped whole.
Result<UpdateTarget> scatter_target(ScalarProgram& program, graph::NodeId scatter, const std::vector<Index>& indices);

}  // namespace stitch::kernel
