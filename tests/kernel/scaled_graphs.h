#pragma once

#include "lab/products/scaled_matmul.h"
#include "tests/kernel/example_graphs.h"

/// Products of narrow tensors with scales by blocks, which random products have, too.
namespace stitch::kernel::test {

using lab::repeated;
using lab::ScaledMatmul;

inline Graph graph_of(const ScaledMatmul& m) {
  Builder b;
  return finished(b, results_of(b, m));
}

}  // namespace stitch::kernel::test
