#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/reference/evaluate_box.h"
#include "kernel/index/axes.h"
#include "kernel/program/schedule.h"

namespace stitch::profiler {

/// Elements of an axis of this extent that tiles with some of its grid digits take: `run[digit]`. Ascending, apart.
std::vector<graph::Interval> elements_of_digits(const kernel::AxisMapping& mapping, std::int64_t extent,
                                                const std::vector<bool>& run);

/// What of a value lies at `ranges` (ascending, disjoint) of one of its axes, as boxes in row-major order.
///
/// Dimensions that nothing tells apart share an axis (kernel/index/axes.h): of [32,128,30522], whose rows are an axis
/// of 4,096, a range of rows is up to three boxes, and every eighth row one box each. Nothing when the axis is not
/// among the value's, or when there would be more than `most` boxes.
std::optional<std::vector<graph::Box>> boxes_of_axis(const graph::Graph& graph, const kernel::AxisAnalysis& analysis,
                                                     graph::Value value, int axis,
                                                     std::span<const graph::Interval> ranges, std::size_t most);

}  // namespace stitch::profiler
