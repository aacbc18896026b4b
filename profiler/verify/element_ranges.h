#pragma once

#include <vector>

#include "graph/reference/evaluate_box.h"
#include "profiler/device/device.h"

namespace stitch::profiler {

/// The elements [first, last) of a row-major tensor as boxes, in ascending order: at most two per dimension.
std::vector<graph::Box> boxes_of_range(const graph::Dims& dims, std::int64_t first, std::int64_t last);

/// A box of a row-major tensor as runs of elements that lie one after the other in memory: `length` elements from every
/// index of `starts` on.
struct DenseRuns {
  graph::Box starts;
  std::int64_t length = 1;
};
DenseRuns dense_runs(const graph::Box& box, const graph::Dims& dims);

/// Written bytes as boxes of elements. A partly written element counts as written: its value will be found wrong.
/// Ranges that follow one another at a constant distance (columns of a row-major tensor) become one box.
std::vector<graph::Box> boxes_of(const graph::TensorType& type, const std::vector<WrittenRange>& ranges);

}  // namespace stitch::profiler
