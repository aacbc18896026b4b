#pragma once

#include <cstdint>

#include "graph/dtype.h"

namespace stitch::graph {

/// The longest line that a kernel sorts in one block, by its keys: 72 KB of shared memory for words of a key and a
/// place (kernel/program/sort_plan.h). What is longer is left to a library.
inline std::int64_t longest_sorted_line(DType keys) {
  const int bytes = byte_size(keys);
  return bytes <= 2 ? 16384 : bytes <= 4 ? 8192 : 4096;
}

}  // namespace stitch::graph
