#pragma once

#include <cstdint>

#include "kernel/structure/structure.h"

namespace stitch::search {

/// The axis along which most of the group's bytes are contiguous, and the widest vector that its extent allows.
struct VectorChoice {
  int axis = -1;
  std::int64_t width = 1;
  std::int64_t shifted_width = 1;  ///< the widest if rows are shifted (GroupMapping::shifted); 1: they need not be
};
VectorChoice choose_vector(const kernel::GroupStructure& group);

}  // namespace stitch::search
