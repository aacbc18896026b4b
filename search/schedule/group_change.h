#pragma once

#include <cstddef>

#include "base/result.h"
#include "kernel/program/program.h"

namespace stitch::search {

/// The kernel with another mapping of one of its groups, which has to cut the group into the same tiles: what the other
/// groups do, the launch and the partial results that phases hand on stay as they are, and so does what phases retain,
/// which has to be chosen anew where the group takes part in it (kernel/program/retention.h). Not of recurrent kernels.
/// Whether it is legal is not known yet. Error: constraint (derive_group's).
Result<kernel::KernelProgram> with_mapping(const kernel::KernelProgram& kernel, std::size_t phase, std::size_t group,
                                           kernel::GroupMapping mapping);

}  // namespace stitch::search
