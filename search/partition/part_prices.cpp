#include "search/partition/part_prices.h"

#include <oneapi/tbb/parallel_for.h>

#include <utility>

#include "kernel/structure/kernel_graph.h"

namespace stitch::search {

Result<PlannedKernel> plan_kernel(const VertexGraph& vertices, const VertexSet& set, KernelCache& cache,
                                  const std::stop_token& stop) {
  const kernel::KernelGraph extracted =
      kernel::extract_kernel(vertices.fragment(), vertices.attached(), vertices.uses(), vertices.nodes_of(set));
  STITCH_ASSIGN(KernelCache::Entry entry, cache.explore(extracted.graph, stop));
  PlannedKernel planned{std::move(entry.kernel), {}, {}, extracted.nodes};
  for (const int i : entry.parameter_order) planned.arguments.push_back(extracted.arguments[i]);
  for (const int i : entry.result_order) planned.results.push_back(extracted.results[i]);
  return planned;
}

Error excluded_kernel(const Hash128& key) {
  return make_error(ErrorKind::correctness, "kernel {} is excluded: no way to compute it was found to be right",
                    key.hex());
}

std::optional<double> PartPrices::explore(const VertexSet& part) const {
  if (stop_.stop_requested()) return infeasible_us;
  const Result<PlannedKernel> planned = plan_kernel(vertices_, part, cache_, stop_);
  if (!planned && planned.error().kind == ErrorKind::cancelled) return infeasible_us;
  if (!planned || !planned->kernel->feasible() || excluded_.contains(planned->kernel->key)) return std::nullopt;
  return planned->kernel->predicted_us();
}

std::optional<double> PartPrices::feasible_us(const VertexSet& part) {
  if (const auto found = known_.find(part); found != known_.end()) return found->second;
  return known_[part] = explore(part);
}

double PartPrices::us(const VertexSet& part) { return feasible_us(part).value_or(infeasible_us); }

double PartPrices::total_us(const std::vector<VertexSet>& parts) {
  double sum = 0;
  for (const VertexSet& part : parts) sum += us(part);
  return sum;
}

void PartPrices::warm(const std::vector<VertexSet>& parts) {
  std::vector<const VertexSet*> missing;
  for (const VertexSet& part : parts) {
    if (part.count() > 0 && !known_.contains(part)) missing.push_back(&part);
  }
  std::vector<std::optional<double>> prices(missing.size());
  tbb::parallel_for(std::size_t{0}, missing.size(), [&](std::size_t i) { prices[i] = explore(*missing[i]); });
  for (std::size_t i = 0; i < missing.size(); ++i) known_[*missing[i]] = prices[i];
}

Error PartPrices::why_not(const VertexSet& part) const {
  const Result<PlannedKernel> planned = plan_kernel(vertices_, part, cache_);
  if (!planned) return planned.error();
  return planned->kernel->feasible() ? excluded_kernel(planned->kernel->key) : planned->kernel->why;
}

}  // namespace stitch::search
