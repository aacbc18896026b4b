#include "search/kernel_cache.h"

#include "graph/canonical.h"

namespace stitch::search {

Result<KernelCache::Entry> KernelCache::explore(const graph::Graph& kernel) {
  STITCH_ASSIGN(graph::CanonicalForm form, graph::canonicalise(kernel));
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kernels_.find(form.key); found != kernels_.end()) {
      return Entry{found->second, std::move(form.parameter_order), std::move(form.result_order)};
    }
  }
  auto explored = std::make_shared<ExploredKernel>();
  explored->key = form.key;
  explored->graph = std::move(form.graph);
  Result<std::vector<StitchCandidate>> candidates = explore_stitches(explored->graph, scorer_, options_);
  if (candidates) {
    explored->candidates = std::move(*candidates);
  } else if (candidates.error().kind == ErrorKind::constraint) {
    explored->why = candidates.error();
  } else {
    return candidates.error();
  }
  const std::lock_guard lock(mutex_);
  const auto [entry, fresh] = kernels_.try_emplace(form.key, std::move(explored));
  return Entry{entry->second, std::move(form.parameter_order), std::move(form.result_order)};
}

std::size_t KernelCache::size() const {
  const std::lock_guard lock(mutex_);
  return kernels_.size();
}

}  // namespace stitch::search
