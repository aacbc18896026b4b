#pragma once

#include <cstdint>
#include <vector>

#include "kernel/structure/structure.h"

namespace stitch::search {

// What a group's loads and stores look like along its axes, where `extents` are those of the axes (partial results and
// slabs as they are under the mapping) and threads walk along `vector_axis`.

/// Whether something large lies across: contiguous along an axis other than that of the vectors (a transpose).
bool crosses(const kernel::GroupStructure& group, const std::vector<std::int64_t>& extents, int vector_axis);

/// Whether loads of one buffer that walk along some of `walked` together want clearly more of it than there is: the
/// windows of a convolution.
bool overlaps(const kernel::GroupStructure& group, const std::vector<std::int64_t>& extents, kernel::AxisSet walked);

/// Axes along which tensors that are read along others repeat: a gain or a bias along its rows.
struct Repeats {
  kernel::AxisSet axes;
  std::vector<int> tensors;  ///< by axis: how many repeat along it
};
/// Of the tensors that are read along all of `walked`.
Repeats find_repeats(const kernel::GroupStructure& group, const std::vector<std::int64_t>& extents,
                     kernel::AxisSet walked);

}  // namespace stitch::search
