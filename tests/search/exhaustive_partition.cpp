#include "tests/search/exhaustive_partition.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <limits>

namespace stitch::search::test {
namespace {

using Mask = std::uint32_t;  ///< vertices as bits

constexpr double never = std::numeric_limits<double>::infinity();

VertexSet set_of(Mask mask, int vertices) {
  VertexSet set(vertices);
  for (int v = 0; v < vertices; ++v) {
    if ((mask >> v & 1U) != 0) set.insert(v);
  }
  return set;
}

/// Per mask: whether it holds the producers of all its vertices.
std::vector<char> closed_sets(const VertexGraph& vertices) {
  std::vector<Mask> producers(vertices.size(), 0);
  for (int v = 0; v < vertices.size(); ++v) {
    for (const int p : vertices.producers(v)) producers[v] |= Mask{1} << p;
  }
  std::vector<char> closed(std::size_t{1} << vertices.size(), 1);
  for (std::size_t mask = 0; mask < closed.size(); ++mask) {
    for (std::size_t v = 0; v < producers.size(); ++v) {
      if ((mask >> v & 1U) != 0 && (producers[v] & ~mask) != 0) closed[mask] = 0;
    }
  }
  return closed;
}

/// Calls `step(before, kernel)` for every closed set and every kernel that may run next, sets in ascending order.
template <class Step>
void for_each_step(const std::vector<char>& closed, const Step& step) {
  const Mask all = static_cast<Mask>(closed.size() - 1);
  for (Mask before = 0; before < all; ++before) {
    if (closed[before] == 0) continue;
    const Mask rest = all & ~before;
    for (Mask kernel = rest; kernel != 0; kernel = (kernel - 1) & rest) {
      if (closed[before | kernel] != 0) step(before, kernel);
    }
  }
}

}  // namespace

Result<BestPartition> best_partition(const VertexGraph& vertices, KernelCache& cache) {
  const int n = vertices.size();
  if (n > most_exhaustive_vertices) return make_error(ErrorKind::constraint, "{} operators are too many to try", n);
  const std::vector<char> closed = closed_sets(vertices);
  std::vector<double> cost(closed.size(), never);
  for_each_step(closed, [&](Mask, Mask kernel) { cost[kernel] = 0; });
  std::vector<Mask> kernels;
  for (std::size_t mask = 1; mask < cost.size(); ++mask) {
    if (cost[mask] == 0) kernels.push_back(static_cast<Mask>(mask));
  }
  tbb::parallel_for(std::size_t{0}, kernels.size(), [&](std::size_t i) {
    const auto plan = plan_of_partition(vertices, {set_of(kernels[i], n)}, cache);
    cost[kernels[i]] = plan ? plan->predicted_us : never;
  });
  std::vector<double> reached(closed.size(), never);
  std::vector<Mask> last(closed.size(), 0);  ///< the kernel after which a set is complete
  reached[0] = 0;
  for_each_step(closed, [&](Mask before, Mask kernel) {
    const double us = reached[before] + cost[kernel];
    if (us < reached[before | kernel]) {
      reached[before | kernel] = us;
      last[before | kernel] = kernel;
    }
  });
  BestPartition best{{}, reached.back(), kernels.size()};
  if (best.predicted_us == never) return make_error(ErrorKind::constraint, "no partition whose kernels all fit");
  for (Mask at = static_cast<Mask>(closed.size() - 1); at != 0; at &= ~last[at]) {
    best.parts.push_back(set_of(last[at], n));
  }
  std::ranges::reverse(best.parts);
  return best;
}

}  // namespace stitch::search::test
