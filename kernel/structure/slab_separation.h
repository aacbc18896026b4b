#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "kernel/index/index_expr.h"
#include "kernel/structure/scalar_program.h"
#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// Tells the groups which of their axes is that of the slabs. Fails with kind constraint where slabs depend on one
/// another: a group that is not along the axis, reduces over it, or reads what another phase left of another slab.
Status separate_slabs(KernelStructure& structure, int axis);

/// Whether every anchor of the group is computed for each place of an axis by itself.
bool keeps_axis(const GroupStructure& group, int axis);

/// By how much an address moves from one slab to the next, where it stays within the slab's own part of the memory:
/// what else it is made of lies within a step, or is a multiple of all slabs' steps together. Whatever a dynamic index
/// is, it is within its bounds.
std::optional<std::int64_t> slab_step(const ScalarProgram& program, Index address, int position);

}  // namespace stitch::kernel
