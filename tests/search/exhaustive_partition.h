#pragma once

#include "search/partition/fusion_explorer.h"

namespace stitch::search::test {

inline constexpr int most_exhaustive_vertices = 16;  ///< beyond, best_partition refuses

/// The best that any partition of a fragment's operators into kernels can reach under the cache's scorer.
struct BestPartition {
  std::vector<VertexSet> parts;  ///< in an order in which they can run
  double predicted_us = 0;
  std::size_t kernels = 0;  ///< sets of operators that were explored
};

/// The yardstick of the fusion explorer: looks at every partition whose kernels do not depend on each other in a
/// circle. The kernels of such a partition can be put in an order, and what the first k of them compute is closed under
/// producers; so it is a walk over closed sets of vertices, and the best walk is found by dynamic programming: at most
/// 3^n steps, at most 2^n kernels to explore. Errors: constraint, more vertices than `most_exhaustive_vertices`, or no
/// partition whose kernels all fit.
Result<BestPartition> best_partition(const VertexGraph& vertices, KernelCache& cache);

}  // namespace stitch::search::test
