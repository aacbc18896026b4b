#include "profiler/verify/element_ranges.h"

#include <algorithm>

namespace stitch::profiler {
namespace {

/// Appends boxes for [first, last) of the sub-tensor that starts at `prefix` (indices of the leading dimensions).
void append_boxes(const graph::Dims& dims, const graph::Dims& strides, graph::Dims prefix, std::int64_t first,
                  std::int64_t last, std::vector<graph::Box>& boxes) {
  const std::size_t d = prefix.size();
  const auto emit = [&](std::int64_t begin, std::int64_t end) {
    graph::Box box;
    box.start = prefix;
    box.size.assign(d, 1);
    box.start.push_back(begin);
    box.size.push_back(end - begin);
    for (std::size_t rest = d + 1; rest < dims.size(); ++rest) {
      box.start.push_back(0);
      box.size.push_back(dims[rest]);
    }
    boxes.push_back(std::move(box));
  };
  const std::int64_t stride = strides[d];
  if (d + 1 == dims.size()) return emit(first, last);
  const auto partial = [&](std::int64_t index, std::int64_t begin, std::int64_t end) {
    graph::Dims inner = prefix;
    inner.push_back(index);
    append_boxes(dims, strides, std::move(inner), begin, end, boxes);
  };
  std::int64_t begin = first / stride;
  const std::int64_t end = last / stride;
  if (begin == end) return partial(begin, first % stride, last % stride);
  if (first % stride != 0) partial(begin++, first % stride, stride);
  if (begin < end) emit(begin, end);
  if (last % stride != 0) partial(end, 0, last % stride);
}

/// Joins boxes that differ in one dimension only and follow one another there.
void merge_neighbours(std::vector<graph::Box>& boxes) {
  if (boxes.empty()) return;
  const std::size_t rank = boxes.front().start.size();
  for (std::size_t d = rank; d-- > 0;) {
    std::vector<graph::Box> merged;
    for (graph::Box& box : boxes) {
      bool joined = false;
      // Columns: the box of the row before is as many boxes back as a row has boxes.
      for (std::size_t back = 1; back <= std::min<std::size_t>(merged.size(), 64) && !joined; ++back) {
        graph::Box& last = merged[merged.size() - back];
        if (last.end(d) != box.start[d]) continue;
        bool same = true;
        for (std::size_t o = 0; o < rank && same; ++o) {
          same = o == d || (last.start[o] == box.start[o] && last.size[o] == box.size[o]);
        }
        if (!same) continue;
        last.size[d] += box.size[d];
        joined = true;
      }
      if (!joined) merged.push_back(std::move(box));
    }
    boxes = std::move(merged);
  }
}

}  // namespace

DenseRuns dense_runs(const graph::Box& box, const graph::Dims& dims) {
  DenseRuns runs{box, 1};
  for (std::size_t d = dims.size(); d-- > 0;) {
    runs.length *= box.size[d];
    runs.starts.size[d] = 1;
    if (box.size[d] != dims[d]) break;
  }
  return runs;
}

std::vector<graph::Box> boxes_of_range(const graph::Dims& dims, std::int64_t first, std::int64_t last) {
  std::vector<graph::Box> boxes;
  if (first >= last) return boxes;
  if (dims.empty()) return {graph::Box{}};
  append_boxes(dims, graph::row_major_strides(dims), {}, first, last, boxes);
  return boxes;
}

std::vector<graph::Box> boxes_of(const graph::TensorType& type, const std::vector<WrittenRange>& ranges) {
  std::vector<graph::Box> boxes;
  const std::int64_t size = graph::byte_size(type.dtype);
  for (const WrittenRange& range : ranges) {
    const std::int64_t last = (range.offset + range.bytes + size - 1) / size;
    for (graph::Box& box : boxes_of_range(type.dims, range.offset / size, last)) boxes.push_back(std::move(box));
  }
  merge_neighbours(boxes);
  return boxes;
}

}  // namespace stitch::profiler
