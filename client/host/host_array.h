#pragma once

#include <cstdint>
#include <vector>

#include "graph/tensor_type.h"

namespace stitch::client {

/// A dense row-major tensor of the host in the type that a library call computes in (float or double), whatever the
/// dtype of its elements in memory.
template <class T>
struct HostArray {
  graph::Dims dims;
  std::vector<T> data;
};

/// The elements of `from` from `offset` on, with these extents (the result's) and strides in elements; strides may be 0
/// or negative.
template <class T>
HostArray<T> gathered(const std::vector<T>& from, std::int64_t offset, const graph::Dims& extents,
                      const graph::Dims& strides) {
  HostArray<T> array{extents, {}};
  const std::int64_t count = graph::element_count(extents);
  array.data.reserve(count);
  if (count == 0) return array;
  if (extents.empty()) {
    array.data.push_back(from[offset]);
    return array;
  }
  const std::size_t last = extents.size() - 1;
  graph::Dims index(extents.size(), 0);
  while (std::ssize(array.data) < count) {
    const T* row = from.data() + offset;
    for (std::int64_t i = 0; i < extents[last]; ++i) array.data.push_back(row[i * strides[last]]);
    for (std::size_t d = last; d-- > 0;) {
      offset += strides[d];
      if (++index[d] < extents[d]) break;
      offset -= strides[d] * extents[d];
      index[d] = 0;
    }
  }
  return array;
}

/// The array with its dimensions in another order: dimension d of the result is dimension order[d].
template <class T>
HostArray<T> reordered(const HostArray<T>& array, const graph::Dims& order) {
  const graph::Dims strides = graph::row_major_strides(array.dims);
  graph::Dims extents, steps;
  for (const std::int64_t d : order) {
    extents.push_back(array.dims[d]);
    steps.push_back(strides[d]);
  }
  return gathered(array.data, 0, extents, steps);
}

}  // namespace stitch::client
